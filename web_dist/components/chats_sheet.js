// The chats of this tab, those that this browser keeps, and the open one as a file.
import { html } from "../html.js";
import { openFile, saveAsJson, saveAsMarkdown } from "../state/chat_files.js";
import { messages } from "../state/conversation.js";
import { isNothing } from "../state/draft.js";
import { forget, keepLeft, keepThis, keptChats, openKept, refreshKept } from "../state/keeper.js";
import { keptId } from "../state/kept_id.js";
import { findSaid } from "../state/kept_store.js";
import { deleteChat, isAnswering, reopen, tabChats } from "../state/tab_chats.js";
import { isChatsOpen } from "../state/view.js";
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { useReturningFocus } from "./editor.js";
import { count } from "./figures.js";
import { Icon } from "./icons.js";
import { Sheet } from "./sheet.js";

export const CHATS_ID = "chats";
// Fewer are seen at a glance.
const MANY = 5;
// While somebody types, it is looked for so often.
const PAUSE_MS = 150;

export function ChatsSheet() {
  return html`<${Sheet} id=${CHATS_ID} title="Chats" isOpen=${isChatsOpen}>
    <${TabList} />
    <${Keeping} />
    <${KeptList} />
    <${Files} />
  <//>`;
}

function Files() {
  const input = useRef(null);
  const fault = useSignal(null);
  const isEmpty = messages.value.length === 0;
  const open = async (event) => {
    const [file] = event.target.files;
    event.target.value = ""; // the same file may be chosen again
    if (file !== undefined) fault.value = await openFile(file);
  };
  return html`<section class="setting-group" aria-labelledby="files-title">
    <h3 id="files-title">Files</h3>
    <div class="file-buttons">
      <button type="button" class="framed" disabled=${isEmpty} onClick=${saveAsJson}>Export as JSON</button>
      <button type="button" class="framed" disabled=${isEmpty} onClick=${saveAsMarkdown}>Export as Markdown</button>
      <button type="button" class="framed" onClick=${() => input.current.click()}>Import</button>
    </div>
    <input ref=${input} type="file" accept=".json,application/json" hidden aria-label="Chat file" onChange=${open} />
    <p class="setting-help">
      JSON holds the whole chat, with images, thinking and details, and can be imported again. Markdown is for reading.
    </p>
    ${fault.value === null ? null : html`<p class="setting-help fault" role="alert">${fault.value}</p>`}
  </section>`;
}

/** Chats that were left in this tab. */
function TabList() {
  const list = tabChats.value;
  if (list.length === 0) return null;
  return html`<section class="setting-group" aria-labelledby="tab-title">
    <h3 id="tab-title">Other chats of this tab</h3>
    <ul class="rows">
      ${list.map((chat) => html`<${TabRow} key=${chat.session} chat=${chat} />`)}
    </ul>
    <p class="setting-help">They stay here, with unsent text, until you delete them or close this tab.</p>
  </section>`;
}

function TabRow({ chat }) {
  const isAsking = useSignal(false);
  const button = useReturningFocus(isAsking.value);
  const title = chat.title.value;
  if (isAsking.value) {
    const words = chat.kept.value === null ? `Delete “${title}”? This cannot be undone.` : `Remove “${title}” from this list? The saved copy stays.`;
    return html`<li><${Question}
      words=${words}
      yes=${chat.kept.value === null ? "Delete" : "Remove"}
      no="Cancel"
      onYes=${() => {
        goToTitle();
        deleteChat(chat);
      }}
      onNo=${() => (isAsking.value = false)}
    /></li>`;
  }
  const canSave = chat.kept.value === null && chat.history !== null && chat.history.length > 0;
  return html`<li class="row">
    <button type="button" class="quiet row-main" onClick=${() => {
      goToTitle();
      reopen(chat);
    }}>
      <span class="row-name" dir="auto">${title}</span><span class="row-note">${tabNote(chat)}</span>
    </button>
    ${canSave
      ? html`<button
          type="button"
          class="quiet"
          title="Save in this browser"
          aria-label=${`Save ${title}`}
          onClick=${() => {
            goToTitle();
            keepLeft(chat);
          }}
        ><${Icon} name="tray" /></button>`
      : null}
    <button type="button" ref=${button} class="quiet" title="Delete" aria-label=${`Delete ${title}`} onClick=${() => (isAsking.value = true)}>
      <${Icon} name="bin" />
    </button>
  </li>`;
}

const STATES = { fetching: "on the server", gone: "no longer on the server" };

/** When it was left, and what is going on in it. */
function tabNote(chat) {
  const at = chat.leftAt.toLocaleTimeString("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const hasUnsent = chat.unsent !== null && !isNothing(chat.unsent.text, [...chat.unsent.attachments, ...chat.unsent.queue]);
  return [
    `closed at ${at}`,
    STATES[chat.state.value],
    isAnswering(chat) ? "answering" : null,
    hasUnsent ? "unsent text" : null,
    chat.kept.value === null ? null : "saved",
  ].filter(Boolean).join(", ");
}

function Keeping() {
  const isAsking = useSignal(false);
  const isKept = keptId.value !== null;
  const box = useReturningFocus(isKept && isAsking.value);
  const change = (event) => {
    if (event.target.checked) {
      keepThis();
      return;
    }
    // It is on until the question is answered.
    event.target.checked = true;
    isAsking.value = true;
  };
  const stop = () => {
    isAsking.value = false;
    forget(keptId.value);
  };
  return html`<section class="setting-group" aria-labelledby="keeping-title">
    <h3 id="keeping-title">In this browser</h3>
    <label class="check">
      <input type="checkbox" ref=${box} checked=${isKept} aria-describedby="keeping-help" onChange=${change} />
      <span>Save this chat in this browser</span>
    </label>
    ${isKept && isAsking.value
      ? html`<${Question}
          words="Stop saving this chat? The saved copy is deleted; the chat stays open for now."
          yes="Delete the saved copy"
          no="Keep saving"
          onYes=${stop}
          onNo=${() => (isAsking.value = false)}
        />`
      : null}
    <p class="setting-help" id="keeping-help">
      ${isKept
        ? "Saved unencrypted in this browser (IndexedDB). Delete it any time."
        : "Not saved. It disappears when you close this page and stop the server."}
    </p>
  </section>`;
}

function KeptList() {
  const isAsking = useSignal(false);
  const button = useReturningFocus(isAsking.value);
  const found = useSignal(null);
  useEffect(() => void refreshKept(), []);
  const list = keptChats.value ?? [];
  if (list.length === 0) return null;
  const shown = found.value === null ? list : list.filter(({ id }) => found.value.has(id));
  const empty = async () => {
    goToTitle();
    await forget();
    isAsking.value = false;
  };
  return html`<section class="setting-group" aria-labelledby="kept-title">
    <h3 id="kept-title">Saved chats</h3>
    ${list.length < MANY ? null : html`<${Find} found=${found} />`}
    <p class="setting-help" role="status">${shown.length === 0 ? "No matches" : null}</p>
    <ul class="rows">
      ${shown.map((chat) => html`<${Row} key=${chat.id} chat=${chat} />`)}
    </ul>
    ${isAsking.value
      ? html`<${Question}
          words=${`Delete ${list.length === 1 ? "the saved chat" : `all ${count(list.length)} saved chats`}? This cannot be undone.`}
          yes="Delete"
          no="Cancel"
          onYes=${empty}
          onNo=${() => (isAsking.value = false)}
        />`
      : html`<button type="button" ref=${button} class="framed reset" onClick=${() => (isAsking.value = true)}>Delete all saved chats</button>`}
  </section>`;
}

/** Narrows the list to chats with some words in them. @param {{found: object}} props found: signal of their ids, or null */
function Find({ found }) {
  const words = useSignal("");
  useEffect(() => {
    const wanted = words.value.trim();
    if (wanted === "") {
      found.value = null;
      return undefined;
    }
    let isWanted = true;
    const timer = setTimeout(async () => {
      const ids = await findSaid(wanted).catch(() => null); // the list itself says what is wrong with the storage
      if (isWanted) found.value = ids;
    }, PAUSE_MS);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [words.value]);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || words.value === "") return;
    event.preventDefault(); // the sheet stays open
    words.value = "";
  };
  return html`<input
    type="search"
    dir="auto"
    class="find"
    aria-label="Search chats"
    placeholder="Search chats"
    value=${words.value}
    onInput=${(event) => (words.value = event.target.value)}
    onKeyDown=${onKeyDown}
  />`;
}

function Row({ chat }) {
  const isAsking = useSignal(false);
  const button = useReturningFocus(isAsking.value);
  const isOpen = chat.id === keptId.value;
  if (isAsking.value) {
    return html`<li><${Question}
      words=${`Delete the saved copy of “${chat.title}”? This cannot be undone.`}
      yes="Delete"
      no="Cancel"
      onYes=${() => {
        goToTitle();
        forget(chat.id);
      }}
      onNo=${() => (isAsking.value = false)}
    /></li>`;
  }
  const note = isOpen ? "open" : `${day(chat.savedAt)}, ${count(chat.turns)} ${chat.turns === 1 ? "turn" : "turns"}`;
  return html`<li class="row">
    <button type="button" class="quiet row-main" aria-current=${isOpen ? "true" : undefined} onClick=${() => !isOpen && openKept(chat.id)}>
      <span class="row-name" dir="auto">${chat.title}</span><span class="row-note">${note}</span>
    </button>
    <button type="button" ref=${button} class="quiet" title="Delete" aria-label=${`Delete ${chat.title}`} onClick=${() => (isAsking.value = true)}>
      <${Icon} name="bin" />
    </button>
  </li>`;
}

/** Where the keyboard goes on when a row is about to go with all that is in it. */
function goToTitle() {
  document.querySelector(`#${CHATS_ID} h2`).focus();
}

/** Asks in place; the keyboard begins at the answer that changes nothing. */
function Question({ words, yes, no, onYes, onNo }) {
  const box = useRef(null);
  useEffect(() => box.current.querySelector("button").focus(), []);
  const onKeyDown = (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the sheet stays open
    onNo();
  };
  return html`<div class="question" role="group" aria-label=${words} ref=${box} onKeyDown=${onKeyDown}>
    <p>${words}</p>
    <div class="form-buttons">
      <button type="button" class="framed" onClick=${onNo}>${no}</button>
      <button type="button" class="framed danger" onClick=${onYes}>${yes}</button>
    </div>
  </div>`;
}

function day(date) {
  return new Date(date).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}
