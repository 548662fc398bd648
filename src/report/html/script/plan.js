// The steps of the plan, each with what it was chosen over, and the graph of steps and of operations.

const ways = (title, list) =>
  list.length > 0 && [el("h3", {}, title),
    table(["", "time", "of the chosen", ""], list.map((way, place) => [place === 0 ? "chosen" : "instead", way.time, `${way.ratio.toFixed(2)}x`, way.what]))];

const showPlan = () => {
  const step = (step) => {
    const details = el("details", { class: "step" },
      el("summary", {}, el("span", { class: "what" }, step.name), el("span", { class: "how" }, step.layouts),
        el("span", { class: "fig", title: "what the fullest device receives" }, step.received),
        el("span", { class: "fig", title: "its time by itself" }, step.time),
        el("span", { class: "bar", title: `${(100 * step.part).toFixed(0)} % of the sum of all steps` }, el("i", { style: `width:${100 * step.part}%` }))),
      el("div", { class: "more" },
        el("p", {}, `line ${step.line}; limited by ${step.limit}; no schedule of it takes less than ${step.bound}`),
        step.reason && el("p", {}, `the bound: ${step.reason}`),
        step.method && el("p", {}, `done by ${step.method}`),
        step.case && el("p", {}, step.case),
        step.pinned && el("p", {}, step.pinned),
        ways("Ways to do it", step.ways), ways("Methods", step.methods)));
    return details;
  };
  const all = (open) => document.querySelectorAll("#plan details.step").forEach((details) => { details.open = open; });
  section("plan", "Plan",
    data.totals.map((line) => el("p", {}, line)),
    el("div", { class: "controls" }, button("unfold all steps", "unfold all", () => all(true)), button("fold all steps", "fold all", () => all(false))),
    data.steps.map(step),
    data.steps.length === 0 && el("p", { class: "soft" }, "nothing is to be done"));
};

// Layers by the longest way from an input; in each layer nodes stand near those that they take from.
const graphPicture = (label, graph) => {
  const count = graph.nodes.length;
  const [depth, from, to] = [new Array(count).fill(0), range(count).map(() => []), range(count).map(() => [])];
  graph.edges.forEach(([a, b]) => { from[b].push(a); to[a].push(b); });
  // Operands come first in the list.
  range(count).forEach((node) => from[node].forEach((operand) => { depth[node] = Math.max(depth[node], depth[operand] + 1); }));
  // What is given stands just before it is used.
  for (let node = count - 1; node >= 0; node -= 1) {
    if (from[node].length === 0 && to[node].length > 0) depth[node] = Math.min(...to[node].map((user) => depth[user])) - 1;
  }
  const layers = range(Math.max(0, ...depth) + 1).map(() => []);
  range(count).forEach((node) => layers[depth[node]].push(node));
  const place = new Array(count).fill(0);
  const spread = () => layers.forEach((layer) => layer.forEach((node, at) => { place[node] = at - (layer.length - 1) / 2; }));
  spread();
  const near = (links) => layers.forEach((layer) => {
    const wish = new Map(layer.map((node) => [node, links[node].length > 0 ? links[node].reduce((sum, other) => sum + place[other], 0) / links[node].length : place[node]]));
    layer.sort((a, b) => wish.get(a) - wish.get(b) || a - b);
    layer.forEach((node, at) => { place[node] = at - (layer.length - 1) / 2; });
  });
  range(3).forEach(() => { near(from); near(to); });
  near(from);
  const width = 40 + Math.min(320, 7.3 * Math.max(1, ...graph.nodes.flatMap((node) => node.lines.map((line) => line.length))));
  const [height, down] = [40, 74];
  const widest = Math.max(1, ...layers.map((layer) => layer.length));
  const x = (node) => (place[node] + (widest - 1) / 2) * (width + 16) + 8;
  const y = (node) => depth[node] * down + 8;
  const most = Math.floor((width - 12) / 7.3);
  return scroll(label, picture(label, widest * (width + 16) + 8, layers.length * down,
    graph.edges.map(([a, b]) => {
      const [x1, y1, x2, y2] = [x(a) + width / 2, y(a) + height, x(b) + width / 2, y(b)];
      return draw("path", { class: "edge", d: `M${x1},${y1}C${x1},${y1 + 20} ${x2},${y2 - 20} ${x2},${y2}` });
    }),
    graph.nodes.map((node, at) => draw("g", { class: `node ${node.kind}` },
      draw("title", {}, node.lines.join("\n")),
      draw("rect", { x: x(at), y: y(at), width, height, rx: 5 }),
      node.lines.slice(0, 2).map((line, row) => draw("text", { x: x(at) + width / 2, y: y(at) + (node.lines.length > 1 ? 16 : 24) + 16 * row, "text-anchor": "middle" }, clip(line, most)))))));
};

const showSchedule = () => {
  const { count, lines, graph, steps } = data.operations;
  const kinds = [["input", "given"], ["message", "something is sent"], ["compute", "computed"], ["local", "cut or put together"]];
  const legend = el("ul", { class: "legend" }, kinds.map(([kind, words]) =>
    el("li", {}, draw("svg", { width: 16, height: 16, "aria-hidden": "true", class: "swatch" }, draw("g", { class: `node ${kind}` }, draw("rect", { width: 16, height: 16 }))), words)));
  const bySteps = () => {
    const groups = new Map();
    lines.forEach(([step, text, method]) => {
      if (!groups.has(step)) groups.set(step, []);
      groups.get(step).push(method ? `${text}  by ${method}` : text);
    });
    return [...[...groups].map(([step, texts]) => [el("h3", {}, steps[step] || `step ${step}`), el("div", { class: "source", tabindex: 0, role: "group", "aria-label": "operations" }, texts.map((text) => el("div", {}, el("span", {}, text))))]).flat(),
      count > lines.length && el("p", { class: "soft" }, `${count - lines.length} more; \`shardc compile\` prints them all`)].filter(Boolean);
  };
  section("schedule", "Schedule", legend,
    graphPicture("the steps of the plan, each below what it takes", data.graph),
    graph.nodes.length > 0 ? fold(`the ${count} operations that they become, as a graph`, () => graphPicture("the operations of the schedule, each below what it takes", graph), false)
      : el("p", { class: "soft" }, `${count} operations, too many to be drawn`),
    fold("the operations as text", bySteps, false));
};
