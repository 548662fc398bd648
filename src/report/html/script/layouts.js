// Arrays as the blocks that devices hold, by themselves and on the mesh.

const MOST_BLOCKS = 16;
const shownOf = (count) => (count <= MOST_BLOCKS ? range(count) : [...range(MOST_BLOCKS - 2), null, count - 1]);
const rangeOf = (dim, at) => {
  const length = dim.padded / dim.blocks;
  return `${dim.name} ${Math.min(at * length, dim.size)}..${Math.min((at + 1) * length, dim.size)}`;
};

// Where the devices of a block are, axis by axis.
const devicesOf = (array, block) =>
  array.roles.map((role, axis) => {
    const size = data.mesh.axes[axis].size;
    if (typeof role === "string") return size === 1 ? "0" : role;
    return `${Math.floor(block[role.dim] / role.minor) % size}`;
  });
// The block of a device, by its coordinates.
const blockOf = (array, at) => {
  const block = array.dims.map(() => 0);
  array.roles.forEach((role, axis) => {
    if (typeof role !== "string") block[role.dim] += at[axis] * role.minor;
  });
  return block;
};

const blocksPicture = (array) => {
  const { dims } = array;
  const last = dims.length - 1;
  const rowDims = range(Math.max(last, 0)).filter((dim) => dims[dim].blocks > 1);
  const counts = rowDims.map((dim) => dims[dim].blocks);
  const columns = last < 0 ? 1 : dims[last].blocks;
  const rows = shownOf(product(counts)).map((row) => {
    if (row === null) return null;
    const block = dims.map(() => 0);
    digits(row, counts).forEach((at, place) => { block[rowDims[place]] = at; });
    return { row, block, label: rowDims.map((dim) => rangeOf(dims[dim], block[dim])).join(", ") };
  });
  const places = shownOf(columns);
  const heads = places.map((at) => (at === null ? "\u2026" : last < 0 ? "" : rangeOf(dims[last], at)));
  const cellOf = (row, at) => {
    const block = [...row.block];
    if (last >= 0) block[last] = at;
    return { block, text: `(${devicesOf(array, block).join(",")})`, color: (row.row * columns + at) % 8 };
  };
  const widest = Math.max(...heads.map((head) => head.length), ...rows.filter(Boolean).map((row) => cellOf(row, columns - 1).text.length));
  const [width, line] = [7.3 * widest + 16, 26];
  const left = 8 + 7.3 * Math.max(0, ...rows.filter(Boolean).map((row) => row.label.length));
  const text = (x, y, words, attributes) => draw("text", { x, y, ...attributes }, words);
  const copies = array.roles.some((role, axis) => role === "*" && data.mesh.axes[axis].size > 1);
  const parts = array.roles.some((role, axis) => role === "+" && data.mesh.axes[axis].size > 1);
  const marks = [];
  heads.forEach((head, place) => marks.push(text(left + place * width + width / 2, 17, head, { "text-anchor": "middle", class: "faint" })));
  rows.forEach((row, place) => {
    const y = line * (place + 1);
    if (row === null) {
      marks.push(text(4, y + 17, "\u2026"));
      return;
    }
    marks.push(text(4, y + 17, row.label, { class: "faint" }));
    places.forEach((at, column) => {
      const x = left + column * width;
      if (at === null) {
        marks.push(text(x + width / 2, y + 17, "\u2026", { "text-anchor": "middle" }));
        return;
      }
      const cell = cellOf(row, at);
      const box = { width: width - 6, height: line - 5, rx: 3, fill: COLORS[cell.color] };
      if (copies) marks.push(draw("rect", { class: "block", x: x + 3, y: y + 3, ...box }));
      marks.push(draw("g", {},
        draw("title", {}, `${cell.block.map((at, dim) => rangeOf(dims[dim], at)).join(", ")} on ${cell.text}`),
        draw("rect", { class: parts ? "block parts" : "block", x, y, ...box }),
        text(x + (width - 6) / 2, y + 16, cell.text, { "text-anchor": "middle", style: `fill:${INK[cell.color]}` })));
    });
  });
  const note = [copies && "* a copy on each device", parts && "+ a part of the sum on each device, with a broken edge"].filter(Boolean).join("; ");
  return [
    scroll(`blocks of ${array.name}`, picture(`${array.name}: ${array.note}`, left + places.length * width + 12, line * (rows.length + 1) + 6, marks)),
    el("p", { class: "soft" }, `in each block the devices (${data.mesh.axes.map((axis) => axis.name).join(",")}) that hold it${note ? "; " + note : ""}`),
  ];
};

// Each device of a plane with the array in it: what it holds is filled.
const onMesh = (array) => {
  const axes = data.mesh.axes;
  const holder = el("div", {});
  const sizes = axes.map((axis) => axis.size);
  const plane = planes(axes, () => show());
  const show = () => {
    const [w, h, gap] = [58, 44, 14];
    const marks = [];
    for (const [row, column] of range(plane.rows).flatMap((row) => range(plane.columns).map((column) => [row, column]))) {
      const device = plane.device(row, column);
      if (device >= plane.total) continue;
      const at = digits(device, sizes);
      const block = blockOf(array, at);
      const [x, y] = [6 + column * (w + gap), 16 + row * (h + gap + 12)];
      const cut = (dim) => (dim === undefined || dim < 0 ? [0, 1] : [block[dim] / array.dims[dim].blocks, 1 / array.dims[dim].blocks]);
      const [left, width] = cut(array.dims.length - 1);
      const [top, height] = cut(array.dims.length - 2);
      const color = number(block, array.dims.map((dim) => dim.blocks)) % 8;
      const parts = array.roles.some((role, axis) => role === "+" && axes[axis].size > 1);
      marks.push(draw("g", {},
        draw("title", {}, `${placeOf(device, axes)} holds ${block.map((at, dim) => rangeOf(array.dims[dim], at)).join(", ")}${parts ? ", a part of the sum" : ""}`),
        draw("text", { x, y: y - 4, class: "faint" }, placeOf(device, axes)),
        draw("rect", { class: "device", x, y, width: w, height: h }),
        draw("rect", { class: parts ? "block parts" : "block", x: x + left * w, y: y + top * h, width: Math.max(width * w, 2), height: Math.max(height * h, 2), fill: COLORS[color] })));
    }
    holder.replaceChildren(scroll(`${array.name} on the mesh`,
      picture(`${array.name} on the mesh: each device with its block of the array`, 12 + plane.columns * (w + gap), 12 + plane.rows * (h + gap + 12), marks)));
  };
  show();
  return [plane.controls, el("p", { class: "soft" }, "the frame of a device is the array, its last dim to the right and the one before down; what the device holds is filled"), holder].filter(Boolean);
};

const showLayouts = () => {
  const few = data.arrays.length <= 8;
  section("layouts", "Layouts",
    el("p", {}, "Each array cut into the blocks that devices hold, in the layout that its statement leaves it in."),
    data.arrays.map((array, place) =>
      fold([el("strong", { class: "mono" }, array.name), ` ${array.note}`],
        () => [...blocksPicture(array), fold("on the mesh", () => onMesh(array), false)], few || place < 4)));
};
