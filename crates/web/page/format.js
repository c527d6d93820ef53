// Numbers, times and elements as a person reads them.

const UNITS = ["", "k", "M", "G", "T"];

/** A rate with three digits: 0, 0.5, 12.3k. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  let unit = 0;
  while (Math.abs(number) >= 999.5 && unit < UNITS.length - 1) { number /= 1000; unit += 1; }
  const digits = number === 0 || Math.abs(number) >= 99.95 ? 0 : Math.abs(number) >= 9.995 ? 1 : 2;
  return String(Number(number.toFixed(digits))) + UNITS[unit];
}

/** A whole number, in groups of three digits. */
export function whole(number) {
  return Number(number).toLocaleString("en").replaceAll(",", "\u202f");
}

/** `2 h 05 min`. */
export function duration(milliseconds) {
  const s = Math.floor(milliseconds / 1000), pad = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${pad(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${pad(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${pad(Math.floor(s / 3600) % 24)} h`;
}

/** A time in nanoseconds, in a unit of its size: `85 ns`. */
export function nanoseconds(time) {
  if (time < 1e4) return `${time.toFixed(0)} ns`;
  return time < 1e7 ? `${(time / 1e3).toFixed(1)} µs` : `${(time / 1e6).toFixed(1)} ms`;
}

/** A key or value as it is typed on the command line. */
export function typed(json) {
  if (Array.isArray(json)) return `[${json.map(typed).join(", ")}]`;
  if (json !== null && typeof json === "object") {
    const fields = Object.entries(json).map(([name, value]) => `${JSON.stringify(name)} = ${typed(value)}`);
    return `{ ${fields.join(", ")} }`;
  }
  return JSON.stringify(json);
}

/** The same to be read: without the quotes around what is text alone. */
export function text(json) {
  return typeof json === "string" ? json : typed(json).replace(/"([A-Za-z_]\w*)" =/g, "$1 =");
}

/** An element with attributes, listeners (`onclick`) and content. */
export function element(name, attributes = {}, ...content) {
  return filled(document.createElement(name), attributes, content);
}

/** An element of a drawing. */
export function drawn(name, attributes = {}, ...content) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);
}

function filled(own, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) own.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) own.setAttribute(name, value);
  }
  own.append(...content.filter((part) => part !== undefined && part !== null));
  return own;
}

/** A table; a cell is text, or `[text, class]`, or an element. Only what differs from what is shown changes. */
export function showTable(place, heads, rows, empty = "None.") {
  const cells = rows.map((row) => row.map((cell) => (Array.isArray(cell) ? cell : [cell, ""])));
  const signature = JSON.stringify([heads, cells.map((row) => row.map(([, kind]) => kind))]);
  const hasElements = cells.some((row) => row.some(([what]) => what instanceof Node));
  if (!hasElements && place.dataset.signature === signature && rows.length) {
    const shown = place.querySelectorAll("tbody td");
    cells.flat().forEach(([what], at) => { if (shown[at].textContent !== String(what)) shown[at].textContent = what; });
    return;
  }
  place.dataset.signature = signature;
  if (!rows.length) return place.replaceChildren(element("p", { class: "hint" }, empty));
  const kindOf = (at) => (cells[0][at]?.[1].includes("number") ? "number" : undefined);
  const head = element("tr", {}, ...heads.map((own, at) => element("th", { scope: "col", class: kindOf(at) }, own)));
  const body = cells.map((row) => element("tr", {}, ...row.map(([what, kind]) =>
    element("td", { class: kind || undefined }, what instanceof Node ? what : String(what)))));
  place.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}
