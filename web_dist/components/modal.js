// A dialog over the page. Its state opens and closes it; Escape and a click beside it close it, too.
import { html } from "../html.js";
import { useLayoutEffect, useRef } from "../vendor/preact-hooks.js";

/**
 * @param {{kind: string, isOpen: boolean, onClose: () => void, titleId?: string, label?: string, children: any}} props
 *   kind: its class. onClose: makes isOpen false; may be called when it is already. titleId or label: its name
 */
export function Modal({ kind, isOpen, onClose, titleId, label, children }) {
  const dialog = useRef(null);
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    dialog.current.showModal();
    dialog.current.querySelector("h2")?.focus();
    // Closing gives the focus back to what opened it.
    return () => dialog.current?.close();
  }, [isOpen]);
  const onClick = (event) => {
    if (event.target === dialog.current) onClose();
  };
  const onCancel = (event) => {
    event.preventDefault(); // it closes by its state
    onClose();
  };
  // Browsers may close a dialog without asking, when Escape is pressed twice. One that was raised is open again by now.
  const onClosed = () => {
    if (!dialog.current?.open) onClose();
  };
  return html`<dialog
    ref=${dialog}
    class=${kind}
    aria-labelledby=${titleId}
    aria-label=${label}
    onClick=${onClick}
    onCancel=${onCancel}
    onClose=${onClosed}
  >${isOpen ? children : null}</dialog>`;
}

/** Puts the dialog that was open before over a sheet that has become a modal just now, with the focus where it was. */
export function raiseModal(focused) {
  const open = document.querySelector("dialog:modal:not(.sheet)");
  if (open === null) return;
  open.close();
  open.showModal();
  focused.focus();
}
