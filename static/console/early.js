/* Runs before the first paint: the chosen theme must not flash in late (CON-239). Classic script on purpose. */
(function () {
  "use strict";
  try {
    const theme = localStorage.getItem("qm_theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    /* Storage is blocked: the system's theme holds. */
  }
})();
