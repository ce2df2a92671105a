// Formulas by Temml, which is loaded when the first one comes. What cannot be set in type stays the text it was.

import { toMathML } from "./mathml.js";

// How long formulas may hold up one frame; the others wait for the next ones.
const BUDGET_MS = 8;
// Each definition of a formula's own can multiply what follows, so formulas with any may be long, or have many uses of
// them, but not both.
const DEFINES = /\\(?:[gex]?def|let|futurelet|(?:re)?newcommand|providecommand|DeclareMathOperator)(?![A-Za-z])/;
const MAX_DEFINING = 600;
const MAX_EXPANSIONS = { plain: 1000, defining: 60 };

let engine = null;
let loading = null;
const queue = new Set();
let frame = 0;

/**
 * Has the formula set in type: at once if there is time in this frame, else soon.
 * @param {{source: string, isDisplay: boolean, place: (math: Element) => void}} formula `place` gets the result, if
 *   there is one
 */
export function typeset(formula) {
  queue.add(formula);
  if (engine === null) {
    loading ??= load();
    return;
  }
  if (frame === 0) work();
}

async function load() {
  try {
    const [{ default: temml }] = await Promise.all([import("../vendor/temml/temml.js"), loadStyle()]);
    engine = temml;
    work();
  } catch (fault) {
    loading = null; // the next formula tries again
    queue.clear();
    console.warn("formulas stay as they are written:", fault);
  }
}

function loadStyle() {
  return new Promise((resolve, reject) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("../vendor/temml/temml.css", import.meta.url).href;
    link.addEventListener("load", resolve);
    link.addEventListener("error", () => reject(new Error("no style for formulas")));
    // Before the page's own sheets, which have the last word.
    document.head.prepend(link);
  });
}

/** Works until the frame's time is used up; once it is, everything else waits for the next frame. */
function work() {
  frame = requestAnimationFrame(() => {
    frame = 0;
    if (queue.size > 0) work();
  });
  const until = performance.now() + BUDGET_MS;
  for (const formula of queue) {
    if (performance.now() > until) return;
    queue.delete(formula);
    const made = mathOf(formula);
    if (made !== null) formula.place(made);
  }
}

function mathOf({ source, isDisplay }) {
  const isDefining = DEFINES.test(source);
  if (isDefining && source.length > MAX_DEFINING) return null;
  try {
    const tree = engine.__renderToMathMLTree(source, {
      displayMode: isDisplay,
      throwOnError: true,
      trust: false,
      maxExpand: isDefining ? MAX_EXPANSIONS.defining : MAX_EXPANSIONS.plain,
      maxSize: [30, 300],
      // Without it a formula's definitions could end up in the next one.
      macros: Object.create(null),
    });
    return toMathML(tree);
  } catch {
    return null; // bad or half LaTeX is common, and the source says more than an error
  }
}
