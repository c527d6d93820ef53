// What controllers can be asked: sessions, servers, streams, origins, routes.

import { ask } from "./api.js";
import { element, nanoseconds, showTable, text, whole } from "./format.js";

const MOST = 500;

/** JSON as a person reads it: lists of objects as tables. */
function shown(json) {
  if (Array.isArray(json) && json.length && json.every((own) => own !== null && typeof own === "object" && !Array.isArray(own))) {
    const heads = [...new Set(json.slice(0, MOST).flatMap(Object.keys))];
    const cell = (own) => (own === undefined || own === null ? "" : typeof own === "number" ? [whole(own), "number"] : text(own));
    const place = element("div");
    showTable(place, heads, json.slice(0, MOST).map((own) => heads.map((head) => cell(own[head]))));
    if (json.length > MOST) place.append(element("p", { class: "hint" }, `The first ${MOST} of ${whole(json.length)}.`));
    return place;
  }
  if (json !== null && typeof json === "object" && !Array.isArray(json) && Object.keys(json).length) {
    const parts = Object.entries(json).map(([name, own]) => {
      const isDeep = own !== null && typeof own === "object";
      return isDeep ? element("div", {}, element("h3", {}, name), shown(own))
        : element("p", {}, `${name}: ${own === null ? "–" : text(own)}`);
    });
    return element("div", {}, ...parts);
  }
  if (Array.isArray(json) && !json.length) return element("p", { class: "hint" }, "None.");
  return element("pre", {}, typeof json === "string" ? json : JSON.stringify(json, null, 2));
}

export class ControllersView {
  constructor(find, { attempt, confirm }) {
    Object.assign(this, { offered: [], confirm });
    for (const id of ["states", "query", "queries", "with", "query-about", "answer"]) this[id] = find(id);
    this.queries.addEventListener("change", () => this.describe());
    this.query.addEventListener("submit", (event) => { event.preventDefault(); attempt(() => this.send()); });
  }

  async open() {
    this.offered = await ask("queries");
    const chosen = this.queries.value;
    const option = (own, at) => element("option", { value: at }, `${own.controller}: ${own.query}${own.changes ? " (changes)" : ""}`);
    this.queries.replaceChildren(...this.offered.map(option));
    if (chosen && chosen < this.offered.length) this.queries.value = chosen;
    this.query.hidden = !this.offered.length;
    this.describe();
  }

  describe() {
    const own = this.offered[this.queries.value];
    this["query-about"].textContent = own ? `${own.about}.` : "No controller of this program can be asked.";
    this.answer.replaceChildren();
  }

  async send() {
    const { controller, query, changes } = this.offered[this.queries.value];
    const written = this.with.value.trim();
    let argument = null;
    try { argument = written ? JSON.parse(written) : null; } catch { throw new Error(`not JSON: ${written}`); }
    if (changes && !await this.confirm(`Tell ${controller}: ${query} ${written}?`)) return;
    const path = `queries/${encodeURIComponent(controller)}/${encodeURIComponent(query)}`;
    this.answer.replaceChildren(shown(await ask(path, "POST", argument)));
  }

  /** What runs. */
  update(status) {
    const most = (times) => [times.count ? `< ${nanoseconds(times.p99_ns)}` : "", "number"];
    const rows = Object.entries(status.controllers).map(([name, own]) => [
      name, [own.state, own.state === "running" ? "" : "bad"], [whole(own.failures), "number"], own.error ?? "",
      most(own.wake), most(own.busy),
    ]);
    const heads = ["Controller", "State", "Failures", "Last error", "Woken in (99 %)", "Busy for (99 %)"];
    showTable(this.states, heads, rows, "The program has no controllers.");
  }
}
