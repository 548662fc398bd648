// Arrays as the blocks that devices hold, by themselves and on the mesh.

const MOST_BLOCKS = 16;
const shownOf = (count) => (count <= MOST_BLOCKS ? range(count) : [...range(MOST_BLOCKS - 2), null, count - 1]);
const rangeOf = (dim, at) => {
  const length = dim.padded / dim.blocks;
  return `${dim.name} ${Math.min(at * length, dim.size)}..${Math.min((at + 1) * length, dim.size)}`;
};

// The coordinates of the devices of a block, along each axis.
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
  const { dims, rows: rowDims, column } = array;
  const total = product(dims.map((dim) => dim.blocks));
  const counts = rowDims.map((dim) => dims[dim].blocks);
  const columns = column === null ? 1 : dims[column].blocks;
  const rows = shownOf(product(counts)).map((row) => {
    if (row === null) return null;
    const block = dims.map(() => 0);
    digits(row, counts).forEach((at, place) => { block[rowDims[place]] = at; });
    return { row, block, label: rowDims.map((dim) => rangeOf(dims[dim], block[dim])).join(", ") };
  });
  const places = shownOf(columns);
  const heads = places.map((at) => (at === null ? "\u2026" : column === null ? "" : rangeOf(dims[column], at)));
  const cellOf = (row, at) => {
    const block = [...row.block];
    if (column !== null) block[column] = at;
    return { block, text: `(${devicesOf(array, block).join(",")})`, color: blockColor(row.row * columns + at, total) };
  };
  const widest = Math.max(...heads.map((head) => head.length), ...rows.filter(Boolean).map((row) => cellOf(row, columns - 1).text.length));
  const [width, line] = [7.3 * widest + 16, 26];
  const top = column === null ? 4 : line;
  const left = 8 + 7.3 * Math.max(0, ...rows.filter(Boolean).map((row) => row.label.length));
  const text = (x, y, words, attributes) => draw("text", { x, y, ...attributes }, words);
  const copies = array.roles.some((role, axis) => role === "*" && data.mesh.axes[axis].size > 1);
  const parts = array.roles.some((role, axis) => role === "+" && data.mesh.axes[axis].size > 1);
  const marks = [];
  heads.forEach((head, place) => marks.push(text(left + place * width + width / 2, 17, head, { "text-anchor": "middle", class: "faint" })));
  rows.forEach((row, place) => {
    const y = top + line * place;
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
      const box = { width: width - 6, height: line - 5, rx: 3, fill: cell.color };
      if (copies) marks.push(draw("rect", { class: "block", x: x + 3, y: y + 3, ...box }));
      marks.push(draw("g", {},
        draw("title", {}, `${cell.block.map((at, dim) => rangeOf(dims[dim], at)).join(", ")} on ${cell.text}`),
        draw("rect", { class: parts ? "block parts" : "block", x, y, ...box }),
        text(x + (width - 6) / 2, y + 16, cell.text, { "text-anchor": "middle", style: `fill:${inkOn(cell.color)}` })));
    });
  });
  const note = [copies && "* is a copy on each device", parts && "+ is a partial sum on each device, with a dashed edge"].filter(Boolean).join("; ");
  return [
    scroll(`blocks of ${array.name}`, picture(`${array.name}: ${array.note}`, left + places.length * width + 12, top + line * rows.length + 6, marks)),
    el("p", { class: "soft" }, `Each block names the devices (${data.mesh.axes.map((axis) => axis.name).join(",")}) that hold it${note ? "; " + note : ""}.`),
  ];
};

// Draws each device of a plane as a frame of the array in which its block is filled. Rows and columns are those of the
// blocks, so that each block has its own place.
const onMesh = (array) => {
  const axes = data.mesh.axes;
  const holder = el("div", {});
  const sizes = axes.map((axis) => axis.size);
  const plane = planes(axes, () => show());
  const { dims, rows, column } = array;
  const counts = rows.map((dim) => dims[dim].blocks);
  const [down, across] = [product(counts), column === null ? 1 : dims[column].blocks];
  const total = product(dims.map((dim) => dim.blocks));
  const parts = array.roles.some((role, axis) => role === "+" && axes[axis].size > 1);
  const [w, h, gap] = [58, Math.min(Math.max(44, 7 * down), 112), 14];
  const device = (at, x, y) => {
    const block = blockOf(array, at);
    const row = number(rows.map((dim) => block[dim]), counts);
    const place = row * across + (column === null ? 0 : block[column]);
    const [left, top, width, height] = [((place % across) * w) / across, (row * h) / down, w / across, h / down];
    // Where several dims share the rows, lines separate the blocks of the first of them.
    const lines = rows.length > 1 && down <= 64 ? range(counts[0] - 1).map((at) => ((at + 1) * h) / counts[0]) : [];
    const name = placeOf(number(at, sizes), axes);
    return draw("g", {},
      draw("title", {}, `${name} holds ${block.map((at, dim) => rangeOf(dims[dim], at)).join(", ")}${parts ? ", a partial sum" : ""}`),
      draw("text", { x, y: y - 4, class: "faint" }, name),
      draw("rect", { class: "device", x, y, width: w, height: h }),
      lines.map((at) => draw("line", { class: "hole", x1: x, x2: x + w, y1: y + at, y2: y + at })),
      draw("rect", { class: parts ? "block parts" : "block", "data-place": place, x: x + left, y: y + top, width: Math.max(width, 2), height: Math.max(height, 2), fill: blockColor(place, total) }));
  };
  const show = () => {
    const cells = range(plane.rows).flatMap((row) => range(plane.columns).map((column) => [row, column])).filter(([row, column]) => plane.device(row, column) < plane.total);
    const marks = cells.map(([row, column]) => device(digits(plane.device(row, column), sizes), 6 + column * (w + gap), 16 + row * (h + gap + 12)));
    holder.replaceChildren(scroll(`${array.name} on the mesh`,
      picture(`${array.name} on the mesh: each device with its block of the array`, 12 + plane.columns * (w + gap), 12 + plane.rows * (h + gap + 12), marks)));
  };
  show();
  const names = (places) => places.map((dim) => dims[dim].name).join(", then ");
  const frame = total === 1 ? "Each device holds the whole array."
    : `The frame of a device is the array${rows.length > 0 ? `, ${names(rows)} from top to bottom` : ""}${column === null ? "" : `, ${dims[column].name} from left to right`}; the block on the device is filled.`;
  return [plane.controls, el("p", { class: "soft" }, frame), holder].filter(Boolean);
};

const showLayouts = () => {
  const few = data.arrays.length <= 8;
  section("layouts", "Layouts",
    el("p", {}, "The blocks of each array, in the layout that its statement gives it."),
    data.arrays.map((array, place) =>
      fold([el("strong", { class: "mono" }, array.name), ` ${array.note}`],
        () => [...blocksPicture(array), fold("on the mesh", () => onMesh(array), false)], few || place < 4)));
};
