// What a new chat shows: where one is, a few things to try, and the way back to the chat just left.
import { html } from "../html.js";
import { bringBack, putAway } from "../state/conversation.js";
import { server } from "../state/server.js";
import { draft } from "../state/view.js";
import { focusComposer, returnToComposer } from "./composer.js";
import { Icon } from "./icons.js";

const SUGGESTIONS = [
  "Explain how a hash map works, with a short Python example",
  "Compare tea, coffee and mate in a table",
  "Write a short story about a lighthouse keeper",
];

export function EmptyState() {
  const model = server.value?.model?.id;
  const take = (text) => {
    draft.value = text;
    focusComposer();
  };
  const back = () => {
    bringBack();
    returnToComposer();
  };
  return html`<section class="empty" aria-labelledby="empty-title">
    <h2 id="empty-title">What is on your mind?</h2>
    <p>
      ${model ? html`You are talking to <strong>${model}</strong>. ` : null}It runs on this computer, and what you write
      stays here.
    </p>
    <ul class="suggestions">
      ${SUGGESTIONS.map(
        (text) => html`<li key=${text}>
          <button type="button" class="suggestion" onClick=${() => take(text)}>${text}</button>
        </li>`,
      )}
    </ul>
    ${putAway.value === null
      ? null
      : html`<button type="button" class="quiet bring-back" onClick=${back}>
          <${Icon} name="back" />Bring back the last chat
        </button>`}
  </section>`;
}
