// Rates over the last hour, and shares.

import { drawn, element, short } from "./format.js";

const WIDTH = 600, HEIGHT = 120, HOUR = 3600e3;

/** Rates of counters by sample: null where one of two samples is not known. */
export function rates(times, values) {
  return values.map((now, at) => {
    const before = at > 0 ? values[at - 1] : null;
    if (now === null || before === null) return null;
    return Math.max(0, now - before) / ((times[at] - times[at - 1]) / 1000);
  });
}

/** Sums of counters by sample, of those that are known. */
export function sum(count, all) {
  return Array.from({ length: count }, (_, at) => {
    const known = all.map((values) => values[at]).filter((value) => value !== null && value !== undefined);
    return known.length ? known.reduce((a, b) => a + b, 0) : null;
  });
}

/** Draws series: `[name, rates]`, two at most. */
export function chart(place, times, series) {
  const most = Math.max(1e-9, ...series.flatMap(([, values]) => values.map((value) => value ?? 0)));
  const end = times.at(-1) ?? 0;
  const path = (values) => {
    let out = "", pen = false;
    values.forEach((value, at) => {
      if (value === null) { pen = false; return; }
      const x = WIDTH * (1 - (end - times[at]) / HOUR), y = HEIGHT - 4 - (HEIGHT - 12) * (value / most);
      out += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = true;
    });
    return out;
  };
  const last = (values) => short(values.at(-1) ?? NaN);
  const highest = (values) => short(Math.max(0, ...values.map((value) => value ?? 0)));
  const said = series.map(([name, values]) => `${name} ${last(values)} now, ${highest(values)} at most`).join("; ");
  const lines = series.map(([, values], at) => drawn("path", { d: path(values), class: at ? "second" : "first" }));
  const svg = drawn("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none",
    role: "img", "aria-label": said }, ...lines);
  place.replaceChildren(svg, element("p", { class: "now" }, said));
}

/** Draws shares of a whole as bars: `[label, share]`. */
export function bars(place, all) {
  const most = Math.max(1e-9, ...all.map(([, share]) => share)), LINE = 18, LABEL = 90, VALUE = 60;
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  const rows = all.flatMap(([label, share], at) => {
    const y = at * LINE, width = (WIDTH - LABEL - VALUE) * (share / most);
    return [drawn("text", { x: LABEL - 8, y: y + 13, "text-anchor": "end" }, label),
      drawn("rect", { x: LABEL, y: y + 2, width: Math.max(1, width).toFixed(1), height: LINE - 4 }),
      drawn("text", { x: (LABEL + width + 6).toFixed(1), y: y + 13 }, percent(share))];
  });
  const said = all.map(([label, share]) => `${label}: ${percent(share)}`).join("; ");
  place.replaceChildren(drawn("svg", { class: "bars", viewBox: `0 0 ${WIDTH} ${all.length * LINE}`, role: "img",
    "aria-label": said }, ...rows));
}
