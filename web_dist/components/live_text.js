// Puts a growing text on the screen: at most once a frame, and less often when a frame gets dear. One that is complete
// from the start, as in a chat that is restored, may have to wait its turn and is plain text until then.
// The DOM inside belongs to a view (Markdown, or the source as it is); Preact never looks into it.
import { html } from "../html.js";
import { hasLongWord, LONG_WORDS } from "../markdown/long_words.js";
import { MarkdownView } from "../markdown/renderer.js";
import { SourceView } from "../markdown/source_view.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { effect, untracked } from "../vendor/signals.js";
import { renderLater } from "./render_later.js";

// After an update that took t, the next one waits at least this many t: typing keeps most of the time.
const REST_FACTOR = 4;

/**
 * @param {{text: import("../vendor/signals.js").Signal<string>, isEnded: () => boolean, isSource?: boolean}} props
 *   isEnded: whether it is complete for now; follows that. isSource: shown as it was written
 */
export function LiveText({ text, isEnded, isSource = false }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    const View = isSource ? SourceView : MarkdownView;
    return show(text, isEnded, place.current, View);
  }, [text, isSource]);
  return html`<div class="prose" ref=${place}></div>`;
}

function show(text, isEnded, element, View) {
  let stop = () => {};
  const begin = () => {
    element.replaceChildren();
    element.classList.remove(LONG_WORDS);
    stop = showGrowing(text, isEnded, new View(element));
  };
  const isComplete = untracked(isEnded) && text.peek() !== "";
  if (isComplete) {
    element.textContent = text.peek(); // so that it can be found
    element.classList.toggle(LONG_WORDS, hasLongWord(text.peek()));
    const turn = element.closest(".thought, .turn");
    stop = renderLater(turn, begin);
  } else {
    begin();
  }
  return () => {
    stop();
    element.replaceChildren();
  };
}

function showGrowing(text, isEnded, view) {
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
