// Traces: packets that are copied as they come in, and the way of each through the program.

import { ask } from "./api.js";
import { element, nanoseconds, showTable, text, whole } from "./format.js";

const AGAIN = 500, SHOWN = 200;

/** What a packet does, in a line, in the words of `millrace trace show`. */
function line(own) {
  const { table, value, done } = own, key = own.key === undefined ? "" : text(own.key);
  switch (own.step) {
    case "field": return `${own.name} ${own.written ? ":=" : "is"} ${value}`;
    case "header": return `head at ${own.protocol}`;
    case "lookup": return `look-up in ${table}: ${key} ${own.found === null ? "is not there" : `has ${text(own.found)}`}`;
    case "write": return key ? `${table}: ${key} := ${text(value)}${done ? "" : ", refused"}` : `entry of ${table}: ${text(value)}`;
    case "remove": return `${table}: ${key} removed${done ? "" : ", which is not there"}`;
    case "count": return `${own.counter}[${own.index}] += ${own.amount}`;
    case "made": return own.of === null ? "new" : `copy of packet ${own.of}`;
    case "held": return `held in ${table}`;
    case "dropped": return `dropped: ${own.reason}`;
    case "left": return `${own.channel ? `${own.channel} → ` : ""}${own.to}`;
    default: return `the rest is not known: ${own.why}`;
  }
}

/** How it ends, in a few words. */
function end(trace) {
  if (trace.dropped) return [`dropped: ${trace.dropped}`, "bad"];
  const last = trace.steps.findLast((own) => ["left", "held", "unknown"].includes(own.step));
  return last ? line({ ...last, channel: null }) : "";
}

export class TracesView {
  /** `walk` shows a trace on the graph. */
  constructor(find, { attempt, mayWrite, walk }) {
    Object.assign(this, { attempt, mayWrite, walk, selected: null, found: { wanted: 0, traces: [] }, timer: 0 });
    for (const id of ["trace", "trace-packets", "trace-port", "trace-where", "trace-drops", "trace-stop", "trace-about",
      "traces-list", "trace-steps"]) this[id] = find(id);
    this.trace.addEventListener("submit", (event) => { event.preventDefault(); attempt(() => this.add()); });
    this["trace-stop"].addEventListener("click", () => attempt(async () => { await ask("traces", "DELETE"); await this.open(); }));
  }

  async add() {
    const where = this["trace-where"].value.split(",").map((own) => own.trim()).filter((own) => own);
    const port = this["trace-port"].value || null;
    await ask("traces", "POST", { packets: Number(this["trace-packets"].value), port,
      drops_only: this["trace-drops"].checked, where });
    this.selected = null;
    await this.open();
  }

  /** Looks for what was traced, and once more as long as packets are awaited. */
  async open() {
    this.render();
    if (!this.mayWrite()) return;
    clearTimeout(this.timer);
    this.found = await ask("traces");
    this.render();
    if (this.found.wanted > 0) {
      this.timer = setTimeout(() => { if (!this.trace.closest("section").hidden) this.attempt(() => this.open()); }, AGAIN);
    }
  }

  /** The ports where packets may come in. */
  update({ counters }) {
    const names = Object.keys(counters.ports), select = this["trace-port"];
    if (JSON.stringify(names) === select.dataset.names) return;
    select.dataset.names = JSON.stringify(names);
    select.replaceChildren(element("option", { value: "" }, "any"), ...names.map((own) => element("option", {}, own)));
  }

  render() {
    const { wanted, traces } = this.found, may = this.mayWrite();
    this.trace.hidden = !may;
    this["trace-stop"].disabled = wanted === 0;
    this["trace-about"].textContent = wanted > 0 ? `${whole(traces.length)} traced, ${whole(wanted)} awaited`
      : traces.length ? `${whole(traces.length)} traced` : "";
    const choose = (own) => element("button", { type: "button", "aria-pressed": String(own.number === this.selected),
      onclick: () => { this.selected = own.number; this.render(); } }, String(own.number));
    const rows = traces.slice(-SHOWN).map((own) => [choose(own), own.port, [whole(own.bytes), "number"],
      [own.headers, "code"], end(own)]);
    const key = JSON.stringify([this.selected, traces.at(-1)?.at, traces.length]);
    if (this.shown !== key) {
      this.shown = key;
      showTable(this["traces-list"], ["Packet", "Port", "Bytes", "Headers", "End"], rows, may ? "No packet was traced." : "");
      this.showSteps(traces.find((own) => own.number === this.selected));
    }
  }

  showSteps(trace) {
    if (!trace) return this["trace-steps"].replaceChildren();
    const parts = [element("h3", {}, `Packet ${trace.number}`),
      element("p", {}, element("button", { type: "button", onclick: () => this.walk(trace) }, "Show its way on the graph"))];
    const of = (own) => (own.packet ? `packet ${own.packet}: ` : "");
    let list = null;
    for (const own of trace.steps) {
      if (own.step === "enter") {
        const where = [own.channel ? `by ${own.channel}` : "goes on", own.engine, `${whole(own.bytes)} bytes`,
          own.usual_ns ? `usually <${nanoseconds(own.usual_ns)}` : ""];
        const about = element("span", { class: "hint" }, where.filter((it) => it).join(", "));
        list = element("ul");
        parts.push(element("h4", {}, of(own) + own.ppf, " ", about), list);
        continue;
      }
      if (!list) parts.push(list = element("ul"));
      list.append(element("li", { class: own.step === "dropped" ? "bad" : undefined }, of(own) + line(own)));
    }
    this["trace-steps"].replaceChildren(...parts);
  }
}
