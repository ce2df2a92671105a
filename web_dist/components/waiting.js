// The line under an unfinished answer: what the server is at, in words, with a bar where it is known.
import { html } from "../html.js";
import { answerNow } from "../state/continuation.js";
import { isStopping } from "../state/conversation.js";
import { newPace } from "../state/reading_pace.js";
import { cannotAnswer, percent, server } from "../state/server.js";
import { returnToComposer } from "./composer.js";
import { ordinal } from "./figures.js";
import { readingWords } from "./reading_words.js";

export function Waiting({ answer }) {
  const { words, fraction } = describe(answer);
  return html`<div class="waiting">
    <span class="waiting-dot" aria-hidden="true"></span>
    <span>${words}</span>
    ${fraction === null
      ? null
      : html`<span class="waiting-bar" aria-hidden="true"><span style=${{ transform: `scaleX(${fraction})` }}></span></span>`}
    ${answer.phase.value === "thinking" && !isStopping.value ? html`<${AnswerNow} answer=${answer} />` : null}
  </div>`;
}

function AnswerNow({ answer }) {
  if (answer.haste.value) return null;
  const isLost = answer.progress.value?.phase === "reconnecting";
  const reason = cannotAnswer.value ?? (isLost ? "while the server cannot be reached" : null);
  const ask = () => {
    answerNow(answer);
    returnToComposer();
  };
  return html`<button
    type="button"
    class="quiet answer-now"
    title=${reason === null ? "End the thinking here" : `Not ${reason}`}
    aria-disabled=${reason === null ? "false" : "true"}
    onClick=${() => reason === null && ask()}
  >Answer now</button>`;
}

function describe(answer) {
  const plain = (words) => ({ words, fraction: null });
  if (isStopping.value) return plain("Stopping");
  const progress = answer.progress.value;
  const hasBegun = answer.hasText.value || answer.hasReasoning.value;
  switch (progress?.phase) {
    case "loading":
      return loading(progress.fraction, hasBegun);
    case "queued":
      return plain(progress.position > 0 ? `Queued, ${ordinal(progress.position)}` : "Queued");
    case "prefill":
      return readingWords(paceOf(answer).note(progress, performance.now()));
    case "vision":
      return plain(progress.total > 1 ? `Processing image ${progress.processed + 1} of ${progress.total}` : "Processing image");
    case "restarting":
      return plain("The model is restarting; the answer goes on when it is back");
    case "reconnecting":
      return plain("The connection was lost; reconnecting");
    default: {
      // The answer's own stream says nothing in its first two seconds.
      const worker = server.value?.worker;
      if (!hasBegun && ["starting", "loading"].includes(worker?.state)) return loading(worker.fraction, false);
      return plain(phaseWords(answer, hasBegun));
    }
  }
}

function loading(fraction, hasBegun) {
  // Half an answer is there: the model is new, the answer is not.
  const words = hasBegun ? "The model is restarting; the answer goes on" : "Waiting for the model to load";
  const isKnown = typeof fraction === "number";
  return { words: isKnown ? `${words}, ${percent(fraction)}` : words, fraction: isKnown ? fraction : null };
}

const paces = new WeakMap();

function paceOf(answer) {
  if (!paces.has(answer)) paces.set(answer, newPace());
  return paces.get(answer);
}

function phaseWords(answer, hasBegun) {
  if (answer.phase.value === "writing") return "Writing";
  if (answer.phase.value === "thinking") return answer.haste.value ? "Wrapping up thinking" : "Thinking";
  return hasBegun ? "Continuing" : "Waiting for the first word";
}
