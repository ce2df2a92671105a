// The bar on top: name, quiet status line, new chat, settings.
import { html } from "../html.js";
import { server } from "../state/server.js";
import { status } from "../state/status.js";
import { newChat } from "../state/tab_chats.js";
import { isChatsOpen, isSettingsOpen } from "../state/view.js";
import { CHATS_ID } from "./chats_sheet.js";
import { focusComposer } from "./composer.js";
import { Icon, Mark } from "./icons.js";
import { SETTINGS_ID } from "./settings_sheet.js";

export function startNewChat() {
  newChat();
  focusComposer();
}

export function Header() {
  return html`<header class="bar">
    <div class="brand"><${Mark} /><h1>Muse Glimmer</h1></div>
    <${StatusLine} />
    <div class="bar-actions">
      <button type="button" class="quiet" title="New chat" onClick=${startNewChat}>
        <${Icon} name="plus" /><span class="label">New chat</span>
      </button>
      <${SheetButton} name="Chats" icon="tray" controls=${CHATS_ID} isOpen=${isChatsOpen} />
      <${SheetButton} name="Settings" icon="sliders" controls=${SETTINGS_ID} isOpen=${isSettingsOpen} />
    </div>
    <${LoadLine} />
  </header>`;
}

function SheetButton({ name, icon, controls, isOpen }) {
  return html`<button
    type="button"
    class="quiet"
    title=${name}
    aria-expanded=${isOpen.value ? "true" : "false"}
    aria-controls=${controls}
    onClick=${() => (isOpen.value = !isOpen.value)}
  >
    <${Icon} name=${icon} /><span class="label">${name}</span>
  </button>`;
}

function StatusLine() {
  const { tone, text } = status.value;
  const model = server.value?.model?.id;
  const isUp = tone === "ready" || tone === "busy";
  return html`<p class="status ${tone}" data-testid="status">
    <span class="status-dot" aria-hidden="true"></span><span>${text}</span>
    ${isUp && model ? html`<span class="status-model" title=${model}>${model}</span>` : null}
  </p>`;
}

function LoadLine() {
  const { fraction } = status.value;
  if (fraction === null) return null;
  return html`<div
    class="load-line"
    role="progressbar"
    aria-label="Loading the model"
    aria-valuemin="0"
    aria-valuemax="100"
    aria-valuenow=${Math.floor(fraction * 100)}
  ><span style=${{ transform: `scaleX(${fraction})` }}></span></div>`;
}
