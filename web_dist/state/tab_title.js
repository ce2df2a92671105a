// The title of the tab says that an answer is there, to whoever looks at another tab meanwhile. Never what it says: browsers
// write titles down.

import { effect } from "../vendor/signals.js";
import { lastEnded } from "./conversation.js";

const ENDINGS = { done: "Answer ready", failed: "Answer failed", interrupted: "Answer interrupted" };

/** The page calls it once. */
export function followTabTitle() {
  const plain = document.title;
  effect(() => {
    const words = ENDINGS[lastEnded.value?.phase.peek()];
    if (words !== undefined && document.visibilityState === "hidden") document.title = `${words} · ${plain}`;
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") document.title = plain;
  });
}
