// An edit that is being written is only in the page: the browser asks before it goes.

import { messages } from "./conversation.js";
import { tabChats } from "./tab_chats.js";

/** The page calls it once. */
export function askBeforeEditsAreLost() {
  addEventListener("beforeunload", (event) => {
    const all = [...messages.value, ...tabChats.value.flatMap((chat) => chat.history ?? [])];
    if (all.some(isEdited)) event.preventDefault();
  });
}

function isEdited(message) {
  if (message.draft.value === null) return (message.refused ?? null) !== null;
  if (message.role === "assistant") return message.draft.value !== message.text.value;
  const [had, has] = [[...message.pictures, ...message.files], message.attachments.value];
  return message.draft.value !== message.words || had.length !== has.length || had.some((one, at) => one !== has[at]);
}
