// Pictures of a message: small ones that open large.
import { html } from "../html.js";
import { shownPicture } from "../state/view.js";
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { pictureFacts } from "./attachment_tray.js";
import { Icon } from "./icons.js";

export function Pictures({ pictures }) {
  if (pictures.length === 0) return null;
  return html`<ul class="pictures">
    ${pictures.map(
      (picture) => html`<li key=${picture.key}>
        <button
          type="button"
          class="picture"
          title="Show large"
          aria-label=${`${picture.name}, show large`}
          onClick=${() => (shownPicture.value = picture)}
        ><img src=${picture.url} alt=${picture.name} decoding="async" /></button>
      </li>`,
    )}
  </ul>`;
}

/** The picture that was asked for, over the page. Escape, a click beside it or the button close it. */
export function PictureViewer() {
  return shownPicture.value === null ? null : html`<${Viewer} picture=${shownPicture.value} />`;
}

function Viewer({ picture }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const close = () => dialog.current.close();
  return html`<dialog
    ref=${dialog}
    class="viewer"
    aria-label=${picture.name}
    onClose=${() => (shownPicture.value = null)}
    onClick=${(event) => event.target === dialog.current && close()}
  >
    <figure>
      <img src=${picture.url} alt=${picture.name} />
      <figcaption>
        <span><strong>${picture.name}</strong> ${pictureFacts(picture)}</span>
        <button type="button" class="quiet" title="Close (Esc)" aria-label="Close" onClick=${close}>
          <${Icon} name="close" />
        </button>
      </figcaption>
    </figure>
  </dialog>`;
}
