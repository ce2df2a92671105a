// A chat as one JSON document, for a file or for this browser's own storage; docs/chat-format.md describes it.
// chat_check.js reads it back.

import { circumstancesOf } from "./circumstances.js";
import { asTurn, isOver } from "./messages.js";

export const FORMAT = "muse-chat";
export const VERSION = 1;
const STILL_WRITTEN = "It was still being written when this was saved.";

/**
 * @param {object[]} messages of a conversation
 * @param {{system: string, now: Date}} facts system: the system message, "" for none
 */
export function documentOf(messages, { system, now }) {
  const first = system.trim() === "" ? [] : [{ role: "system", content: system }];
  return {
    format: FORMAT,
    version: VERSION,
    exported_at: now.toISOString(),
    messages: [...first, ...messages.map((message) => ({ ...asTurn(message), ...namesOf(message), ...factsOf(message) }))],
  };
}

/** The content with the names of its pictures, if it has any: nobody else keeps them. */
function namesOf({ role, content, pictures }) {
  if (role === "assistant" || pictures.length === 0) return {};
  const names = pictures.map(({ name }) => name);
  return { content: content.map((part) => (part.type === "image_url" ? { ...part, name: names.shift() } : part)) };
}

function factsOf(message) {
  const { at, model, settings } = circumstancesOf(message);
  return known({ created_at: at, model, settings, ...(message.role === "assistant" ? answerFacts(message) : {}) });
}

function answerFacts(answer) {
  const isEnded = isOver(answer);
  const error = answer.error.value;
  return {
    reasoning_content: answer.reasoning.value || undefined,
    state: isEnded ? answer.phase.value : "interrupted",
    finish_reason: answer.finishReason.value,
    edited: answer.isEdited || undefined,
    metrics: answer.metrics.value && known(answer.metrics.value),
    error: isEnded ? error && known({ message: error.message, code: error.code }) : { message: STILL_WRITTEN },
  };
}

function known(facts) {
  return Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined && value !== null));
}

/** A few words that tell a chat from others: the beginning of what was said first. */
export function titleOf(messages) {
  const { words = "", files = [] } = messages.find((message) => message.role === "user") ?? {};
  const line = (words.trim() === "" ? (files[0]?.name ?? "") : words).trim().split("\n", 1)[0].replace(/\s+/g, " ");
  if (line === "") return "Chat";
  return line.length <= 60 ? line : `${line.slice(0, 59).trimEnd()}…`;
}
