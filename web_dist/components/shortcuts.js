// Keys of the page: what each does, and the list of them.
import { copyText } from "../clipboard.js";
import { html } from "../html.js";
import { isRunning, messages, stop } from "../state/conversation.js";
import { remark } from "../state/notices.js";
import { hasShortcuts, isTyping, switchShortcuts } from "../state/shortcuts.js";
import { isChatsOpen, isSettingsOpen, isShortcutListOpen } from "../state/view.js";
import { focusComposer } from "./composer.js";
import { startNewChat } from "./header.js";
import { Icon } from "./icons.js";
import { Modal } from "./modal.js";
import { jumpToNewest } from "./transcript.js";

const REMARK_FOR_MS = 4000;

/** Single keys, none of which a browser takes for itself. A screen reader in reading mode keeps them to itself. */
const KEYS = [
  { key: "/", words: "Write a message", run: focusComposer },
  { key: "n", words: "New chat", run: startNewChat },
  { key: "c", words: "Copy the last answer", run: copyLastAnswer },
  { key: "t", words: "Open or fold the last thinking", run: () => lastOf(".thought-head")?.click() },
  { key: "e", words: "Jump to the newest", run: jumpToNewest },
  { key: "s", words: "Open or close the settings", run: () => toggle(isSettingsOpen) },
  { key: "k", words: "Open or close the kept chats", run: () => toggle(isChatsOpen) },
  { key: "?", words: "This list", run: () => (isShortcutListOpen.value = true) },
];
const WRITING_KEYS = [
  [["Enter"], "Send, or queue while an answer is written"],
  [["Shift", "Enter"], "New line"],
  [["↑"], "In the empty field: what you said before"],
  [["Ctrl", "Enter"], "Save an edit (on a Mac also ⌘)"],
  [["Esc"], "Stop the answer; close what is open"],
];

/** Starts listening; the page calls it once. */
export function followShortcuts() {
  document.addEventListener("keydown", onKeyDown);
}

function onKeyDown(event) {
  if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  if (document.querySelector("dialog:modal") !== null) return;
  if (event.key === "Escape") {
    // In an editor it closes that one; for an input method it ends the composition.
    if (isRunning.value && !event.isComposing && event.keyCode !== 229 && !event.target.closest?.(".editor")) stop();
    return;
  }
  const shortcut = KEYS.find(({ key }) => key === event.key);
  if (shortcut === undefined || !hasShortcuts.value || isTyping(event)) return;
  event.preventDefault();
  shortcut.run();
}

function toggle(sheet) {
  sheet.value = !sheet.value;
}

async function copyLastAnswer() {
  const answer = messages.value.findLast((message) => message.role === "assistant" && message.hasText.value);
  if (answer === undefined) return;
  const words = (await copyText(answer.text.value)) ? "The last answer was copied." : "Copying failed.";
  remark.value = words;
  setTimeout(() => {
    if (remark.value === words) remark.value = null;
  }, REMARK_FOR_MS);
}

function lastOf(selector) {
  return [...document.querySelectorAll(selector)].at(-1);
}

export function ShortcutList() {
  const close = () => (isShortcutListOpen.value = false);
  return html`<${Modal} kind="shortcuts" isOpen=${isShortcutListOpen.value} onClose=${close} titleId="shortcuts-title">
    <${Contents} onClose=${close} />
  <//>`;
}

function Contents({ onClose }) {
  return html`<div class="shortcuts-frame">
    <div class="sheet-head">
      <h2 id="shortcuts-title" tabindex="-1">Keyboard shortcuts</h2>
      <button type="button" class="quiet" title="Close" aria-label="Close keyboard shortcuts" onClick=${onClose}>
        <${Icon} name="close" />
      </button>
    </div>
    <div class="sheet-body">
      <div class="shortcut-groups">
        <section aria-labelledby="writing-keys">
          <h3 id="writing-keys">While writing</h3>
          <dl class="keys">${WRITING_KEYS.map(([keys, words]) => html`<${Line} key=${words} keys=${keys} words=${words} />`)}</dl>
        </section>
        <section aria-labelledby="single-keys">
          <h3 id="single-keys">Elsewhere</h3>
          <dl class=${hasShortcuts.value ? "keys single" : "keys single off"}>
            ${KEYS.map(({ key, words }) => html`<${Line} key=${key} keys=${[key]} words=${words} />`)}
          </dl>
        </section>
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked=${hasShortcuts.value}
          aria-describedby="shortcuts-help"
          onChange=${(event) => switchShortcuts(event.target.checked)}
        /><span>Use single keys</span>
      </label>
      <p class="setting-help" id="shortcuts-help">
        They do nothing while you type. Switch them off if you speak to your computer, or hit keys by chance; this list is
        in the settings, too.
      </p>
    </div>
  </div>`;
}

function Line({ keys, words }) {
  return html`<div><dt>${keys.map((key) => html`<kbd key=${key}>${key}</kbd>`)}</dt><dd>${words}</dd></div>`;
}
