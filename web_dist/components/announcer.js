// What a screen reader is told without being asked: once per ended answer, and when the server's state
// changes in kind (not on every percent).
import { html } from "../html.js";
import { lastEnded, undoable } from "../state/conversation.js";
import { status } from "../state/status.js";
import { computed } from "../vendor/signals.js";

// Enough to know what the answer says; the whole of it is in the conversation.
const SPOKEN_LENGTH = 240;
const LOOKED_AT = 4 * SPOKEN_LENGTH; // with its marks and spaces

const answerWords = computed(() => {
  const answer = lastEnded.value;
  const undo = undoable.value;
  if (undo !== null && undo.given === null) return `${undo.words} This can be undone.`;
  // Empty while one runs: the same words twice in a row would otherwise be said only once.
  if (answer === null) return "";
  return undo === null ? howItEnded(answer) : `${howItEnded(answer)} ${undo.words} This can be undone.`;
});

function howItEnded(answer) {
  switch (answer.phase.peek()) {
    case "failed":
      return `The answer failed. ${answer.error.peek().message}`;
    case "interrupted":
      return `The answer was interrupted. ${answer.error.peek().message}`;
    case "stopped":
      return "Answer stopped.";
    default:
      return endWords(answer);
  }
}

function endWords(answer) {
  const isCut = answer.finishReason.peek() === "length";
  if (!answer.hasText.peek()) return isCut ? "Cut off while thinking; there is no answer yet." : "There is no answer.";
  return `${isCut ? "Answer cut off." : "Answer finished."} ${shorten(answer.text.peek())}`;
}

const stateWords = computed(() => {
  const { tone, text } = status.value;
  if (tone === "bad") return text;
  return tone === "ready" || tone === "busy" ? "Model ready" : text.split(",")[0];
});

function shorten(markdown) {
  const plain = markdown.slice(0, LOOKED_AT).replace(/[`*_#>|]+/g, " ").replace(/\s+/g, " ").trim();
  return markdown.length <= LOOKED_AT && plain.length <= SPOKEN_LENGTH ? plain : `${plain.slice(0, SPOKEN_LENGTH)} …`;
}

export function Announcer() {
  return html`<div class="visually-hidden">
    <p role="status" data-testid="announce-answer">${answerWords}</p>
    <p role="status" data-testid="announce-state">${stateWords}</p>
  </div>`;
}
