// A message is one text for the server and the model: its text files as fenced blocks under their names, then the words.
// Here that text is made, and taken apart again for people.
//
// A text does not say whether a block was a file or was typed like that. What this tab has sent it remembers, also over
// a reload, by a checksum. Of any other text (a kept chat, a file, another program's) only blocks whose first line can be
// nothing but the name of a file are taken for files. Joining the parts always gives the text itself.

import { readStored, writeStored } from "./storage.js";
import { fenced, fenceFor, languageOf, PASTED_NAME, textAttachment } from "./text_files.js";

// A name without blanks, with an ending, and without signs that stand around a name in a sentence.
const PLAIN_NAME = /^[^\s/\\:*?"'“”<>|`()[\]]+$/;
const HEAD = /^([^\n]+)\n(`{3,})([a-z0-9+#-]{0,12})\n/;
const STORED = "attached";
const MOST_REMEMBERED = 500;

/** By checksum of a text: for each of its files "1", or "0" where its last line has no end. Read from storage once. */
let remembered = null;

/** What a message says: its files, then its words as they were written. Blank words say nothing. */
export function joinText(words, files) {
  return [...files.map(fenced), ...(words.trim() === "" ? [] : [words])].join("\n\n");
}

/** The parts of what a message says. @returns {{files: object[], words: string}} */
export function splitText(text) {
  const first = blockAt(text);
  if (first === null) return { files: [], words: text };
  const ends = known().get(checksum(text));
  const files = [];
  let rest = text;
  for (let block = first; block !== null; block = blockAt(rest)) {
    const isFile = ends === undefined ? isSurelyFile(block) : files.length < ends.length;
    if (!isFile) break;
    const body = ends?.[files.length] === "0" ? block.text.slice(0, -1) : block.text;
    files.push(textAttachment(block.name, body, block.language));
    rest = rest.slice(block.length);
  }
  return { files, words: rest };
}

/** From now on the files of such a text are told from blocks that somebody typed: with no file, all of them. */
export function rememberFiles(words, files) {
  if (files.length === 0 && blockAt(words) === null) return;
  known().set(checksum(joinText(words, files)), files.map(({ text }) => (text.endsWith("\n") ? "1" : "0")).join(""));
  const newest = [...known()].slice(-MOST_REMEMBERED);
  writeStored(STORED, JSON.stringify(newest), "session");
}

/** A block as `fenced` makes it, at the beginning of a text, and all that belongs to it; or null. */
function blockAt(text) {
  const head = HEAD.exec(text);
  if (head === null) return null;
  const [{ length: start }, name, fence, language] = head;
  const end = text.indexOf(`\n${fence}`, start) + 1;
  const close = end + fence.length;
  const body = text.slice(start, end);
  if (end === 0 || fenceFor(body) !== fence || name !== name.trim()) return null;
  if (close === text.length) return { name, language, text: body, length: close };
  const hasMore = text.startsWith("\n\n", close) && text.slice(close).trim() !== "";
  return hasMore ? { name, language, text: body, length: close + 2 } : null;
}

function isSurelyFile({ name, language }) {
  return language !== "" && language === languageOf(name) && (PLAIN_NAME.test(name) || name === PASTED_NAME);
}

function known() {
  remembered ??= new Map(storedPairs());
  return remembered;
}

function storedPairs() {
  try {
    return JSON.parse(readStored(STORED, "session") ?? "[]");
  } catch {
    return []; // somebody else wrote it
  }
}

/** FNV-1a of the text's units, with their number. Of the text itself nothing is stored. */
function checksum(text) {
  let sum = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01000193);
  return `${text.length}.${sum >>> 0}`;
}
