// The chat as a file, and a file as the chat.

import { ApiError } from "../net/api.js";
import { download, fileName } from "../download.js";
import { checkChat, ChatFileFault, MAX_FILE_BYTES } from "./chat_check.js";
import { documentOf, titleOf } from "./chat_format.js";
import { markdownOf } from "./chat_markdown.js";
import { noteCircumstances } from "./circumstances.js";
import { messages, openChat } from "./conversation.js";
import { fileSize } from "./file_words.js";
import { missingAnswer, restoredMessage } from "./messages.js";
import { remark } from "./notices.js";
import { systemMessage } from "./settings.js";

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
  if (file.size > MAX_FILE_BYTES) return `${file.name} was not opened. It is larger than ${fileSize(MAX_FILE_BYTES)}, and more is not taken.`;
  let chat;
  try {
    chat = chatFrom(checkChat(await textOf(file)));
  } catch (fault) {
    if (!(fault instanceof ChatFileFault)) throw fault;
    return `${file.name} was not opened. ${fault.message}`;
  }
  openChat(chat.history, chat.system);
  remark.value = `${file.name} is open. The model reads it with your next message.`;
  return null;
}

async function textOf(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new ChatFileFault("It cannot be read, or it is not written in UTF-8.");
  }
}

/** The conversation that a checked document holds. @returns {{history: object[], system: string}} */
export function chatFrom({ messages: records }) {
  const hasSystem = records[0]?.role === "system";
  const history = records.slice(hasSystem ? 1 : 0).map(messageFrom);
  if (["user", "tool"].includes(history.at(-1)?.role)) {
    history.push(missingAnswer(new ApiError("This message has no answer yet.")));
  }
  return { history, system: hasSystem ? wordsIn(records[0].content) : "" };
}

function messageFrom({ state, edited, error, metrics, ...record }) {
  const message = restoredMessage({ ...record, muse_metrics: metrics });
  noteCircumstances(message, { at: record.created_at, model: record.model, settings: record.settings });
  if (record.role !== "assistant") return message;
  message.isEdited = edited === true;
  message.phase.value = state;
  if (state === "failed" || state === "interrupted") {
    message.error.value = new ApiError(error?.message ?? "It is not known why.", { code: error?.code });
  }
  return message;
}

function wordsIn(content) {
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}
