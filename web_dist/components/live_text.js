// Puts an answer's text on the screen: at most once a frame, and less often when a frame gets dear.
// The DOM inside belongs to MarkdownView; Preact never looks into it.
import { html } from "../html.js";
import { MarkdownView } from "../markdown/renderer.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { effect } from "../vendor/signals.js";

// After an update that took t, the next one waits at least this many t: typing keeps most of the time.
const REST_FACTOR = 4;

export function LiveText({ answer }) {
  const place = useRef(null);
  useLayoutEffect(() => showGrowing(answer, place.current), [answer]);
  return html`<div class="prose" ref=${place}></div>`;
}

function showGrowing(answer, element) {
  const view = new MarkdownView(element);
  let frame = 0;
  let notBefore = 0;
  const isOver = () => answer.phase.peek() !== "waiting" && answer.phase.peek() !== "writing";

  const paint = (now) => {
    frame = 0;
    if (now < notBefore) {
      schedule();
      return;
    }
    const begun = performance.now();
    view.update(answer.text.peek());
    notBefore = begun + (performance.now() - begun) * (1 + REST_FACTOR);
  };
  const schedule = () => {
    if (frame === 0) frame = requestAnimationFrame(paint);
  };
  const end = effect(() => {
    const hasText = answer.text.value !== "";
    const isEnded = answer.phase.value !== "waiting" && answer.phase.value !== "writing";
    if (!isEnded) {
      if (hasText) schedule();
      return;
    }
    cancelAnimationFrame(frame);
    frame = 0;
    view.finish(answer.text.peek());
  });
  return () => {
    end();
    cancelAnimationFrame(frame);
    if (!isOver()) element.replaceChildren();
  };
}
