// The chat as a file, and a file as the chat.

import { download, fileName } from "../download.js";
import { checkChat, ChatFileFault, MAX_FILE_BYTES } from "./chat_check.js";
import { documentOf, titleOf } from "./chat_format.js";
import { markdownOf } from "./chat_markdown.js";
import { chatFrom } from "./chat_read.js";
import { messages } from "./conversation.js";
import { fileSize } from "./file_words.js";
import { remark } from "./notices.js";
import { systemMessage } from "./settings.js";
import { openChat } from "./tab_chats.js";

export function saveAsJson() {
  const now = new Date();
  const text = `${JSON.stringify(currentDocument(now), null, 2)}\n`;
  download(fileName(titleOf(messages.value), now, "json"), "application/json", text);
}

export function saveAsMarkdown() {
  const now = new Date();
  const title = titleOf(messages.value);
  download(fileName(title, now, "md"), "text/markdown", markdownOf(currentDocument(now), title));
}

function currentDocument(now) {
  return documentOf(messages.value, { system: systemMessage.value, now });
}

/** Makes a file the conversation. @returns {Promise<string|null>} why it was not taken, in words, or null */
export async function openFile(file) {
  if (file.size > MAX_FILE_BYTES) return `Couldn’t import ${file.name}: it is larger than ${fileSize(MAX_FILE_BYTES)}.`;
  let chat;
  try {
    chat = chatFrom(checkChat(await textOf(file)));
  } catch (fault) {
    if (!(fault instanceof ChatFileFault)) throw fault;
    return `Couldn’t import ${file.name}: ${fault.message}`;
  }
  openChat(chat.history, chat.system);
  remark.value = `${file.name} was imported. The model reads it with your next message.`;
  return null;
}

async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new ChatFileFault("it cannot be read, or is not UTF-8 text.");
  }
}
