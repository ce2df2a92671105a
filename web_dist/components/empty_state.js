// What a new chat shows: where one is, a few things to try, and the way back to the chat just left.
import { html } from "../html.js";
import { previousChat } from "../state/conversation.js";
import { joined } from "../state/draft.js";
import { server } from "../state/server.js";
import { status } from "../state/status.js";
import { reopen } from "../state/tab_chats.js";
import { draft } from "../state/view.js";
import { focusComposer, returnToComposer } from "./composer.js";
import { Icon } from "./icons.js";

const SUGGESTIONS = [
  "Explain how a hash map works, with a short Python example",
  "Compare tea, coffee and mate in a table",
  "Write a short story about a lighthouse keeper",
];

export function EmptyState() {
  const isUp = ["ready", "busy"].includes(status.value.tone);
  const model = isUp ? server.value?.model?.id : null;
  const take = (text) => {
    draft.value = joined([draft.value, text]);
    focusComposer();
  };
  const back = () => {
    reopen(previousChat.value);
    returnToComposer();
  };
  return html`<section class="empty" aria-labelledby="empty-title">
    <h2 id="empty-title">What is on your mind?</h2>
    <p>
      ${model ? html`You are talking to <strong>${model}</strong>. ` : null}The model runs on this computer, and what you
      write stays here.
    </p>
    <ul class="suggestions">
      ${SUGGESTIONS.map(
        (text) => html`<li key=${text}>
          <button type="button" class="suggestion" onClick=${() => take(text)}>${text}</button>
        </li>`,
      )}
    </ul>
    ${previousChat.value === null
      ? null
      : html`<button type="button" class="quiet bring-back" onClick=${back}>
          <${Icon} name="back" />Reopen the previous chat
        </button>`}
  </section>`;
}
