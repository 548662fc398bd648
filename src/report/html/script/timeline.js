// Timelines of engines and links. Buttons, keys, gestures and the wheel with Ctrl change the visible interval.

const showTimeline = () => {
  const { total, shown, steps, colors, lanes, all, note } = data.timeline;
  if (lanes.length === 0 || total === 0) {
    section("timeline", "Timeline", el("p", { class: "soft" }, "no step takes any time"));
    return;
  }
  const numbers = stepNumbers();
  const used = [...numbers.keys()];
  const name = (step) => steps[step] || `step ${step}`;
  const named = (step) => el("li", {}, swatch(colors[step]), `${numbers.get(step)} ${name(step)}`);
  const [LANE, MOST_NAMED] = [30, 40];
  const canvas = el("canvas", { tabindex: 0, role: "img" });
  const status = el("p", { class: "status mono", role: "status" });
  let [from, to, rows, whole] = [0, total, lanes, false];
  const left = () => Math.min(130, canvas.clientWidth / 4);
  const at = (x) => from + ((x - left()) / Math.max(canvas.clientWidth - left(), 1)) * (to - from);
  const paint = () => {
    const [width, height, ratio] = [canvas.clientWidth, 26 + LANE * rows.length, window.devicePixelRatio || 1];
    if (width === 0) return;
    canvas.style.height = `${height}px`;
    [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const style = getComputedStyle(document.documentElement);
    const value = (key) => style.getPropertyValue(key).trim();
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.clearRect(0, 0, width, height);
    context.font = "12px ui-monospace, Menlo, Consolas, monospace";
    context.textBaseline = "middle";
    const scale = (width - left()) / (to - from);
    const x = (time) => left() + (time - from) * scale;
    context.fillStyle = value("--soft");
    const ticks = width < 500 ? 2 : 4;
    for (const tick of range(ticks + 1)) {
      const time = from + ((to - from) * tick) / ticks;
      context.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
      context.fillText(seconds(time), x(time), 10);
    }
    context.textAlign = "left";
    rows.forEach((lane, row) => {
      const y = 22 + LANE * row;
      context.fillStyle = value("--ink");
      context.fillText(clip(whole ? lane.name : lane.kind, Math.floor(left() / 7.5)), 0, y + 12);
      context.fillStyle = value("--panel");
      context.fillRect(left(), y, width - left(), LANE - 6);
      context.save();
      context.beginPath();
      context.rect(left(), y, width - left(), LANE - 6);
      context.clip();
      for (const [step, start, end] of lane.bars) {
        if (end < from || start > to) continue;
        const [a, b] = [x(start), Math.max(x(end), x(start) + 0.7)];
        context.fillStyle = colors[step];
        context.fillRect(a, y, b - a, LANE - 6);
        if (b - a > 3) {
          context.strokeStyle = value("--bg");
          context.strokeRect(a, y, b - a, LANE - 6);
        }
        const visible = Math.min(b, width) - Math.max(a, left());
        const label = numbers.get(step) || "";
        const words = visible > 80 ? clip(`${label} ${name(step)}`, Math.floor((visible - 8) / 7.3)) : label;
        if (visible > 7.3 * words.length + 4) {
          context.fillStyle = inkOn(colors[step]);
          context.fillText(words, Math.max(a, left()) + 3, y + 13);
        }
      }
      context.restore();
    });
    canvas.dataset.from = from;
    canvas.dataset.to = to;
    canvas.setAttribute("aria-label", `${rows.length} lanes from ${seconds(from)} to ${seconds(to)} of ${shown}; plus and minus zoom, arrows move, 0 shows all`);
  };
  const look = (a, b) => {
    const length = Math.min(Math.max(b - a, total / 1e5), total);
    const start = Math.min(Math.max(a, 0), total - length);
    [from, to] = [start, start + length];
    status.textContent = `${seconds(from)} to ${seconds(to)} of ${shown}`;
    paint();
  };
  const zoom = (factor, centre = (from + to) / 2) => look(centre - (centre - from) / factor, centre + (to - centre) / factor);
  const move = (part) => look(from + (to - from) * part, to + (to - from) * part);
  const tell = (event) => {
    const box = canvas.getBoundingClientRect();
    const [time, row] = [at(event.clientX - box.left), Math.floor((event.clientY - box.top - 22) / LANE)];
    const lane = rows[row];
    const slack = (to - from) / Math.max(canvas.clientWidth, 1);
    const bar = lane && lane.bars.find(([, start, end]) => start - slack <= time && time <= end + slack);
    if (bar) status.textContent = `${lane.name}: ${name(bar[0])}, ${seconds(bar[1])} to ${seconds(bar[2])}`;
  };
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), at(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, event.clientX); canvas.setPointerCapture(event.pointerId); });
  const lift = (event) => fingers.delete(event.pointerId);
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return tell(event);
    const before = [...fingers.values()];
    const moved = event.clientX - fingers.get(event.pointerId);
    fingers.set(event.pointerId, event.clientX);
    const now = [...fingers.values()];
    if (now.length === 1) {
      const shift = (-moved * (to - from)) / Math.max(canvas.clientWidth - left(), 1);
      look(from + shift, to + shift);
    } else if (now.length === 2 && before[0] !== before[1]) {
      const middle = (now[0] + now[1]) / 2 - canvas.getBoundingClientRect().left;
      zoom(Math.max(Math.abs(now[0] - now[1]), 1) / Math.abs(before[0] - before[1]), at(middle));
    }
  });
  canvas.addEventListener("dblclick", (event) => zoom(2, at(event.clientX - canvas.getBoundingClientRect().left)));
  canvas.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), 0: () => look(0, total), ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  const words = () => scroll("the timeline as text", table(["lane", "step", "from", "to"],
    rows.flatMap((lane) => lane.bars.slice(0, 100).map(([step, start, end]) => [lane.name, name(step), seconds(start), seconds(end)])).slice(0, 1000)));
  const every = el("input", { type: "checkbox", change: () => { whole = every.checked; rows = whole ? all : lanes; paint(); } });
  section("timeline", "Timeline",
    el("p", {}, lanes.some((lane) => lane.alike > 1) ? "Each lane is the busiest engine or link of its kind." : "One lane for each engine and each direction of links.", note && ` ${note}`),
    el("div", { class: "controls" },
      button("zoom in", "+", () => zoom(2)), button("zoom out", "\u2212", () => zoom(0.5)),
      button("earlier", "\u2190", () => move(-0.25)), button("later", "\u2192", () => move(0.25)), button("show all", "all", () => look(0, total)),
      all.length > lanes.length && el("label", {}, every, `all ${all.length} lanes`)),
    canvas, status,
    el("ul", { class: "legend", "aria-label": "steps" }, used.slice(0, MOST_NAMED).map(named)),
    used.length > MOST_NAMED && fold(`${used.length - MOST_NAMED} more steps`, () => el("ul", { class: "legend" }, used.slice(MOST_NAMED).map(named)), false),
    el("ul", { class: "legend", "aria-label": "utilisation of each lane" }, lanes.map((lane) => el("li", {}, `${lane.kind}: ${(100 * lane.busy).toFixed(0)} %`))),
    fold("as text", words, false));
  look(0, total);
  new ResizeObserver(paint).observe(canvas);
  new MutationObserver(paint).observe(document.documentElement, { attributes: true });
};
