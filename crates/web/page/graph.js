// The program as a graph: PPFs as boxes by what runs them, channels with what goes through them.

import { drawn, element, short, showTable, whole } from "./format.js";
import { place } from "./layout.js";

const MOST_PORTS = 12, HEIGHT = 50, SMALLEST = 0.72;
const ENGINES = { xdp: "kernel: XDP", tc: "kernel: traffic control", worker: "workers", interp: "interpreter" };
const ENDS = { rx: "from ports", tx: "to ports", host: "kernel's own stack", timer: "timer", controller: "controller",
  queue: "queue", group: "group", port: "port" };

export class GraphView {
  constructor(drawing, details, wires) {
    Object.assign(this, { drawing, details, wires, graph: null, selected: null, nodes: [], edges: [] });
    this.walk(null);
    // A phone has its layers one below the other.
    this.narrow = matchMedia("(max-width: 50rem)");
    this.narrow.addEventListener("change", () => { if (this.graph) this.show(this.graph, this.ports); });
  }

  /** Another program, between these ports. */
  show(graph, ports) {
    const own = new Set(graph.nodes.map((node) => node.name));
    const nodes = graph.nodes.map((node) => ({ ...node, label: node.name }));
    const edges = new Map();
    const wire = (from, to, channel) => {
      const key = JSON.stringify([from, to]);
      if (!edges.has(key)) edges.set(key, { from, to, channels: [], port: null });
      if (channel) edges.get(key).channels.push(channel);
      return edges.get(key);
    };
    if (ports.length <= MOST_PORTS && !this.narrow.matches) {
      for (const port of ports) {
        for (const [end, field] of [["rx", "rx_packets"], ["tx", "tx_packets"]]) {
          if (!own.has(end)) continue;
          const name = `port ${port} ${end}`;
          nodes.push({ name, label: port, kind: "port", drops: [] });
          const edge = end === "rx" ? wire(name, end) : wire(end, name);
          edge.port = { name: port, field };
        }
      }
    }
    graph.edges.forEach((edge) => wire(edge.from, edge.to, edge));
    Object.assign(this, { graph, ports, nodes, edges: [...edges.values()] });
    const users = new Map();
    nodes.flatMap((node) => node.drops ?? []).forEach((own) => users.set(own, (users.get(own) ?? 0) + 1));
    this.users = users;
    if (!nodes.some((node) => node.name === this.selected)) this.selected = null;
    this.draw();
  }

  draw() {
    for (const node of this.nodes) {
      const small = ENGINES[node.engine] ?? ENDS[node.kind] ?? "";
      node.small = small;
      node.width = Math.max(node.label.length * 7.4, small.length * 6.2, 84) + 14;
      node.height = HEIGHT;
    }
    const { width, height } = place(this.nodes, this.edges, this.narrow.matches);
    const marker = drawn("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8,
      orient: "auto", markerUnits: "userSpaceOnUse" }, drawn("path", { d: "M0 0L8 4L0 8z" }));
    const edges = this.edges.map((edge) => this.drawEdge(edge));
    const nodes = this.nodes.map((node) => this.drawNode(node));
    // As large as there is room, as long as it can be read.
    const room = this.drawing.clientWidth - 18, scale = Math.max(SMALLEST, Math.min(1, room / width));
    this.drawing.replaceChildren(drawn("svg", { width: Math.ceil(width * scale), height: Math.ceil(height * scale),
      viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`, role: "group" },
    drawn("defs", {}, marker), ...edges, ...nodes));
    if (this.narrow.matches) this.drawing.scrollLeft = (this.drawing.scrollWidth - this.drawing.clientWidth) / 2;
    this.drawnFor = this.drawing.clientWidth;
    this.markWay();
    this.update(this.now);
  }

  drawEdge(edge) {
    const [first, ...others] = edge.points, down = this.narrow.matches;
    let path = `M${first.x} ${first.y}`, before = first;
    for (const point of others) {
      const middle = down ? (before.y + point.y) / 2 : (before.x + point.x) / 2;
      path += down ? `C${before.x} ${middle} ${point.x} ${middle} ${point.x} ${point.y}`
        : `C${middle} ${before.y} ${middle} ${point.y} ${point.x} ${point.y}`;
      before = point;
    }
    const at = Math.floor((edge.points.length - 1) / 2), a = edge.points[at], b = edge.points[at + 1];
    edge.line = drawn("path", { d: path, "marker-end": "url(#arrow)" });
    edge.text = drawn("text", { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 + 4, "text-anchor": "middle" });
    const names = edge.channels.map((channel) => `${channel.channel}: ${channel.protocol}`).join("\n");
    edge.group = drawn("g", { class: "edge", "aria-hidden": "true" }, drawn("title", {}, names || edge.from), edge.line,
      edge.text);
    return edge.group;
  }

  drawNode(node) {
    const x = node.x - node.width / 2, y = node.y - node.height / 2;
    const line = (dy, text, kind) => drawn("text", { x: node.x, y: y + dy, "text-anchor": "middle", class: kind }, text);
    node.dropped = line(45, "", "small bad");
    const select = () => { this.selected = this.selected === node.name ? null : node.name; this.update(this.now); };
    const key = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      select();
    };
    node.group = drawn("g", { class: `node ${node.engine ?? "other"}`, tabindex: 0, role: "button", onclick: select,
      onkeydown: key }, drawn("rect", { x, y, width: node.width, height: node.height, rx: 6 }),
      line(18, node.label), line(32, node.small, "small"), node.dropped);
    return node.group;
  }

  /** Marks the way of a traced packet, and what was made of it; without one, none. */
  walk(trace) {
    const steps = trace?.steps ?? [];
    this.way = { ppfs: new Set(), channels: new Set(), ends: new Set(), lost: new Set() };
    let ppf = "";
    for (const own of steps) {
      if (own.step === "enter") {
        ppf = own.ppf;
        this.way.ppfs.add(ppf);
        if (own.channel) this.way.channels.add(own.channel);
      } else if (own.step === "dropped") this.way.lost.add(ppf);
      else if (own.step === "left") {
        if (own.channel) this.way.channels.add(own.channel);
        const [kind, ...rest] = own.to.split(" "), name = rest.join(" ");
        if (kind === "port") this.way.ends.add("tx").add(`port ${name} tx`);
        else this.way.ends.add(kind === "controller" ? name : own.to);
      }
    }
    if (trace) this.way.ends.add("rx").add(`port ${trace.port} rx`);
    this.markWay();
  }

  markWay() {
    const { ppfs, channels, ends, lost } = this.way;
    const on = (name) => ppfs.has(name) || ends.has(name);
    for (const node of this.nodes) {
      node.group.classList.toggle("walked", on(node.name));
      node.group.classList.toggle("lost", lost.has(node.name));
    }
    for (const edge of this.edges) {
      // Others put packets into the same channel.
      const walked = on(edge.from) && (edge.port ? on(edge.to) : edge.channels.some((own) => channels.has(own.channel)));
      edge.group.classList.toggle("walked", walked);
    }
  }

  /** What goes on now: `counters`, and the rate of a counter by its path. */
  update(now) {
    this.now = now;
    if (!now || !this.graph) return;
    // It was drawn while it was not shown, or the window has another size now.
    if (this.drawing.clientWidth !== this.drawnFor) return this.draw();
    const { rate } = now;
    for (const edge of this.edges) {
      edge.rate = edge.port ? rate("ports", edge.port.name, edge.port.field)
        : edge.channels.reduce((sum, own) => sum + rate("channels", own.channel), 0);
      edge.text.textContent = edge.rate > 0 ? short(edge.rate) : "";
      edge.group.classList.toggle("busy", edge.rate > 0);
      edge.line.setAttribute("stroke-width", (1 + Math.log10(1 + (edge.rate || 0)) * 0.8).toFixed(1));
    }
    for (const node of this.nodes) {
      const reasons = node.drops ?? [];
      const dropped = reasons.reduce((sum, reason) => sum + rate("drops", reason), 0);
      const isShared = reasons.some((reason) => this.users.get(reason) > 1 && rate("drops", reason) > 0);
      node.dropped.textContent = dropped > 0 ? `drops ${isShared ? "≤ " : ""}${short(dropped)}/s` : "";
      const through = node.kind === "ppf" ? `, ${short(rate("ppfs", node.name))} packets/s` : "";
      node.group.setAttribute("aria-label", `${node.label}, ${node.small}${through}, ${node.dropped.textContent}`);
      node.group.setAttribute("aria-pressed", String(node.name === this.selected));
    }
    this.showDetails(now);
    const rows = this.graph.edges.map((edge) => [edge.from, edge.to, edge.channel, edge.protocol,
      [short(rate("channels", edge.channel)), "number"], [whole(now.counters.channels[edge.channel] ?? 0), "number"]]);
    showTable(this.wires, ["From", "To", "Channel", "Protocol", "Packets/s", "Packets"], rows);
  }

  showDetails({ counters, rate }) {
    const node = this.nodes.find((own) => own.name === this.selected);
    if (!node) {
      this.details.replaceChildren(element("p", { class: "hint" }, "Choose a node to see why it drops packets."));
      return;
    }
    if (this.details.dataset.node !== node.name || !this.details.querySelector("div")) {
      this.details.dataset.node = node.name;
      this.details.replaceChildren(element("h3", {}, `${node.label}: ${node.small}`), element("div", { class: "scroll" }));
    }
    const rows = (node.drops ?? []).map((reason) => [reason, [short(rate("drops", reason)), "number"],
      [whole(counters.drops[reason] ?? 0), "number"],
      this.users.get(reason) > 1 ? "counted together with other PPFs" : ""]);
    showTable(this.details.querySelector("div"), ["Drops by", "Drops/s", "Drops", ""], rows, "It drops no packet.");
  }
}
