// The figures of the plan, and the resource that limits its time.

const showSummary = () => {
  const { list, bound, limit } = data.figures;
  const figure = ({ name, value, note }, place) =>
    el("div", {}, el("dt", {}, name), el("dd", { class: "value" }, value), el("dd", { class: "soft" }, note),
      place === 0 && el("dd", { class: "bar", role: "img", "aria-label": `the lower bound is ${(100 * bound).toFixed(0)} % of the time` }, el("i", { style: `width:${100 * bound}%` })));
  const count = (severity) => data.program.diagnostics.filter((found) => found.severity === severity).length;
  const found = [[count("error"), "error"], [count("warning"), "warning"]].filter(([count]) => count > 0);
  section("summary", "Summary",
    limit && el("p", { class: "limit" }, `${limit[0].toUpperCase()}${limit.slice(1)}.`),
    el("dl", { class: "figures" }, list.map(figure)),
    found.length > 0 && el("p", {}, el("a", { href: "#program" }, found.map(([count, word]) => `${count} ${word}${count === 1 ? "" : "s"}`).join(", "))),
    el("ul", { class: "summary" }, data.summary.map((line) => el("li", {}, line))));
};
