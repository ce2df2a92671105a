// Text and source files: they become a part of the message, as a fenced block under their name (message_text.js).

import { count } from "../components/figures.js";
import { FileRefused, fileSize } from "./file_words.js";

/** Of a long text that was pasted. */
export const PASTED_NAME = "Pasted text.txt";
// More than any model of ours can read at once: about 250,000 tokens.
const MAX_BYTES = 1024 * 1024;

let nextKey = 1;

/**
 * @param {string} name of the file
 * @param {Uint8Array} data
 * @throws {FileRefused}
 */
export function textFile(name, data) {
  if (data.length === 0) throw new FileRefused("is empty");
  if (data.length > MAX_BYTES) throw new FileRefused(`is larger than the ${fileSize(MAX_BYTES)} that a text file may have`);
  if (data.includes(0)) throw new FileRefused("is no text file, and no JPEG, PNG or WebP picture");
  try {
    return textAttachment(name, new TextDecoder("utf-8", { fatal: true }).decode(data));
  } catch {
    throw new FileRefused("is not written in UTF-8, which is the only form of text that is taken");
  }
}

/** A text file as it is attached. language: the word behind its fence. */
export function textAttachment(name, text, language = languageOf(name)) {
  const size = new TextEncoder().encode(text).length;
  return { kind: "file", key: `file-${nextKey++}`, name, text, language, size };
}

/** The ending of a file's name, "" if it has none. */
export function languageOf(name) {
  return /\.([a-z0-9+#-]{1,12})$/i.exec(name)?.[1].toLowerCase() ?? "";
}

/** "12 lines, 340 bytes". */
export function fileFacts({ text, size }) {
  const lines = text.replace(/\n$/, "").split("\n").length;
  return `${count(lines)} ${lines === 1 ? "line" : "lines"}, ${fileSize(size)}`;
}

/** The file as Markdown: its name, then a block whose fence is longer than any run of backticks in it. */
export function fenced({ name, text, language }) {
  const fence = fenceFor(text);
  const title = name.replace(/\p{Cc}+/gu, " ").trim();
  return `${title}\n${fence}${language}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

/** Longer than any run of backticks in the text. */
export function fenceFor(text) {
  let longest = 2;
  for (const [run] of text.matchAll(/`{3,}/g)) longest = Math.max(longest, run.length);
  return "`".repeat(longest + 1);
}
