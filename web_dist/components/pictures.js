// Pictures of a message: small ones that open large.
import { html } from "../html.js";
import { learnOf } from "../state/pictures.js";
import { shownPicture } from "../state/view.js";
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { pictureFacts } from "./attachment_tray.js";
import { Icon } from "./icons.js";
import { Modal } from "./modal.js";

export function Pictures({ pictures }) {
  if (pictures.length === 0) return null;
  return html`<ul class="pictures">
    ${pictures.map(
      (picture) => html`<li key=${picture.key}><${Small} picture=${picture} /></li>`,
    )}
  </ul>`;
}

function Small({ picture }) {
  // The picture's own size, of one that came back only once it is there: learning it costs a request.
  const own = useSignal(picture.extent.peek());
  const note = ({ target }) => (own.value = { width: target.naturalWidth, height: target.naturalHeight });
  const size = own.value && { "--width": `${own.value.width}px`, "--height": `${own.value.height}px` };
  return html`<button
    type="button"
    class="picture"
    title="Show large"
    aria-label=${`${picture.name}, show large`}
    onClick=${() => (shownPicture.value = picture)}
  ><img src=${picture.view} alt=${picture.name} decoding="async" style=${size} onLoad=${own.value === null ? note : null} /></button>`;
}

/** The picture that was asked for, over the page. Escape, a click beside it or the button close it. */
export function PictureViewer() {
  const picture = shownPicture.value;
  const close = () => (shownPicture.value = null);
  return html`<${Modal} kind="viewer" isOpen=${picture !== null} onClose=${close} label=${picture?.name}>
    ${picture === null ? null : html`<${Viewer} picture=${picture} onClose=${close} />`}
  <//>`;
}

function Viewer({ picture, onClose }) {
  useEffect(() => void learnOf(picture), [picture]);
  return html`<figure>
    <img src=${picture.view} alt=${picture.name} />
    <figcaption>
      <span><strong>${picture.name}</strong> <span class="picture-facts">${pictureFacts(picture)}</span></span>
      <button type="button" class="quiet" title="Close (Esc)" aria-label="Close" onClick=${onClose}>
        <${Icon} name="close" />
      </button>
    </figcaption>
  </figure>`;
}
