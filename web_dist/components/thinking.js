// What the model thought before its answer, in a part that opens and folds.
//
// Open while there is no answer yet, folded from the answer's first word on; but what the reader has opened or closed
// stays so, and what somebody is reading is not folded away.
import { html } from "../html.js";
import { isOver } from "../state/messages.js";
import { isAtEnd } from "../state/view.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { effect } from "../vendor/signals.js";
import { roughDuration, tokens } from "./figures.js";
import { Icon } from "./icons.js";
import { LiveText } from "./live_text.js";

export function Thinking({ answer }) {
  return answer.hasReasoning.value ? html`<${Thought} answer=${answer} />` : null;
}

function Thought({ answer }) {
  const head = useRef(null);
  const body = useRef(null);
  const headTop = useRef(null);
  const isShown = answer.isThoughtShown.value ?? !answer.hasText.value;
  const id = `thought-${answer.key}`;

  useLayoutEffect(() => keepWhatIsRead(answer, body.current), [answer]);
  useLayoutEffect(() => {
    // The button stays under the finger, whatever grew or shrank around it.
    if (headTop.current !== null) head.current.closest(".transcript").scrollTop += topOf(head) - headTop.current;
    headTop.current = null;
  }, [isShown]);

  const toggle = () => {
    headTop.current = topOf(head);
    // It is opened to be read from its beginning, not to see its end go by.
    if (!isShown) isAtEnd.value = false;
    answer.isThoughtShown.value = !isShown;
  };
  return html`<div class="thought" role="group" aria-label="Thinking">
    <button
      type="button"
      ref=${head}
      class="quiet thought-head"
      aria-expanded=${isShown ? "true" : "false"}
      aria-controls=${id}
      onClick=${toggle}
    ><${Icon} name="chevron" /><span>${headWords(answer)}</span></button>
    <div id=${id} class="thought-body" ref=${body} hidden=${!isShown}>
      ${isShown ? html`<${LiveText} text=${answer.reasoning} isEnded=${() => !isThinking(answer)} />` : null}
    </div>
  </div>`;
}

/** Follows the answer. */
function isThinking(answer) {
  return !isOver(answer) && (answer.phase.value === "thinking" || !answer.hasText.value);
}

function headWords(answer) {
  if (isThinking(answer)) return "Thinking…";
  const thought = answer.thought.value;
  return thought === null ? "Thought" : `Thought for ${roughDuration(thought.ms)} · ${tokens(thought.tokens)}`;
}

function topOf(element) {
  return element.current.getBoundingClientRect().top;
}

/** When the answer begins and the thought would fold, it stays open for whoever is reading it. */
function keepWhatIsRead(answer, body) {
  return effect(() => {
    if (answer.hasText.value && answer.isThoughtShown.peek() === null && isBeingRead(body)) {
      answer.isThoughtShown.value = true;
    }
  });
}

function isBeingRead(body) {
  if (body.hidden) return false;
  const selection = document.getSelection();
  const isSelected = selection !== null && !selection.isCollapsed && selection.containsNode(body, true);
  if (isSelected || body.contains(document.activeElement)) return true;
  if (isAtEnd.peek()) return false;
  const [shown, view] = [body, body.closest(".transcript")].map((element) => element.getBoundingClientRect());
  return shown.bottom > view.top && shown.top < view.bottom;
}
