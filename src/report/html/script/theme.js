// The theme: that of the reader, until a button is pressed.

const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const toggle = document.getElementById("theme");
const theme = (name) => {
  root.setAttribute("data-theme", name);
  toggle.setAttribute("aria-pressed", name === "dark");
};
theme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
toggle.addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));

// Print in light colours: style sheets do so by themselves, and the canvas is repainted.
let screen = root.dataset.theme;
window.addEventListener("beforeprint", () => { screen = root.dataset.theme; theme("light"); });
window.addEventListener("afterprint", () => theme(screen));
