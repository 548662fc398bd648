// The steps of the plan with their alternatives, and the graphs of steps and of operations.

const ways = (title, list) =>
  list.length > 0 && [el("h3", {}, title),
    table(["", "time", "relative", "method"], list.map((way, place) => [place === 0 ? "chosen" : "instead", way.time, `${way.ratio.toFixed(2)}x`, way.what]))];

const showPlan = () => {
  const numbers = stepNumbers();
  const step = (step) => {
    const details = el("details", { class: "step" },
      el("summary", {}, el("span", { class: "number" }, numbers.has(step.id) && [swatch(data.timeline.colors[step.id]), numbers.get(step.id)]),
        el("span", { class: "what" }, step.name), el("span", { class: "how" }, step.layouts),
        el("span", { class: "fig", title: "received by the device that receives most" }, step.received),
        el("span", { class: "fig", title: "time of the step alone" }, step.time),
        el("span", { class: "bar", title: `${(100 * step.part).toFixed(0)} % of the sum over all steps` }, el("i", { style: `width:${100 * step.part}%` }))),
      el("div", { class: "more" },
        el("p", {}, `Line ${step.line}; limited by ${step.limit}; lower bound ${step.bound}.`),
        step.reason && el("p", {}, `Lower bound: ${step.reason}.`),
        step.method && el("p", {}, `Method: ${step.method}.`),
        step.case && el("p", {}, step.case),
        step.pinned && el("p", {}, step.pinned),
        ways("Alternatives", step.ways), ways("Methods", step.methods)));
    return details;
  };
  const all = (open) => document.querySelectorAll("#plan details.step").forEach((details) => { details.open = open; });
  section("plan", "Plan",
    data.totals.map((line) => el("p", {}, line)),
    el("div", { class: "controls" }, button("unfold all steps", "unfold all", () => all(true)), button("fold all steps", "fold all", () => all(false))),
    data.steps.length > 0 && el("div", { class: "heads", "aria-hidden": "true" }, el("span", { class: "number" }), el("span", { class: "what" }, "step"), el("span", { class: "how" }, "layouts"),
      ["received", "time", "share"].map((head) => el("span", { class: "fig" }, head))),
    data.steps.map(step),
    data.steps.length === 0 && el("p", { class: "soft" }, "no steps"));
};

// Layered drawing: a node's layer is its longest path from an input, and nodes are placed near their operands.
const graphPicture = (label, graph) => {
  const count = graph.nodes.length;
  const [depth, from, to] = [new Array(count).fill(0), range(count).map(() => []), range(count).map(() => [])];
  graph.edges.forEach(([a, b]) => { from[b].push(a); to[a].push(b); });
  // Operands come first in the list.
  range(count).forEach((node) => from[node].forEach((operand) => { depth[node] = Math.max(depth[node], depth[operand] + 1); }));
  // Inputs stand just before their first use.
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
      draw("rect", { x: x(at), y: y(at), width, height, rx: 5, fill: data.palette.tints[node.kind] }),
      node.lines.slice(0, 2).map((line, row) => draw("text", { x: x(at) + width / 2, y: y(at) + (node.lines.length > 1 ? 16 : 24) + 16 * row, "text-anchor": "middle" }, clip(line, most)))))));
};

const showSchedule = () => {
  const { count, lines, graph, folded, steps } = data.operations;
  const kinds = Object.keys(data.palette.tints).filter((kind) => [...data.graph.nodes, ...graph.nodes].some((node) => node.kind === kind));
  const legend = el("ul", { class: "legend", "aria-label": "kinds of steps" }, kinds.map((kind) =>
    el("li", {}, swatch(data.palette.tints[kind]), kind)));
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
    graphPicture("the steps of the plan, each below its operands", data.graph),
    fold(`the ${count} operations as a graph${folded ? ", those of one kind in a step as one box" : ""}`, () => graphPicture("the operations of the schedule", graph), false),
    fold("the operations as text", bySteps, false));
};
