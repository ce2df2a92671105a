// Runs before the first paint, as a classic script: sets the stored theme, so that nothing flashes,
// and says what to do when the page's modules are not there (set-up has not run).
(() => {
  "use strict";
  let theme = null;
  try {
    theme = localStorage.getItem("muse.theme");
  } catch {
    // storage is switched off: follow the system
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

  addEventListener(
    "error",
    (event) => {
      const isModule = event.target instanceof HTMLScriptElement || event.target instanceof HTMLLinkElement;
      const line = document.getElementById("boot-line");
      if (!isModule || line === null) return;
      line.textContent = "A part of the page is missing. Run “python3 -m bootstrap setup” once, then reload.";
    },
    true,
  );
})();
