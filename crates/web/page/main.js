// The page: what is shown, who may change something, and what comes each second.

import { Refused, ask, useToken, watch } from "./api.js";
import { ControllersView } from "./controllers.js";
import { CostsView } from "./costs.js";
import { duration, element, short, showTable, text, whole } from "./format.js";
import { GraphView } from "./graph.js";
import { Overview } from "./overview.js";
import { TablesView } from "./tables.js";
import { TracesView } from "./traces.js";

const VIEWS = ["overview", "graph", "traces", "costs", "tables", "controllers", "instance-view"];
const HISTORY = 10e3, AGAIN = 2e3;

const find = (id) => document.getElementById(id);
let rights = { read: true, write: false, token: false };
let before = null, now = null, shownGraph = "", shownView = VIEWS[0];

/** Does something; what goes wrong is told. */
async function attempt(act) {
  try {
    await act();
    find("problem").hidden = true;
  } catch (error) {
    tell(error);
  }
}

function tell(error) {
  find("problem").textContent = error.message;
  find("problem").hidden = false;
  if (error instanceof Refused && error.status === 401) findRights();
}

/** Asks in a dialog. */
function confirm(question) {
  const dialog = find("confirm");
  find("confirm-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

const graph = new GraphView(find("drawing"), find("node"), find("wires"));
const shared = { attempt, confirm, mayWrite: () => rights.write, walk };
const views = { overview: new Overview(find), traces: new TracesView(find, shared), costs: new CostsView(find, shared),
  tables: new TablesView(find, shared), controllers: new ControllersView(find, shared) };

/** Shows the way of a traced packet on the graph; without one, none. */
function walk(trace) {
  graph.walk(trace);
  find("walked").hidden = !trace;
  if (!trace) return;
  find("walked-text").textContent = `Packet ${trace.number} of port ${trace.port}${trace.dropped ? `, dropped: ${trace.dropped}` : ""}`;
  location.hash = "#graph";
}

function current() {
  const named = location.hash.slice(1);
  if (VIEWS.includes(named)) shownView = named;
  // The link that skips to the content leads to the view that is shown.
  else if (named !== "main") shownView = VIEWS[0];
  return shownView;
}

async function openView() {
  const view = current();
  VIEWS.forEach((own) => { find(own).hidden = own !== view; });
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  render();
  if (rights.read && views[view]?.open) await attempt(() => views[view].open());
}

async function findRights() {
  rights = await ask("access").catch(() => rights);
  document.querySelectorAll("[data-without-token]").forEach((own) => {
    own.hidden = rights.write;
    if (!rights.token) own.textContent = "Nothing can be changed here: the configuration has no token_file in [web].";
  });
  find("token-button").hidden = !rights.token;
  find("token-button").textContent = rights.write ? "Token ✓" : "Token…";
  find("reload").disabled = find("stop").disabled = !rights.write;
  views.tables.render();
  views.traces.render();
  views.costs.render();
}

/** The rate of a counter, by its path: per second, between the last two looks. */
function rate(...path) {
  const of = (look) => path.reduce((own, name) => own?.[name], look?.counters) ?? 0;
  if (!before) return 0;
  const seconds = (now.time_ms - before.time_ms) / 1000;
  return seconds > 0 ? Math.max(0, of(now) - of(before)) / seconds : 0;
}

function render() {
  if (!now) return;
  const { status, counters } = now;
  const told = { counters, rate };
  find("instance").textContent = status.instance;
  document.title = `${status.instance} – Millrace`;
  find("about").textContent = `${status.program}, ${status.engine}, up ${duration(status.uptime_ms)}`;
  if (current() === "overview") views.overview.update(told);
  if (current() === "graph") graph.update(told);
  if (current() === "traces") views.traces.update(told);
  if (current() === "controllers") views.controllers.update(status);
  if (current() === "instance-view") showStatus(status);
}

function showStatus(status) {
  const frames = Object.entries(status.holders).filter(([, count]) => count > 0)
    .map(([holder, count]) => `${holder} ${whole(count)}`).join(", ");
  const rows = [["Version", status.version], ["Process", status.pid], ["Program", status.program],
    ["Engine", status.kernel && status.kernel.state !== "running"
      ? `${status.engine}, ${status.kernel.state}${status.kernel.reason ? `: ${status.kernel.reason}` : ""}` : status.engine], ["Workers", `${status.workers}, ${status.mode}`],
    ["CPUs", status.cpus.length ? status.cpus.join(", ") : "any"], ["Frames", `${whole(status.frames)}: ${frames}`],
    ...Object.entries(status.ports).map(([name, device]) => [`Port ${name}`, device]),
    ...Object.entries(status.timers).map(([name, own]) => [`Timer ${name}`, `${whole(own.runs)} runs`])];
  showTable(find("status"), ["What", ""], rows);
  const workers = now.counters.workers.map((own, at) => [String(at),
    ...[`${(rate("workers", at, "cpu_ns") / 1e7).toFixed(0)} %`, short(rate("workers", at, "packets")),
      short(rate("workers", at, "rounds")), short(rate("workers", at, "idle")), short(rate("workers", at, "sleeps"))]
      .map((cell) => [cell, "number"])]);
  showTable(find("workers"), ["Worker", "CPU", "Packets/s", "Rounds/s", "Idle rounds/s", "Sleeps/s"], workers);
}

async function changedProgram() {
  const found = await ask("graph");
  const ports = Object.keys(now.counters.ports);
  const signature = JSON.stringify([found, ports]);
  if (signature === shownGraph) return;
  shownGraph = signature;
  graph.show(found, ports);
}

/** Views for ever: where the connection ends, once more. */
async function follow() {
  const state = (kind, said) => {
    if (find("connection").textContent === said) return;
    find("connection").className = kind;
    find("connection").textContent = said;
  };
  for (;;) {
    let names = "", problem = null;
    await findRights();
    const looked = (look) => {
      [before, now] = [now && now.status.pid === look.status.pid ? now : null, look];
      state("live", "Live");
      // Other channels: another program took over.
      const own = JSON.stringify([Object.keys(look.counters.channels), Object.keys(look.counters.ports)]);
      if (own !== names) { names = own; attempt(changedProgram); }
      render();
    };
    await watch(looked, stopped.signal).catch((error) => { problem = error; });
    if (problem?.name !== "AbortError") {
      state("lost", problem?.status ? problem.message : "Not connected");
      await new Promise((done) => setTimeout(done, AGAIN));
    }
    stopped = new AbortController();
  }
}

let stopped = new AbortController();

find("token-button").addEventListener("click", () => find("token-dialog").showModal());
find("token-dialog").addEventListener("close", async () => {
  const { returnValue } = find("token-dialog");
  if (returnValue === "use") useToken(find("token").value);
  if (returnValue === "forget") useToken("");
  find("token").value = "";
  if (!["use", "forget"].includes(returnValue)) return;
  await findRights();
  if (returnValue === "use" && !rights.write) tell(new Error("This is not the token."));
  else { find("problem").hidden = true; stopped.abort(); await openView(); }
});
find("walked-forget").addEventListener("click", () => walk(null));
find("reload").addEventListener("click", async () => {
  if (!await confirm("Read program and configuration again and put them in force?")) return;
  attempt(async () => {
    const reloaded = await ask("reload", "POST");
    const rows = Object.entries(reloaded).map(([name, own]) => [name, text(own)]);
    find("done").replaceChildren(element("h3", {}, "In force"), element("div", { class: "scroll" }));
    showTable(find("done").lastChild, ["What", ""], rows);
    await changedProgram();
  });
});
find("stop").addEventListener("click", async () => {
  if (!await confirm("End this instance? Its packets are no longer forwarded.")) return;
  attempt(async () => { await ask("stop", "POST"); find("done").textContent = "It ends."; });
});
addEventListener("hashchange", openView);
setInterval(() => { if (current() === "overview" && rights.read && !document.hidden) attempt(() => views.overview.open()); }, HISTORY);

await findRights();
follow();
openView();
