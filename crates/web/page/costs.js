// Costs of packets: how long they are in each PPF, measured for a while, and how often PPFs access them.

import { ask } from "./api.js";
import { bars } from "./chart.js";
import { element, nanoseconds, showTable, whole } from "./format.js";

const AGAIN = 500;

export class CostsView {
  constructor(find, { attempt, mayWrite }) {
    Object.assign(this, { attempt, mayWrite, selected: null, found: { left_ms: 0, measured_ms: 0, ppfs: [], tables: [] }, timer: 0 });
    for (const id of ["timing", "timing-seconds", "timing-stop", "timing-about", "times", "look-ups", "histogram", "accesses",
      "accesses-measure"]) this[id] = find(id);
    this.timing.addEventListener("submit", (event) => { event.preventDefault(); attempt(() => this.measure()); });
    this["timing-stop"].addEventListener("click", () => attempt(async () => { await ask("timing", "DELETE"); await this.open(); }));
    this["accesses-measure"].addEventListener("click", () => attempt(() => this.explain()));
  }

  async measure() {
    await ask("timing", "POST", { seconds: Number(this["timing-seconds"].value) });
    await this.open();
  }

  /** Looks at what was measured, and once more as long as it is. */
  async open() {
    clearTimeout(this.timer);
    this.found = await ask("timing");
    this.render();
    if (this.found.left_ms > 0) {
      this.timer = setTimeout(() => { if (!this.timing.closest("section").hidden) this.attempt(() => this.open()); }, AGAIN);
    }
  }

  render() {
    const { left_ms: left, measured_ms: measured, ppfs, tables, error } = this.found;
    this.timing.hidden = !this.mayWrite();
    this["timing-stop"].disabled = left === 0;
    const seconds = (measured / 1000).toFixed(1);
    this["timing-about"].textContent = error ?? (left > 0 ? `Measured for ${seconds} s, ${Math.ceil(left / 1000)} s left`
      : measured > 0 ? `Measured for ${seconds} s` : "Not measured yet.");
    const all = ppfs.reduce((sum, own) => sum + own.total_ns, 0);
    const choose = (own) => element("button", { type: "button", "aria-pressed": String(own.ppf === this.selected),
      onclick: () => { this.selected = own.ppf; this.render(); } }, own.ppf);
    const rows = ppfs.map((own) => [choose(own), own.engine ?? "", ...[whole(own.count),
      nanoseconds(own.total_ns / own.count), ...[own.p50_ns, own.p90_ns, own.p99_ns].map((bound) => `<${nanoseconds(bound)}`),
      `${(own.total_ns * 100 / all).toFixed(1)} %`].map((cell) => [cell, "number"])]);
    const focused = document.activeElement?.closest("#times") && document.activeElement.textContent;
    showTable(this.times, ["PPF", "Engine", "Packets", "Mean", "50 %", "90 %", "99 %", "Of all time"], rows,
      measured > 0 ? "No packet came." : "");
    if (focused) [...this.times.querySelectorAll("button")].find((own) => own.textContent === focused)?.focus();
    const found = tables.map((own) => [own.table, ...[whole(own.count), whole(own.missed),
      `${(own.missed * 100 / own.count).toFixed(1)} %`].map((cell) => [cell, "number"])]);
    showTable(this["look-ups"], ["Table", "Look-ups", "Found nothing", "Of all"], found, "");
    this.showHistogram(ppfs.find((own) => own.ppf === this.selected));
  }

  showHistogram(own) {
    if (!own) return this.histogram.replaceChildren();
    const place = element("div");
    this.histogram.replaceChildren(element("h4", {}, own.ppf), place);
    bars(place, own.buckets.map((bucket) => [`<${nanoseconds(bucket.below_ns)}`, bucket.count / own.count]));
  }

  async explain() {
    const { packets, ppfs } = await ask("costs");
    const kinds = ["accesses", "bytes", "descriptor", "instructions"];
    const rows = ppfs.map((own) => [own.ppf, own.engine ?? "",
      ...kinds.flatMap((kind) => [own.base[kind], own.optimised[kind]].map((cost) => [cost.toFixed(1), "number"]))]);
    showTable(this.accesses, ["PPF", "Engine", "Accesses", "optimised", "Bytes", "optimised", "Descriptor", "optimised",
      "Instructions", "optimised"], rows, "No packet was traced to measure with.");
    if (packets > 0) this.accesses.prepend(element("p", {}, `Of ${whole(packets)} packets`));
  }
}
