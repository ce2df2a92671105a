// Reads a chat document (docs/chat-format.md) from a file of anybody. Nothing in it is trusted: what comes out is built
// anew, of known fields with checked values; what is wrong ends in a ChatFileFault that says where. Fields that this
// version does not know are passed over.

import { FORMAT, VERSION } from "./chat_format.js";
import { fileSize } from "./file_words.js";
import { isValid, MAX_STOP_STRINGS, NUMBERS, STRENGTHS } from "./setting_fields.js";

const MIB = 1024 * 1024;
export const MAX_FILE_BYTES = 64 * MIB;
// What the server takes in one request, and would refuse later.
const MAX_MESSAGES = 32_768;
const MAX_PICTURES = 256;
const MAX_PICTURE_BYTES = 20 * MIB;
const MAX_PICTURES_BYTES = 40 * MIB;

const PICTURE = /^data:image\/(?:jpeg|png|webp);base64,[A-Za-z0-9+/]+={0,2}$/;
const ROLES = ["system", "user", "assistant", "tool"];
const STATES = ["done", "stopped", "failed", "interrupted"];
const METRICS = {
  number: `prompt_tokens completion_tokens reused_prompt_tokens prefilled_prompt_tokens prefill_ms
    prefill_tokens_per_second decode_ms decode_tokens_per_second queue_ms time_to_first_token_ms total_ms thinking_tokens
    thinking_ms earlier_tokens earlier_thinking_tokens earlier_thinking_ms max_tokens_cut_to vision_encoder_ms
    images_scaled draft_proposed draft_accepted resumed tool_repairs`.split(/\s+/),
  string: ["session_reset_reason", "session_reset_explanation", "tool_warning", "schema_notes", "finish_reason", "length_limit"],
  boolean: ["thinking_unfinished", "cancelled"],
};
const CONTEXT = ["length", "system", "history", "images", "tools", "question", "begun", "thinking", "answer"];

/** A file that is no chat, or one that cannot be taken; the message is a sentence for people. */
export class ChatFileFault extends Error {}

/**
 * @param {string} text of a file
 * @returns {{messages: object[]}} checked; see docs/chat-format.md
 * @throws {ChatFileFault}
 */
export function checkChat(text) {
  const document = parse(text);
  if (document.format !== FORMAT) throw new ChatFileFault(`not a Muse chat file (its “format” is not “${FORMAT}”).`);
  if (document.version !== VERSION) {
    throw new ChatFileFault(`it is of version ${shown(document.version)} of the format; this page reads version ${VERSION}.`);
  }
  if (!Array.isArray(document.messages)) throw fault("messages", "must be a list");
  if (document.messages.length === 0) throw new ChatFileFault("there is no message in it.");
  if (document.messages.length > MAX_MESSAGES) {
    throw fault("messages", `holds ${document.messages.length.toLocaleString("en")}; at most ${MAX_MESSAGES.toLocaleString("en")} are taken`);
  }
  const pictures = { count: 0, bytes: 0 };
  return { messages: document.messages.map((message, at) => messageFrom(message, `messages[${at}]`, pictures)) };
}

function parse(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ChatFileFault("not JSON, or damaged.");
  }
  if (!isObject(value)) throw new ChatFileFault("not a Muse chat file (it must be a JSON object).");
  return value;
}

function messageFrom(value, path, pictures) {
  if (!isObject(value)) throw fault(path, "must be an object");
  const role = oneOf(value.role, ROLES, `${path}.role`);
  const said = { role, ...optional(value, "name", path, text) };
  if (role === "tool") said.tool_call_id = text(value.tool_call_id, `${path}.tool_call_id`);
  if (role === "assistant") return { ...said, ...answerFrom(value, path) };
  const content = contentFrom(value.content, `${path}.content`, pictures);
  return { ...said, content, ...optional(value, "created_at", path, date) };
}

function answerFrom(value, path) {
  const take = (key, read) => optional(value, key, path, read);
  return {
    content: text(value.content, `${path}.content`),
    state: value.state === undefined ? "done" : oneOf(value.state, STATES, `${path}.state`),
    ...take("tool_calls", callsFrom),
    ...take("reasoning_content", text),
    ...take("finish_reason", text),
    ...take("edited", boolean),
    ...take("created_at", date),
    ...take("model", text),
    ...take("settings", settingsFrom),
    ...take("metrics", metricsFrom),
    ...take("error", errorFrom),
  };
}

function contentFrom(value, path, pictures) {
  if (!Array.isArray(value)) return text(value, path);
  if (value.length === 0) throw fault(path, "must not be empty");
  return value.map((part, at) => partFrom(part, `${path}[${at}]`, pictures));
}

function partFrom(part, path, pictures) {
  if (!isObject(part)) throw fault(path, "must be an object");
  if (part.type === "text") return { type: "text", text: text(part.text, `${path}.text`) };
  if (part.type !== "image_url") throw fault(`${path}.type`, "must be “text” or “image_url”");
  const url = isObject(part.image_url) ? part.image_url.url : undefined;
  if (typeof url !== "string" || !PICTURE.test(url)) {
    throw fault(`${path}.image_url.url`, "must be a JPEG, PNG or WebP picture as a data URL; addresses are never fetched");
  }
  const bytes = ((url.length - url.indexOf(",") - 1) * 3) / 4;
  pictures.count += 1;
  pictures.bytes += bytes;
  if (bytes > MAX_PICTURE_BYTES) throw fault(path, `is larger than the ${fileSize(MAX_PICTURE_BYTES)} that a picture may have`);
  if (pictures.count > MAX_PICTURES) throw fault(path, `is one picture too many; a chat may have ${MAX_PICTURES}`);
  if (pictures.bytes > MAX_PICTURES_BYTES) throw fault(path, `goes beyond the ${fileSize(MAX_PICTURES_BYTES)} that all pictures of a chat may have`);
  return { type: "image_url", image_url: { url }, ...optional(part, "name", path, text) };
}

function callsFrom(value, path) {
  if (!Array.isArray(value)) throw fault(path, "must be a list");
  return value.map((call, at) => {
    const place = `${path}[${at}]`;
    if (!isObject(call) || !isObject(call.function)) throw fault(place, "must be a call of a function");
    const { name, arguments: given } = call.function;
    return {
      id: text(call.id, `${place}.id`),
      type: "function",
      function: { name: text(name, `${place}.function.name`), arguments: text(given, `${place}.function.arguments`) },
    };
  });
}

function settingsFrom(value, path) {
  if (!isObject(value)) throw fault(path, "must be an object");
  const inner = (holder, key) => (isObject(value[holder]) ? value[holder][key] : undefined);
  const settings = {};
  for (const field of NUMBERS) {
    const isThinking = field.key === "max_thinking_tokens";
    const number = isThinking ? inner("muse", field.key) : value[field.key];
    if (number === undefined) continue;
    if (typeof number !== "number" || !isValid(field, number)) throw fault(`${path}.${field.key}`, `is out of range: ${shown(number)}`);
    if (isThinking) settings.muse = { [field.key]: number };
    else settings[field.key] = number;
  }
  const strength = inner("chat_template_kwargs", "reasoning_strength");
  if (strength !== undefined) {
    settings.chat_template_kwargs = { reasoning_strength: oneOf(strength, Object.keys(STRENGTHS), `${path}.chat_template_kwargs`) };
  }
  if (value.stop === undefined) return settings;
  const isList = Array.isArray(value.stop) && value.stop.length <= MAX_STOP_STRINGS;
  if (!isList) throw fault(`${path}.stop`, `must be a list of at most ${MAX_STOP_STRINGS} texts`);
  return { ...settings, stop: value.stop.map((one, at) => text(one, `${path}.stop[${at}]`)) };
}

function metricsFrom(value, path) {
  if (!isObject(value)) throw fault(path, "must be an object");
  const metrics = {};
  for (const [type, keys] of Object.entries(METRICS)) {
    for (const key of keys) {
      const given = Object.hasOwn(value, key) ? value[key] : undefined;
      if (given === undefined || given === null) continue;
      const isRight = typeof given === type && (type !== "string" || isWhole(given));
      if (!isRight) throw fault(`${path}.${key}`, `must be a ${type}`);
      metrics[key] = given;
    }
  }
  if (value.context === undefined || value.context === null) return metrics;
  const isRight = isObject(value.context) && CONTEXT.every((key) => typeof value.context[key] === "number");
  if (!isRight) throw fault(`${path}.context`, `must hold the numbers ${CONTEXT.join(", ")}`);
  // Older files count the template's own text with what it stands before.
  const template = typeof value.context.template === "number" ? value.context.template : 0;
  return { ...metrics, context: { template, ...Object.fromEntries(CONTEXT.map((key) => [key, value.context[key]])) } };
}

function errorFrom(value, path) {
  if (!isObject(value)) throw fault(path, "must be an object");
  return { message: text(value.message, `${path}.message`), ...optional(value, "code", path, text) };
}

/** The field as an object to spread: empty where it is missing or null. */
function optional(value, key, path, read) {
  const given = Object.hasOwn(value, key) ? value[key] : undefined;
  return given === undefined || given === null ? {} : { [key]: read(given, `${path}.${key}`) };
}

function text(value, path) {
  if (typeof value !== "string") throw fault(path, "must be text");
  if (!isWhole(value)) throw fault(path, "holds half a character (a lone surrogate)");
  return value;
}

function isWhole(value) {
  return !/\p{Surrogate}/u.test(value);
}

function boolean(value, path) {
  if (typeof value !== "boolean") throw fault(path, "must be true or false");
  return value;
}

function date(value, path) {
  const time = Date.parse(text(value, path));
  if (!Number.isFinite(time)) throw fault(path, `is no date: ${shown(value)}`);
  return new Date(time).toISOString();
}

function oneOf(value, choices, path) {
  if (!choices.includes(value)) throw fault(path, `must be one of ${choices.join(", ")}, and is ${shown(value)}`);
  return value;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(value) {
  const said = JSON.stringify(value) ?? "nothing";
  return said.length <= 40 ? said : `${said.slice(0, 39)}…`;
}

function fault(path, words) {
  return new ChatFileFault(`${path} ${words}.`);
}
