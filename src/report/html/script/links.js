// The mesh, with links coloured by utilisation.

const STEPS = [[0, "idle"], [250, "up to 25 %"], [500, "up to 50 %"], [750, "up to 75 %"], [1001, "more"]];
const level = (load) => (load === null ? 0 : STEPS.findIndex(([most]) => load <= most || most === 1001));
const percent = (load) => (load === null ? "no such link" : `${(load / 10).toFixed(1)} % busy`);

const meshPicture = () => {
  const axes = data.mesh.wired;
  const sizes = axes.map((axis) => axis.size);
  const holder = el("div", {});
  const plane = planes(axes, () => show());
  const loadOf = (axis, side, device) => {
    const load = data.mesh.loads.find((load) => load.axis === axis && load.side === side);
    if (!load) return null;
    return load.busy.length === 1 ? load.busy[0] : load.busy[device];
  };
  const show = () => {
    const [gap, r] = [64, 15];
    const [x, y] = [(column) => 40 + column * gap, (row) => 34 + row * gap];
    const marks = [];
    const line = (words, load, x1, y1, x2, y2) => {
      const at = level(load);
      marks.push(draw("g", {}, draw("title", {}, `${words}: ${percent(load)}`),
        draw("line", { x1, y1, x2, y2, stroke: `var(--load${at})`, "stroke-width": 1.5 + 1.2 * at, "data-load": load === null ? "" : load })));
    };
    const cells = range(plane.rows).flatMap((row) => range(plane.columns).map((column) => [row, column]));
    for (const [row, column] of cells) {
      const device = plane.device(row, column);
      if (device >= plane.total) continue;
      const at = digits(device, sizes);
      const planar = plane.flat ? [[0, 1, 0]] : [[axes.length - 1, 1, 0], [axes.length - 2, 0, 1]];
      for (const [axis, right, down] of planar) {
        if (sizes[axis] === undefined) continue;
        for (const side of ["up", "down"]) {
          const load = loadOf(axis, side, device);
          if (load === null) continue;
          const step = side === "up" ? 1 : -1;
          const next = (at[axis] + step + sizes[axis]) % sizes[axis];
          const wraps = Math.abs(next - at[axis]) > 1 || (plane.flat && Math.floor(next / plane.columns) !== row);
          const shift = side === "up" ? -3.5 : 3.5;
          const [cx, cy] = [x(column) + shift * down, y(row) + shift * right];
          const reach = wraps ? r + 14 : gap / 2 + 0.5;
          const begin = side === "up" ? r : r;
          line(`${axes[axis].name}: ${placeOf(device, axes)} ${side}${wraps ? ", around" : ""}`, load,
            cx + right * step * begin, cy + down * step * begin, cx + right * step * (wraps ? reach : gap - r), cy + down * step * (wraps ? reach : gap - r));
        }
      }
      axes.forEach((axis, place) => {
        for (const [side, dx] of [["out", -5], ["in", 5]]) {
          const load = loadOf(place, side, device);
          if (load !== null) line(`${axis.name}: port ${side} of ${placeOf(device, axes)}`, load, x(column) + dx + 12 * (place - (axes.length - 1) / 2), y(row) + r, x(column) + dx + 12 * (place - (axes.length - 1) / 2), y(row) + r + 12);
        }
      });
      marks.push(draw("g", {}, draw("title", {}, placeOf(device, axes)), draw("circle", { class: "device", cx: x(column), cy: y(row), r }),
        draw("text", { x: x(column), y: y(row) + 4, "text-anchor": "middle", style: "font-size:10px" }, at.length > 2 ? `${device}` : at.join(","))));
    }
    holder.replaceChildren(scroll("links", picture("devices and links; the busier a link, the darker and thicker", 60 + plane.columns * gap, 44 + plane.rows * gap, marks)));
  };
  show();
  const undrawn = axes.filter((axis, place) => place < axes.length - 2 || axis.wiring === "full mesh").map((axis) => axis.name);
  return [plane.controls, holder,
    undrawn.length > 0 && el("p", { class: "soft" }, `Links within the plane are drawn; those along ${undrawn.join(", ")} are in the table.`)].filter(Boolean);
};

const showLinks = () => {
  const devices = product(data.mesh.axes.map((axis) => axis.size));
  const loads = data.mesh.loads.filter((load) => load.busy.some((busy) => busy !== null));
  const mean = (load) => {
    const there = load.busy.filter((busy) => busy !== null);
    return `${(there.reduce((sum, busy) => sum + busy, 0) / there.length / 10).toFixed(1)} %`;
  };
  section("links", "Links",
    el("p", {}, `${devices} devices; ${data.mesh.wired.map((axis) => `${axis.name} is a ${axis.wiring} of ${axis.size}, ${axis.rate} each way`).join("; ")}.`),
    loads.length > 0 && scroll("loads of links", table(["direction", "busiest link", "busy", "utilisation", "bytes", "mean utilisation"],
      loads.map((load) => [`${data.mesh.wired[load.axis].name} ${load.side}`, load.link, load.most, `${(Math.max(...load.busy.map((busy) => busy || 0)) / 10).toFixed(1)} %`, load.bytes, mean(load)]))),
    loads.length > 0 && el("ul", { class: "legend", "aria-label": "utilisation of links" }, STEPS.map(([, words], at) => el("li", {}, swatch(`var(--load${at})`), words))),
    loads.length > 0 && (devices <= 256 ? meshPicture() : fold("the links of each device", meshPicture, false)),
    loads.length === 0 && el("p", { class: "soft" }, "no links"));
};
