// The program and its diagnostics.

const marked = (line, labels) => {
  const parts = [];
  let at = 0;
  for (const label of labels.sort((a, b) => a.from - b.from)) {
    const from = Math.max(label.from, at);
    const to = Math.max(label.to, from + 1);
    if (from >= line.length) break;
    parts.push(line.slice(at, from), el("mark", { class: label.severity, title: label.text || null }, line.slice(from, to)));
    at = to;
  }
  return [...parts, line.slice(at)];
};

const showProgram = () => {
  const { lines, diagnostics, left } = data.program;
  const labels = new Map();
  const encoder = new TextEncoder();
  for (const { severity, labels: found } of diagnostics) {
    for (const { line, column, start, end, text } of found) {
      // Columns count characters, and spans bytes.
      const chars = [...(lines[line - 1] || "")];
      const from = chars.slice(0, column - 1).join("").length;
      let bytes = 0;
      let to = from;
      for (const char of chars.slice(column - 1)) {
        if (bytes >= end - start) break;
        bytes += encoder.encode(char).length;
        to += char.length;
      }
      if (!labels.has(line)) labels.set(line, []);
      labels.get(line).push({ from, to, severity, text });
    }
  }
  const finding = ({ code, severity, message, help, labels: found }) =>
    el("div", { class: `finding ${severity}` },
      el("strong", {}, `${severity} ${code}`), ` ${message}`,
      found.map(({ line, column, text }) => el("div", { class: "soft" }, `line ${line}, column ${column}${text ? `: ${text}` : ""}`)),
      help && el("pre", {}, `help: ${help}`));
  section("program", "Program",
    el("div", { class: "source", tabindex: 0, role: "group", "aria-label": "the text of the program" },
      lines.map((line, place) => el("div", {}, el("span", { class: "n" }, `${place + 1}`), el("span", {}, marked(line, labels.get(place + 1) || []))))),
    left > 0 && el("p", { class: "soft" }, `${left} more lines are not shown`),
    diagnostics.length === 0 ? el("p", { class: "soft" }, "no errors or warnings") : diagnostics.map(finding));
};
