"use strict";
// What all sections use. Text from a program only ever becomes text: nothing is parsed as markup.

const data = JSON.parse(document.getElementById("data").textContent);

// Neighbours differ in brightness as well, for the colour-blind.
const COLORS = ["#a6cee3", "#1f78b4", "#fdd49e", "#6a51a3", "#c7e9c0", "#b15928", "#dadaeb", "#238b45"];
const INK = ["#000", "#fff", "#000", "#fff", "#000", "#fff", "#000", "#fff"];
const SVG = "http://www.w3.org/2000/svg";

// What cannot be seen or reorders the text around it is drawn as another character, one for one: columns stay.
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

// What is folded is drawn when it is unfolded.
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

// The devices of one plane of the mesh: the last axis to the right, the one before down, the others chosen.
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
