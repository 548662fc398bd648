// The points of a sweep: plots of their figures over the size that varies fastest, and a table.

const WORDS = { time_s: "time", exposed_s: "exposed communication", compute_s: "compute", bytes_received_per_device: "received by a device", peak_bytes_per_device: "memory of a device", utilisation: "utilisation" };
const amount = (bytes) => {
  const [unit, name] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]].find(([unit]) => bytes >= unit) || [1, "B"];
  return `${(bytes / unit).toPrecision(3)} ${name}`;
};
const shown = (key, value) => (key.endsWith("_s") ? seconds(value * 1e9) : key.includes("bytes") ? amount(value) : `${(100 * value).toFixed(1)} %`);
const extent = ({ size, axis }) => axis || `${size}`;
const named = (sizes) => sizes.map((own) => `${own.name} ${extent(own)}`).join(", ");

// The points with figures as lines: one for all that differ in the last size alone.
const series = (points) => {
  const lines = new Map();
  const machines = new Set(points.map(({ hardware }) => hardware));
  for (const point of points.filter((point) => point.figures)) {
    const others = [named(point.sizes.slice(0, -1)), machines.size > 1 && point.hardware].filter((word) => word).join(", ");
    lines.set(others, [...(lines.get(others) || []), point]);
  }
  return [...lines];
};
// Lines differ in colour and in dashes.
const lineColor = (place, count) => `hsl(${Math.round((360 * place) / Math.max(count, 1) + 210) % 360} 65% 50%)`;
const dashes = (place) => ["", "6 3", "2 3", "8 3 2 3"][place % 4];

const plot = (key, lines, ends) => {
  const [width, height, left, bottom, top] = [440, 240, 78, 34, 12];
  const value = (point) => point.figures[key];
  const all = lines.flatMap(([, points]) => points);
  const positive = all.map(value).filter((own) => own > 0);
  // Logarithmic if the values differ by more than one order of magnitude.
  const log = key !== "utilisation" && positive.length === all.length && Math.max(...positive) > 12 * Math.min(...positive);
  const most = key === "utilisation" ? 1 : Math.max(...all.map(value), 0) || 1;
  const least = log ? Math.min(...positive) : 0;
  const along = (own) => (log ? Math.log(own / least) / Math.log(most / least) : own / most);
  const x = (point) => left + ((width - left - 16) * ends.at(point));
  const y = (own) => height - bottom - (height - bottom - top) * along(own);
  const ticks = log ? [0, 1 / 3, 2 / 3, 1].map((part) => least * (most / least) ** part) : [0, most / 2, most];
  const label = `${WORDS[key]} by ${ends.name}`;
  return el("figure", { class: "plot" }, el("figcaption", {}, WORDS[key], log && " (logarithmic)"),
    picture(label, width, height,
      ticks.map((tick) => [
        draw("line", { x1: left, x2: width - 16, y1: y(tick), y2: y(tick), stroke: "currentColor", "stroke-opacity": 0.2 }),
        draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end", class: "tick" }, shown(key, tick))]),
      ends.ticks.map(([at, word]) => draw("text", { x: left + (width - left - 16) * at, y: height - bottom + 16, "text-anchor": "middle", class: "tick" }, word)),
      draw("text", { x: (left + width - 16) / 2, y: height - 4, "text-anchor": "middle", class: "tick" }, ends.name),
      lines.map(([name, points], place) => {
        const ordered = [...points].sort((a, b) => ends.at(a) - ends.at(b));
        const color = lineColor(place, lines.length);
        return [
          draw("polyline", { points: ordered.map((point) => `${x(point)},${y(value(point))}`).join(" "), fill: "none", stroke: color, "stroke-width": 2, "stroke-dasharray": dashes(place) }),
          ordered.map((point) => draw("circle", { cx: x(point), cy: y(value(point)), r: point.best ? 5 : 3, fill: color },
            draw("title", {}, `${[name, named(point.sizes.slice(-1))].filter((word) => word).join(", ")}: ${shown(key, value(point))}${point.best ? ", best" : ""}`)))];
      })));
};

// Places of the points along a plot, from 0 to 1: by the logarithm of a size, or one after the other.
const endsOf = (points) => {
  const last = (point) => point.sizes[point.sizes.length - 1];
  const name = points[0].sizes.length > 0 ? last(points[0]).name : "program";
  const sizes = points[0].sizes.length > 0 ? points.map(last) : [];
  const words = [...new Set(sizes.map(extent))];
  const [least, most] = [Math.min(...sizes.map((own) => own.size)), Math.max(...sizes.map((own) => own.size))];
  const is_numeric = sizes.every((own) => !own.axis) && most > least;
  const place = (own) => (is_numeric ? Math.log(own.size / least) / Math.log(most / least) : words.length > 1 ? words.indexOf(extent(own)) / (words.length - 1) : 0.5);
  const some = Math.ceil(words.length / 8);
  const ticks = words.filter((_, at) => at % some === 0 || at === words.length - 1)
    .map((word) => [place(sizes.find((own) => extent(own) === word)), word]);
  return { name, ticks, at: (point) => (point.sizes.length > 0 ? place(last(point)) : 0.5) };
};

const showSweep = () => {
  const { points, crossings } = data;
  const lines = series(points);
  if (lines.length > 0) {
    const ends = endsOf(points);
    const keys = Object.keys(WORDS);
    section("plots", "Plots",
      lines.length > 1 && el("ul", { class: "legend" }, lines.map(([name], place) =>
        el("li", {}, draw("svg", { "aria-hidden": "true", width: 28, height: 10 }, draw("line", { x1: 0, x2: 28, y1: 5, y2: 5, stroke: lineColor(place, lines.length), "stroke-width": 2, "stroke-dasharray": dashes(place) })), ` ${name}`))),
      el("div", { class: "plots" }, keys.map((key) => plot(key, lines, ends))));
  }
  if (crossings.length > 0) {
    section("crossings", "Crossings", el("ul", {}, crossings.map(({ name, size, computes, sizes, hardware }) =>
      el("li", {}, `${computes ? "compute" : "communication"}-bound from ${name} = ${size}${[named(sizes), hardware].filter((word) => word).map((word) => `, ${word}`).join("")}`))));
  }
  const names = points.length > 0 ? points[0].sizes.map(({ name }) => name) : [];
  const cells = ({ sizes, hardware, figures, best, error }) => [...sizes.map(extent), hardware || "", ...(figures
    ? [figures.devices, ...Object.keys(WORDS).map((key) => shown(key, figures[key])), best ? "best" : ""]
    : ["", ...Object.keys(WORDS).map(() => ""), error])];
  section("points", "Points", scroll("points", table([...names, "machine", "devices", ...Object.values(WORDS), ""], points.map(cells))));
};

showSweep();
