"use strict";
// Helpers of all sections. Text from a program only ever becomes text, never markup.

const data = JSON.parse(document.getElementById("data").textContent);

// Colours. The ramp for blocks and the tints for kinds of steps come with the data.
const channels = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
const blockColor = (number, count) => {
  const { ramp } = data.palette;
  const along = count < 2 ? (ramp.length - 1) / 2 : (number / (count - 1)) * (ramp.length - 1);
  const part = Math.min(Math.floor(along), ramp.length - 2);
  const [from, to] = [channels(ramp[part]), channels(ramp[part + 1])];
  return "#" + from.map((value, at) => Math.round(value + (along - part) * (to[at] - value)).toString(16).padStart(2, "0")).join("");
};
// Black or white, whichever has the higher contrast: both have the same at the relative luminance 0.179 of WCAG 2.
const inkOn = (color) => {
  const linear = channels(color).map((value) => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179 ? "#000" : "#fff";
};
const SVG = "http://www.w3.org/2000/svg";

// Control and bidirectional characters are replaced one for one, so that columns stay.
const STEERING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]/g;
const standIn = (char) => (char < " " ? String.fromCharCode(0x2400 + char.charCodeAt(0)) : char === "\u007f" ? "\u2421" : "\ufffd");
const visible = (value) => (typeof value === "string" ? value.replace(STEERING, standIn) : value);

const put = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : visible(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(visible));
  return node;
};
const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);
const picture = (label, width, height, ...children) =>
  draw("svg", { role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` }, ...children);
const scroll = (label, ...children) => el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, ...children);
const button = (label, words, click) => el("button", { type: "button", "aria-label": label, title: label, click }, words);

// Draws folded content when it is first unfolded.
const fold = (summary, make, open) => {
  const details = el("details", {}, el("summary", {}, summary));
  let made = false;
  const fill = () => {
    if (details.open && !made) {
      made = true;
      details.append(...[make()].flat(Infinity));
    }
  };
  details.addEventListener("toggle", fill);
  if (open) {
    details.open = true;
    fill();
  }
  return details;
};

const section = (id, title, ...children) => {
  document.getElementById("nav").append(el("a", { href: `#${id}` }, title));
  const heading = el("h2", { id: `${id}-title` }, title);
  document.getElementById("main").append(el("section", { id, "aria-labelledby": `${id}-title` }, heading, ...children));
};

const table = (heads, rows) =>
  el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))));

// Steps are numbered in the order in which they begin, so that pictures need not rely on colours alone.
const stepNumbers = () => {
  const bars = data.timeline.lanes.flatMap((lane) => lane.bars).sort((a, b) => a[1] - b[1]);
  return new Map([...new Set(bars.map(([step]) => step))].map((step, place) => [step, `${place + 1}`]));
};
const swatch = (color) => el("span", { class: "swatch", style: `background:${color}` });

const clip = (text, length) => (text.length > length ? text.slice(0, length - 1) + "\u2026" : text);
const range = (count) => Array.from({ length: count }, (_, place) => place);
const product = (counts) => counts.reduce((all, count) => all * count, 1);
// The digits of a number in a mixed base, the last fastest.
const digits = (number, sizes) => {
  const found = new Array(sizes.length);
  for (let place = sizes.length - 1; place >= 0; place -= 1) {
    found[place] = number % sizes[place];
    number = Math.floor(number / sizes[place]);
  }
  return found;
};
const number = (at, sizes) => at.reduce((all, digit, place) => all * sizes[place] + digit, 0);
const seconds = (ns) => {
  if (ns === 0) return "0 s";
  const [unit, name] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([unit]) => Math.abs(ns) >= unit * 0.9995) || [1, "ns"];
  return `${(ns / unit).toFixed(Math.abs(ns) / unit >= 99.995 ? 1 : 2)} ${name}`;
};

// The devices of one plane of the mesh: the last axis across, the one before down, the others selected.
const planes = (axes, pick) => {
  const sizes = axes.map((axis) => axis.size);
  const flat = sizes.length < 2;
  const columns = flat ? Math.min(sizes[0] || 1, 16) : sizes[sizes.length - 1];
  const rows = flat ? Math.ceil((sizes[0] || 1) / columns) : sizes[sizes.length - 2];
  const fixed = sizes.slice(0, -2).map(() => 0);
  const device = (row, column) => (flat ? row * columns + column : number([...fixed, row, column], sizes));
  const choose = flat ? [] : fixed.map((_, place) => {
    const select = el("select", { change: () => { fixed[place] = Number(select.value); pick(); } },
      range(sizes[place]).map((at) => el("option", { value: at }, `${at}`)));
    return el("label", {}, `plane ${axes[place].name} = `, select);
  });
  const total = product(sizes);
  return { rows, columns, device, flat, total, fixed, controls: choose.length > 0 ? el("div", { class: "controls" }, choose) : null };
};
const placeOf = (device, axes) => `(${digits(device, axes.map((axis) => axis.size)).join(",")})`;
