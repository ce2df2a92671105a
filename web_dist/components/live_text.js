// Puts a growing text on the screen: at most once a frame, and less often when a frame gets dear.
// The DOM inside belongs to MarkdownView; Preact never looks into it.
import { html } from "../html.js";
import { MarkdownView } from "../markdown/renderer.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { effect } from "../vendor/signals.js";

// After an update that took t, the next one waits at least this many t: typing keeps most of the time.
const REST_FACTOR = 4;

/**
 * @param {{text: import("../vendor/signals.js").Signal<string>, isEnded: () => boolean}} props isEnded: whether it is
 *   complete for now; follows that
 */
export function LiveText({ text, isEnded }) {
  const place = useRef(null);
  useLayoutEffect(() => showGrowing(text, isEnded, place.current), [text]);
  return html`<div class="prose" ref=${place}></div>`;
}

function showGrowing(text, isEnded, element) {
  const view = new MarkdownView(element);
  let frame = 0;
  let notBefore = 0;

  const paint = (now) => {
    frame = 0;
    if (now < notBefore) {
      schedule();
      return;
    }
    const begun = performance.now();
    view.update(text.peek());
    notBefore = begun + (performance.now() - begun) * (1 + REST_FACTOR);
  };
  const schedule = () => {
    if (frame === 0) frame = requestAnimationFrame(paint);
  };
  const end = effect(() => {
    const hasText = text.value !== "";
    if (!isEnded()) {
      if (hasText) schedule();
      return;
    }
    cancelAnimationFrame(frame);
    frame = 0;
    view.finish(text.peek());
  });
  return () => {
    end();
    cancelAnimationFrame(frame);
  };
}
