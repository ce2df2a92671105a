// Copying a selection gives formulas as the model wrote them: the text inside a math element makes no sense elsewhere.

/** @param {(formula: Element) => string} sourceOf the source of a formula's element */
export function copyFormulasAsSource(sourceOf) {
  document.addEventListener("copy", (event) => {
    const selection = document.getSelection();
    if (selection === null || selection.rangeCount === 0 || event.target instanceof HTMLTextAreaElement) return;
    const range = selection.getRangeAt(0);
    const parts = partsOf(range, selection);
    if (parts.length === 0) return;
    const copied = copyOf(range, parts.map(sourceOf));
    event.clipboardData.setData("text/plain", copied.text);
    event.clipboardData.setData("text/html", copied.html);
    event.preventDefault();
  });
}

/** The formulas that the selection touches, in order. */
function partsOf(range, selection) {
  const common = range.commonAncestorContainer;
  const around = common instanceof Element ? common : common.parentElement;
  const whole = around.closest(".formula");
  if (whole !== null) return selection.isCollapsed ? [] : [whole];
  return [...around.querySelectorAll(".formula")].filter((formula) => range.intersectsNode(formula));
}

function copyOf(range, sources) {
  const holder = document.createElement("div");
  holder.className = "visually-hidden";
  holder.append(range.cloneContents());
  const formulas = holder.querySelectorAll(".formula");
  if (formulas.length === 0) holder.replaceChildren(sources[0]); // the selection is inside one of them
  for (const [at, formula] of formulas.entries()) {
    formula.classList.remove("is-set"); // its lines are then kept
    formula.replaceChildren(sources[at] ?? formula.textContent);
  }
  for (const head of holder.querySelectorAll(".code-head")) head.remove();
  // Only what is part of the page has lines and paragraphs.
  document.body.append(holder);
  const copied = { text: holder.innerText, html: holder.innerHTML };
  holder.remove();
  return copied;
}
