// An edit that is being written is only in the page: the browser asks before it goes.

import { messages, replacedHistories } from "./conversation.js";
import { isBeingEdited } from "./messages.js";
import { tabChats } from "./tab_chats.js";

/** The page calls it once. */
export function askBeforeEditsAreLost() {
  addEventListener("beforeunload", (event) => {
    const left = tabChats.value.flatMap((chat) => [chat.history ?? [], chat.undo?.history ?? []]);
    if ([messages.value, ...replacedHistories(), ...left].flat().some(isBeingEdited)) event.preventDefault();
  });
}
