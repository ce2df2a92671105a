// A sheet beside the conversation on wide screens, over it on narrow ones.
// One <dialog>: shown plainly when docked, as a modal (focus kept inside, Escape closes) when not.
import { html } from "../html.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";
import { returnToComposer } from "./composer.js";
import { Icon } from "./icons.js";
import { raiseModal } from "./modal.js";

const WIDE = matchMedia("(min-width: 1100px)");

/** @param {{id: string, title: string, isOpen: import("../vendor/signals.js").Signal<boolean>, children: any}} props */
export function Sheet({ id, title, isOpen, children }) {
  const dialog = useRef(null);
  const close = () => (isOpen.value = false);

  useLayoutEffect(() => {
    if (!isOpen.value) return undefined;
    const opener = document.activeElement;
    const show = () => {
      const focused = document.activeElement;
      const held = dialog.current.contains(focused) ? focused : null;
      dialog.current.close();
      if (WIDE.matches) dialog.current.show();
      else dialog.current.showModal();
      // Opening it is no reason to select the first field: the title is where reading begins. All at once, for whoever
      // goes on to a field before the next paint must not be called back.
      (held ?? dialog.current.querySelector("h2")).focus();
      raiseModal(focused);
    };
    show();
    WIDE.addEventListener("change", show);
    return () => {
      WIDE.removeEventListener("change", show);
      dialog.current?.close();
      // What had the focus in it is gone already, and so may be what opened it.
      if (document.activeElement !== document.body) return;
      if (opener.isConnected) opener.focus();
      else returnToComposer();
    };
  }, [isOpen.value]);

  const onKeyDown = (event) => {
    if (event.key === "Escape" && !event.isComposing && !event.defaultPrevented) {
      event.preventDefault();
      close();
    }
  };
  const onClick = (event) => {
    // Only a click beside a modal sheet has the dialog itself as its target.
    if (event.target === dialog.current && dialog.current.matches(":modal")) close();
  };
  const titleId = `${id}-title`;
  return html`<dialog
    id=${id}
    ref=${dialog}
    class="sheet"
    aria-labelledby=${titleId}
    onKeyDown=${onKeyDown}
    onClick=${onClick}
    onCancel=${close}
  >
    ${isOpen.value
      ? html`<div class="sheet-head">
            <h2 id=${titleId} tabindex="-1">${title}</h2>
            <button
              type="button"
              class="quiet"
              title=${`Close ${title.toLowerCase()}`}
              aria-label=${`Close ${title.toLowerCase()}`}
              onClick=${close}
            ><${Icon} name="close" /></button>
          </div>
          <div class="sheet-body">${children}</div>`
      : null}
  </dialog>`;
}
