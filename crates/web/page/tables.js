// Tables of the program: searched, and changed by who has the token.

import { ask, entries } from "./api.js";
import { element, showTable, text, typed, whole } from "./format.js";

const PAGE = 100;

/** What was written as a value: JSON, or text without quotes. */
function value(written) {
  try { return JSON.parse(written); } catch { return written; }
}

export class TablesView {
  constructor(find, { attempt, confirm, mayWrite }) {
    Object.assign(this, { attempt, confirm, mayWrite, tables: [], found: [], last: null });
    for (const id of ["table", "text", "table-about", "entries", "more", "set", "set-key", "set-value", "search"]) {
      this[id] = find(id);
    }
    this.search.addEventListener("submit", (event) => { event.preventDefault(); attempt(() => this.load()); });
    this.table.addEventListener("change", () => { this.text.value = ""; attempt(() => this.load()); });
    this.more.addEventListener("click", () => attempt(() => this.load(true)));
    this.set.addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(() => this.put(this["set-key"].value, value(this["set-value"].value)));
    });
  }

  /** Asks what tables there are, and shows the one that is chosen. */
  async open() {
    this.tables = await ask("tables");
    const chosen = this.table.value;
    this.table.replaceChildren(...this.tables.map((own) => element("option", { value: own.name }, own.name)));
    if (this.tables.some((own) => own.name === chosen)) this.table.value = chosen;
    await this.load();
  }

  async load(goesOn = false) {
    const name = this.table.value;
    if (!name) return showTable(this.entries, [], [], "The program has no tables.");
    const query = new URLSearchParams({ limit: PAGE, search: this.text.value });
    if (goesOn && this.last) query.set("after", typed(this.last));
    const { entries: found, more } = await ask(`${entries(name)}?${query}`);
    this.found = goesOn ? [...this.found, ...found] : found;
    this.last = this.found.at(-1)?.key ?? null;
    this.more.hidden = !more;
    this.render();
  }

  render() {
    const own = this.tables.find((table) => table.name === this.table.value);
    if (own) {
      const { kind, key, value, entries: count, capacity } = own;
      this["table-about"].textContent =
        `${kind}: ${key} → ${value}; ${whole(count)} of ${whole(capacity)} entries. Shown: ${whole(this.found.length)}.`;
    }
    this.set.hidden = !this.mayWrite();
    const rows = this.found.map((entry) => {
      const row = [[text(entry.key), "code"], [text(entry.value), "code"]];
      return this.mayWrite() ? [...row, this.buttons(entry)] : row;
    });
    showTable(this.entries, this.mayWrite() ? ["Key", "Value", "Change"] : ["Key", "Value"], rows, "No entry.");
  }

  buttons(entry) {
    const shown = text(entry.key);
    const edit = () => {
      this["set-key"].value = shown;
      this["set-value"].value = JSON.stringify(entry.value);
      this["set-value"].focus();
    };
    const remove = async () => {
      if (!await this.confirm(`Remove ${shown} from ${this.table.value}?`)) return;
      await this.attempt(async () => {
        await ask(entries(this.table.value, typed(entry.key)), "DELETE");
        await this.open();
      });
    };
    const button = (label, onclick) => element("button", { type: "button", onclick, "aria-label": `${label} ${shown}` }, label);
    return element("span", {}, button("Edit", edit), " ", button("Remove", remove));
  }

  async put(key, value) {
    await ask(entries(this.table.value, key), "PUT", { value });
    this["set-key"].value = "";
    this["set-value"].value = "";
    await this.open();
  }
}
