// The page: one section after the other, and the choice of light or dark.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const theme = (name) => document.documentElement.setAttribute("data-theme", name);
theme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

if (data.summary) {
  section("summary", "Summary", el("ul", { class: "summary" }, data.summary.map((line) => el("li", {}, line))));
}
showProgram();
if (data.summary) {
  showLayouts();
  showPlan();
  showPlayer();
  showTimeline();
  showLinks();
  showSchedule();
} else {
  document.getElementById("main").append(el("p", {}, "The program is wrong, so there is nothing more to show."));
}
