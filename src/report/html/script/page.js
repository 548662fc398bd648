// The page: one section after the other.

if (data.figures) {
  showSummary();
  showTimeline();
  showProgram();
  showPlan();
  showPlayer();
  showLayouts();
  showLinks();
  showSchedule();
} else {
  showProgram();
  document.getElementById("main").append(el("p", {}, "The program has errors, so it has no plan."));
}
