// A collective event by event: messages move along links, and each device shows its contents.

// Joins cells into boxes, along one dim after the other: [from, to] for each dim.
const joined = (cells, counts) => {
  let boxes = cells.map((cell) => digits(cell, counts).map((at) => [at, at + 1]));
  for (let dim = counts.length - 1; dim >= 0; dim -= 1) {
    const key = (box) => JSON.stringify(box.filter((_, other) => other !== dim));
    const lines = new Map();
    boxes.forEach((box) => { const line = key(box); if (!lines.has(line)) lines.set(line, []); lines.get(line).push(box); });
    boxes = [...lines.values()].flatMap((line) => {
      line.sort((a, b) => a[dim][0] - b[dim][0]);
      const done = [];
      for (const box of line) {
        const last = done[done.length - 1];
        if (last && last[dim][1] === box[dim][0]) last[dim] = [last[dim][0], box[dim][1]];
        else done.push(box);
      }
      return done;
    });
  }
  return boxes;
};

// Summaries of collectives that are too large to step through.
const summaries = () => data.unplayed.map(({ name, operations, rows }, place) =>
  fold([el("strong", {}, name), `: ${operations} operations, too many to step through`],
    () => scroll(`what is sent in ${name}`, table(["until", "messages to each device", "received so far per device"], rows)), place === 0 && data.players.length === 0));

const showPlayer = () => {
  const players = data.players;
  if (players.length === 0) {
    section("player", "Collectives", data.unplayed.length > 0 ? summaries() : el("p", { class: "soft" }, "no communication"));
    return;
  }
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const stage = el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "devices and their contents" });
  const status = el("p", { class: "status", role: "status" });
  const about = el("p", {});
  const table_ = el("div", {});
  const slider = el("input", { type: "range", min: 0, value: 0, "aria-label": "event", input: () => go(Number(slider.value), false) });
  let [player, frame, state, timer, flying] = [players[0], 0, [], 0, 0];

  // The contents of each device after an event: cell to [of, all].
  const stateAt = (frames, last) => {
    const held = player.devices.map(() => new Map());
    frames.slice(0, last + 1).forEach((frame) => frame.cells.forEach((cells, device) => cells.forEach(([cell, of, all]) => {
      if (of === 0) held[device].delete(cell);
      else held[device].set(cell, [of, all]);
    })));
    return held;
  };
  const counts = () => player.cuts.map((cuts) => cuts.length - 1);
  const words = (box) => box.map(([a, b], dim) => `${player.dims[dim]} ${player.cuts[dim][a]}..${player.cuts[dim][b]}`).join(", ") || "its one number";
  const holdings = (held) => {
    const shares = new Map();
    held.forEach(([of, all], cell) => { const key = `${of}/${all}`; if (!shares.has(key)) shares.set(key, []); shares.get(key).push(cell); });
    const text = [...shares].map(([share, cells]) => {
      const [of, all] = share.split("/");
      const boxes = joined(cells, counts()).map(words).join("; ");
      return of === all ? boxes : `${boxes} (${of} of ${all} parts of the sum)`;
    });
    return text.join("; ") || "nothing";
  };

  // Places devices by their coordinates, or in rows that fit the screen.
  const places = () => {
    const sizes = counts();
    const [columns, rows] = [player.columns, player.rows].map((dims) => product(dims.map((dim) => sizes[dim])));
    const place = (cell, dims) => { const at = digits(cell, sizes); return number(dims.map((dim) => at[dim]), dims.map((dim) => sizes[dim])); };
    // Frames are drawn around blocks of the sharded dims; pieces of other dims lie within them.
    const within = (dims) => product(dims.filter((dim) => !player.sharded.includes(dim)).map((dim) => sizes[dim]));
    const frame = player.sharded.length === 0 ? [1, 1] : [within(player.rows), within(player.columns)];
    const spots = range(product(sizes)).map((cell) => [place(cell, player.rows), place(cell, player.columns)]);
    const [cw, ch] = [Math.max(4, Math.min(60, Math.floor(92 / columns))), Math.max(4, Math.min(40, Math.floor(84 / rows)))];
    const [w, h] = [cw * columns, ch * rows];
    const two = player.axes.length === 2;
    const [over, down] = [Math.max(w, 56) + 44, h + 66];
    const room = Math.max(2, Math.floor(((stage.clientWidth || 800) - 20) / over));
    const per = Math.min(player.devices.length, room, 8);
    const at = player.devices.map((device, place) => (two ? device.at : [Math.floor(place / per), place % per]));
    const lines = [...new Set(at.map(([row]) => row))].sort((a, b) => a - b);
    const across = [...new Set(at.map(([, column]) => column))].sort((a, b) => a - b);
    const box = ([row, column]) => ({ x: 24 + across.indexOf(column) * over, y: 40 + lines.indexOf(row) * down });
    return { cw, ch, w, h, columns, rows, frame, spots, boxes: at.map(box), across: over, down, width: 10 + across.length * over, height: 14 + lines.length * down };
  };
  // Both directions of a link are drawn apart: between neighbours side by side, else around what lies between. What
  // comes from devices that are not shown comes from above.
  const way = (grid, from, to) => {
    const centre = (box) => [box.x + grid.w / 2, box.y + grid.h / 2];
    const [x2, y2] = centre(grid.boxes[to]);
    if (from === null) return `M${x2 + grid.w / 2 + 8},${y2 - grid.h / 2 - 24}L${x2 + grid.w / 4},${y2 - grid.h / 2 - 2}`;
    const [x1, y1] = centre(grid.boxes[from]);
    const [dx, dy] = [x2 - x1, y2 - y1];
    const length = Math.hypot(dx, dy) || 1;
    const [nx, ny] = [dy / length, -dx / length];
    const along = Math.abs(dx) >= Math.abs(dy);
    const half = along ? grid.w / 2 + 5 : grid.h / 2 + 5;
    const near = (dx === 0 || dy === 0) && length < 1.5 * (along ? grid.across : grid.down);
    if (near) {
      const [sx, sy] = [(dx / length) * half + nx * 6, (dy / length) * half + ny * 6];
      return `M${x1 + sx},${y1 + sy}L${x2 - (dx / length) * half + nx * 6},${y2 - (dy / length) * half + ny * 6}`;
    }
    const side = along ? grid.h / 2 + 5 : grid.w / 2 + 5;
    const bend = side + 34;
    return `M${x1 + nx * side},${y1 + ny * side}Q${(x1 + x2) / 2 + nx * bend},${(y1 + y2) / 2 + ny * bend} ${x2 + nx * side},${y2 + ny * side}`;
  };
  const legs = (message) => range(message.path.length - 1).map((leg) => [message.path[leg], message.path[leg + 1]]).filter(([, to]) => to !== null);

  const cellColor = (grid, cell) => blockColor(grid.spots[cell][0] * grid.columns + grid.spots[cell][1], grid.spots.length);

  const render = (arrows) => {
    const grid = places();
    const marks = [];
    player.devices.forEach((device, place) => {
      const { x, y } = grid.boxes[place];
      const cells = grid.spots.map(([row, column], cell) => {
        const share = state[place].get(cell);
        const [cx, cy] = [x + column * grid.cw, y + row * grid.ch];
        const [tall, wide] = grid.frame;
        const frameOf = row % tall === 0 && column % wide === 0 && draw("rect", { class: "hole", x: cx, y: cy, width: wide * grid.cw, height: tall * grid.ch });
        if (!share) return frameOf;
        const [of, all] = share;
        const height = (grid.ch * of) / all;
        const label = of !== all && grid.cw >= 24 && grid.ch >= 13 && `${of}/${all}`;
        return [draw("rect", { class: of === all ? "block" : "block parts", x: cx + 0.5, y: cy + grid.ch - height + 0.5, width: grid.cw - 1, height: Math.max(height - 1, 1), fill: cellColor(grid, cell), style: `stroke-width:${grid.cw < 6 || grid.ch < 6 ? 0 : 0.5}` }), frameOf,
          label && draw("text", { x: cx + grid.cw / 2, y: cy + grid.ch / 2 + 4, "text-anchor": "middle", class: "part" }, label)];
      });
      marks.push(draw("g", { "data-device": device.place }, draw("title", {}, `${device.place} holds ${holdings(state[place])}`),
        draw("rect", { class: "device", x: x - 4, y: y - 4, width: grid.w + 8, height: grid.h + 8, rx: 4 }),
        draw("text", { x: x - 2, y: y - 8, class: "faint" }, device.place), cells));
    });
    const unique = new Set(arrows.flatMap((message) => legs(message).map(([from, to]) => way(grid, from, to))));
    marks.push([...unique].map((d) => draw("path", { class: "arrow", d, "marker-end": "url(#tip)" })));
    const tip = draw("defs", {}, draw("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 5, markerHeight: 5, orient: "auto" }, draw("path", { class: "tip", d: "M0,0L8,4L0,8z" })));
    const scene = picture(`${player.name}: what ${player.devices.length} devices hold after event ${frame} of ${player.frames.length - 1}`, grid.width, grid.height, tip, marks);
    stage.replaceChildren(scene);
    return { grid, scene };
  };

  const tell = () => {
    const now = player.frames[frame];
    const what = frame === 0 ? "before the first message" : now.messages.length > 0
      ? `${now.messages.length} messages received, at most ${now.bytes} per device` : "blocks are assembled";
    const end = frame === player.frames.length - 1 ? " Done." : "";
    status.textContent = `Event ${frame} of ${player.frames.length - 1}, at ${now.time}: ${what}.${end}`;
    table_.replaceChildren(scroll("contents of each device", table(["device", "holds"], player.devices.map((device, place) => [device.place, holdings(state[place])]))));
    slider.value = frame;
    slider.setAttribute("aria-valuetext", status.textContent);
  };

  // The action to take when the messages in flight arrive, if any.
  let landing = null;
  const land = () => {
    if (landing === null) return;
    const done = landing;
    landing = null;
    flying += 1;
    done();
  };

  // Animates the messages of an event, then shows its result.
  const fly = (messages, done) => {
    const { grid, scene } = render(messages);
    landing = done;
    const mine = (flying += 1);
    const flights = messages.slice(0, 400).map((message) => {
      const paths = legs(message).map(([from, to]) => draw("path", { d: way(grid, from, to) }));
      const color = cellColor(grid, message.cells[0] || 0);
      const block = draw("rect", { class: "block", width: 16, height: 12, rx: 2, fill: color });
      scene.append(block);
      return { paths, block };
    });
    const begin = performance.now();
    const step = (now) => {
      if (mine !== flying) return;
      // The time of a frame may lie before that of the click.
      const part = Math.min(Math.max((now - begin) / 700, 0), 1);
      flights.forEach(({ paths, block }) => {
        if (paths.length === 0) return;
        const place = Math.min(Math.floor(part * paths.length), paths.length - 1);
        const path = paths[place];
        const point = path.getPointAtLength(path.getTotalLength() * (part * paths.length - place));
        block.setAttribute("transform", `translate(${point.x - 8},${point.y - 6})`);
      });
      if (part < 1) requestAnimationFrame(step);
      else land();
    };
    requestAnimationFrame(step);
  };

  const go = (to, animate) => {
    flying += 1;
    landing = null;
    const target = Math.min(Math.max(to, 0), player.frames.length - 1);
    const arrive = () => {
      frame = target;
      state = stateAt(player.frames, frame);
      render(player.frames[frame].messages);
      tell();
    };
    if (animate && !still && target === frame + 1 && player.frames[target].messages.length > 0) fly(player.frames[target].messages, arrive);
    else arrive();
  };
  const play = button("play", "play", () => (timer ? stop() : start()));
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    play.textContent = "play";
    play.setAttribute("aria-label", "play");
  };
  const start = () => {
    if (frame === player.frames.length - 1) go(0, false);
    play.textContent = "pause";
    play.setAttribute("aria-label", "pause");
    const next = () => {
      if (frame >= player.frames.length - 1) stop();
      else go(frame + 1, true);
    };
    timer = setInterval(next, 1100);
    next();
  };
  // A click during an animation applies to the state after it.
  const by = (to, animate) => () => { stop(); land(); go(to(), animate); };
  const choose = el("select", { id: "collective", change: () => { stop(); load(players[Number(choose.value)]); } },
    players.map((player, place) => el("option", { value: place }, `${player.name}`)));
  const load = (chosen) => {
    player = chosen;
    frame = 0;
    slider.max = player.frames.length - 1;
    const some = player.devices.length < player.of ? ` Of ${player.of} devices ${player.devices.length} are shown.` : "";
    about.replaceChildren(el("span", { class: "mono" }, player.layouts), ` by ${player.method || "one operation"}.${some}`);
    go(0, false);
  };
  section("player", "Collectives",
    el("p", {}, "Messages and the contents of each device, event by event. A block that is filled in part is a partial sum."),
    el("div", { class: "controls" }, el("label", {}, "collective ", choose)), about,
    el("div", { class: "controls" },
      button("first event", "first", by(() => 0, false)), button("previous event", "previous", by(() => frame - 1, false)), play,
      button("next event", "next", by(() => frame + 1, true)), button("last event", "last", by(() => player.frames.length - 1, false)), slider),
    status, stage, el("details", { id: "holdings" }, el("summary", {}, "contents of each device as text"), table_),
    data.unplayed.length > 0 && fold(`${data.unplayed.length} more, too large to step through`, summaries, false));
  load(players[0]);
  let width = stage.clientWidth;
  new ResizeObserver(() => { if (stage.clientWidth !== width) { width = stage.clientWidth; go(frame, false); } }).observe(stage);
};
