// The ways by which files get into a message: a button, pasting, dropping. For the composer and for editors alike.
import { html } from "../html.js";
import { addFiles } from "../state/attachments.js";
import { PASTED_NAME } from "../state/text_files.js";
import { useSignal } from "../vendor/signals.js";
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { Icon } from "./icons.js";

/** A button that opens the system's file dialog. @param {{list: object}} props list: signal of attachments */
export function AttachButton({ list }) {
  const input = useRef(null);
  const take = () => {
    addFiles(list, input.current.files);
    input.current.value = ""; // so that the same file can be chosen again
  };
  return html`<button
      type="button"
      class="quiet attach"
      title="Add pictures or text files"
      aria-label="Add files"
      onClick=${() => input.current.click()}
    ><${Icon} name="clip" /></button>
    <input ref=${input} type="file" multiple hidden tabindex="-1" onChange=${take} />`;
}

// A longer text is no message: it would make the field slow, and nobody could find the question in it.
const LONGEST_PASTE = 20_000;

/**
 * Takes pasted files, and a very long text as one. Office programs put a picture of a text beside the text: then it is
 * the text that is meant.
 */
export function pasteInto(list, event) {
  const { files, types } = event.clipboardData;
  const text = event.clipboardData.getData("text/plain");
  if (text.length > LONGEST_PASTE) {
    event.preventDefault();
    addFiles(list, [new File([text], PASTED_NAME, { type: "text/plain" })]);
    return;
  }
  if (files.length === 0 || (types.includes("text/plain") && types.includes("text/html"))) return;
  event.preventDefault();
  addFiles(list, files);
}

/** Whether a dialog lies over the page: what is dropped then would end where nobody sees it. */
function isCovered() {
  return document.querySelector("dialog:modal") !== null;
}

/**
 * Takes files that are dropped onto an element, or anywhere on the page.
 * @param {{current: HTMLElement|null}|null} target null: the page, as far as nothing in it takes them itself
 * @returns {boolean} whether files hover over it
 */
export function useDrop(list, target) {
  const isOver = useSignal(false);
  useEffect(() => {
    const element = target === null ? document : target.current;
    const hover = (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      // Without this the browser would leave the page and show the file.
      event.preventDefault();
      event.stopPropagation();
      event.dataTransfer.dropEffect = isCovered() ? "none" : "copy";
      isOver.value = !isCovered();
    };
    const leave = (event) => {
      if (event.relatedTarget === null || !element.contains(event.relatedTarget)) isOver.value = false;
    };
    const drop = (event) => {
      isOver.value = false;
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      event.stopPropagation();
      if (!isCovered()) addFiles(list, event.dataTransfer.files);
    };
    const handlers = { dragover: hover, dragleave: leave, drop };
    for (const [name, handler] of Object.entries(handlers)) element.addEventListener(name, handler);
    return () => {
      for (const [name, handler] of Object.entries(handlers)) element.removeEventListener(name, handler);
    };
  }, []);
  return isOver.value;
}
