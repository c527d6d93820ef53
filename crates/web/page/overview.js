// Ports, drops, and what they were in the last hour.

import { ask } from "./api.js";
import { chart, rates, sum } from "./chart.js";
import { short, showTable, whole } from "./format.js";

export class Overview {
  constructor(find) {
    for (const id of ["ports", "drops", "chart-packets", "chart-bits", "chart-drops"]) this[id] = find(id);
  }

  /** Asks for the last hour. */
  async open() {
    const { times_ms: times, ports, drops } = await ask("history");
    const of = (field) => rates(times, sum(times.length, Object.values(ports).map((port) => port[field])));
    const bits = (field) => of(field).map((rate) => (rate === null ? null : rate * 8));
    chart(this["chart-packets"], times, [["received", of("rx_packets")], ["sent", of("tx_packets")]]);
    chart(this["chart-bits"], times, [["received", bits("rx_bytes")], ["sent", bits("tx_bytes")]]);
    const all = Object.values(drops);
    // Where nothing was dropped, that is known.
    const dropped = all.length ? sum(times.length, all).map((own) => own ?? 0) : times.map(() => 0);
    chart(this["chart-drops"], times, [["drops", rates(times, dropped)]]);
  }

  update({ counters, rate }) {
    const number = (text) => [text, "number"];
    const ports = Object.entries(counters.ports).map(([name, port]) => {
      const of = (field, factor = 1) => number(short(rate("ports", name, field) * factor));
      const lost = port.rx_dropped + port.tx_failed + port.oversize + port.unfinished;
      const queue = (packets, places) => places === 0 ? number("") :
        [`${whole(packets)} of ${whole(places)}`, packets * 2 > places ? "number bad" : "number"];
      return [name, [port.device, "code"], of("rx_packets"), of("rx_bytes", 8), of("tx_packets"), of("tx_bytes", 8),
        number(whole(port.rx_packets)), number(whole(port.tx_packets)), [whole(lost), lost ? "number bad" : "number"],
        queue(port.rx_queued, port.rx_places), queue(port.tx_queued, port.tx_places),
        [port.error ?? "", port.error ? "bad" : ""]];
    });
    showTable(this.ports, ["Port", "Device", "Rx packets/s", "Rx bit/s", "Tx packets/s", "Tx bit/s", "Received", "Sent",
      "Lost at the port", "Rx queue", "Tx queue", "Error"], ports);
    const drops = Object.entries(counters.drops).filter(([, count]) => count > 0)
      .map(([reason, count]) => [reason, rate("drops", reason), count]).sort((a, b) => b[1] - a[1] || b[2] - a[2])
      .map(([reason, now, count]) => [reason, [short(now), now > 0 ? "number bad" : "number"], number(whole(count))]);
    showTable(this.drops, ["Reason", "Drops/s", "Drops"], drops, "No packet was dropped.");
  }
}
