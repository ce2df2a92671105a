// Runs before everything else, as a classic script: sets the stored theme, so that nothing flashes, asks for the chat
// of this tab, and says what to do when the page's modules are not there (set-up has not run).
(() => {
  "use strict";
  let theme = null;
  try {
    theme = localStorage.getItem("muse.theme");
  } catch {
    // storage is switched off: follow the system
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

  // The server needs as long for a long chat as the browser for the modules. state/restore.js takes the answer, which
  // is null if none came. The server answers from memory: much longer than that means that it does not answer at all.
  const PATIENCE_MS = 15_000;
  window.heldChat = null;
  try {
    const id = sessionStorage.getItem("muse.session");
    if (id !== null && sessionStorage.getItem("muse.session-started") !== null) {
      const options = { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) };
      window.heldChat = fetch(`/v1/sessions/${encodeURIComponent(id)}`, options).catch(() => null);
    }
  } catch {
    // storage is switched off: the tab has no chat
  }

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
