// Entry of the page: puts the parts together and starts following the server.
import { Announcer } from "./components/announcer.js";
import { Banner } from "./components/banner.js";
import { ChatsSheet } from "./components/chats_sheet.js";
import { Composer } from "./components/composer.js";
import { ContextMeter } from "./components/context_bar.js";
import { FileViewer } from "./components/file_chips.js";
import { Header } from "./components/header.js";
import { Notices } from "./components/notices.js";
import { PromptPanel } from "./components/prompt_panel.js";
import { PictureViewer } from "./components/pictures.js";
import { QueueList } from "./components/queue_list.js";
import { RefusedFiles } from "./components/refused_files.js";
import { SettingsSheet } from "./components/settings_sheet.js";
import { followShortcuts, ShortcutList } from "./components/shortcuts.js";
import { Transcript } from "./components/transcript.js";
import { html } from "./html.js";
import { followPrices } from "./state/attachments.js";
import { askBeforeEditsAreLost } from "./state/open_edits.js";
import { followQueue } from "./state/queue.js";
import { noticeRestarts, restoreChat } from "./state/restore.js";
import { followServer } from "./state/server.js";
import { followTabTitle } from "./state/tab_title.js";
import { paintBrowserFrame } from "./state/theme.js";
import { render } from "./vendor/preact.js";

function App() {
  return html`<div class="frame">
    <${Header} />
    <${Transcript} />
    <footer class="dock">
      <div class="column">
        <${Banner} /><${Notices} /><${RefusedFiles} /><${QueueList} /><${Composer} /><${ContextMeter} />
      </div>
    </footer>
    <${ChatsSheet} />
    <${SettingsSheet} />
    <${PromptPanel} />
    <${ShortcutList} />
    <${PictureViewer} />
    <${FileViewer} />
    <${Announcer} />
  </div>`;
}

const root = document.getElementById("app");
restoreChat();
root.replaceChildren();
render(html`<${App} />`, root);
followServer();
noticeRestarts();
followQueue();
askBeforeEditsAreLost();
followPrices();
followShortcuts();
followTabTitle();
paintBrowserFrame();
