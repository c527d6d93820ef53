// Places the nodes of a graph in layers (after Sugiyama): packets go from one layer to a later one.

const SWEEPS = 8;

/** Layers by the longest way from a start; edges that lead back are left out of it, and told. */
function layers(names, edges) {
  const next = new Map(names.map((name) => [name, []]));
  edges.forEach((edge) => next.get(edge.from).push(edge));
  const back = new Set(), state = new Map(), order = [];
  const visit = (name) => {
    state.set(name, 1);
    for (const edge of next.get(name)) {
      if (state.get(edge.to) === 1) back.add(edge);
      else if (!state.has(edge.to)) visit(edge.to);
    }
    state.set(name, 2);
    order.unshift(name);
  };
  const hasInput = new Set(edges.map((edge) => edge.to));
  [...names.filter((name) => !hasInput.has(name)), ...names].forEach((name) => { if (!state.has(name)) visit(name); });
  const layer = new Map(names.map((name) => [name, 0]));
  for (const name of order) {
    for (const edge of next.get(name)) {
      if (!back.has(edge)) layer.set(edge.to, Math.max(layer.get(edge.to), layer.get(name) + 1));
    }
  }
  return { layer, back };
}

/**
 * Places nodes `{ name, width, height }` and edges `{ from, to }`; `down`: layers one below the other, else side by
 * side. Nodes get `x` and `y` of their middle, edges `points` from one node to the other.
 */
export function place(nodes, edges, down) {
  const { layer, back } = layers(nodes.map((node) => node.name), edges);
  const rows = [];
  const add = (item, at) => { (rows[at] ??= []).push(item); return item; };
  const items = new Map(nodes.map((node) => [node.name,
    add({ node, along: down ? node.height : node.width, across: (down ? node.width : node.height) + 18, in: [], out: [] },
      layer.get(node.name))]));
  const chains = edges.map((edge) => {
    const turned = back.has(edge), first = turned ? edge.to : edge.from, last = turned ? edge.from : edge.to;
    const chain = [items.get(first)];
    for (let at = layer.get(first) + 1; at < layer.get(last); at += 1) {
      chain.push(add({ along: 0, across: 16, in: [], out: [] }, at));
    }
    chain.push(items.get(last));
    chain.slice(1).forEach((item, at) => { chain[at].out.push(item); item.in.push(chain[at]); });
    return turned ? chain.toReversed() : chain;
  });
  const number = (row) => row.forEach((item, at) => { item.at = at; });
  rows.forEach(number);
  // Each goes to the middle of those it is wired to, first from the start on, then from the end on.
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    for (const row of forth ? rows : rows.toReversed()) {
      const middle = (item) => {
        const others = forth ? item.in : item.out;
        return others.length ? others.reduce((sum, own) => sum + own.at, 0) / others.length : item.at;
      };
      const wanted = new Map(row.map((item) => [item, middle(item)]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      number(row);
    }
  }
  const length = (row) => row.reduce((sum, item) => sum + item.across, 0);
  const most = Math.max(0, ...rows.map(length));
  const gap = down ? 52 : 48;
  let along = 8;
  for (const row of rows) {
    const thick = Math.max(...row.map((item) => item.along));
    let across = (most - length(row)) / 2;
    for (const item of row) {
      item.a = along + thick / 2;
      item.b = across + item.across / 2;
      across += item.across;
    }
    along += thick + gap;
  }
  const at = (a, b) => (down ? { x: b, y: a } : { x: a, y: b });
  for (const { node, a, b } of items.values()) Object.assign(node, at(a, b));
  edges.forEach((edge, index) => {
    const chain = chains[index], turned = back.has(edge);
    edge.points = chain.map((item, place) => {
      const half = item.along / 2, side = place === 0 ? 1 : place === chain.length - 1 ? -1 : 0;
      return at(item.a + (turned ? -side : side) * half, item.b);
    });
  });
  const end = along + 8 - gap;
  return down ? { width: most, height: end } : { width: end, height: most };
}
