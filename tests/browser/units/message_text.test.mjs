// A message's text is made of files and words, and taken apart into the same again.
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { restoredMessage, userMessage } from "../../../web_dist/state/messages.js";
import { joinText, rememberFiles, splitText } from "../../../web_dist/state/message_text.js";
import { PASTED_NAME, textAttachment } from "../../../web_dist/state/text_files.js";

const stored = new Map();
globalThis.sessionStorage = { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value) };
let pages = 0;

beforeEach(() => stored.clear());

const facts = ({ files, words }) => ({ files: files.map(({ name, text, language, size }) => ({ name, text, language, size })), words });
const split = (text) => facts(splitText(text));
/** As a page sees it that was opened later in the same tab, or in another one. */
async function splitByNewPage(text) {
  pages += 1;
  const module = await import(`../../../web_dist/state/message_text.js?page=${pages}`);
  return facts(module.splitText(text));
}

const below = (() => {
  let state = 3; // the same cases in each run
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
})();
const pick = (choices) => choices[below(choices.length)];
const some = (choices, most) => Array.from({ length: below(most + 1) }, () => pick(choices)).join("");
const NAMES = [
  "a.py", "notes", "My notes (2).txt", "a`b.md", "```x", "```.py", "דוח.txt", "\u202ereport.TXT", "数据。csv", "Makefile", ".env", "a.b.c++",
  "x.toolongforalanguage", "Here is my code:", PASTED_NAME, "# a.py", "a.py\tb", " a.py ", "b\r\nc.py",
];
const PIECES = ["x", "\n", "\r\n", "\r", "\n\n", "```", "`", "````\n", "~~~", "\n```\n\n", "a.py\n```py\n", "שלום", " ", "\t", "🦊", "\u2028"];

test("what was attached and written comes apart as it was, for this page, after a reload, and sent again", async () => {
  for (let round = 0; round < 3000; round++) {
    const files = Array.from({ length: below(4) }, () => textAttachment(pick(NAMES), some(PIECES, 9)));
    const words = some([...PIECES, "    code", "Why?"], 6);
    const text = joinText(words, files);
    rememberFiles(words, files);
    const written = words.trim() === "" ? "" : words;
    const titled = files.map((file) => ({ ...file, name: file.name.replace(/\p{Cc}+/gu, " ").trim() }));
    const right = facts({ files: titled, words: written });
    assert.deepEqual(split(text), right, JSON.stringify(text));
    if (round % 50 === 0) assert.deepEqual(await splitByNewPage(text), right, JSON.stringify(text));
    const again = splitText(text);
    assert.equal(joinText(again.words, again.files), text);
  }
});

test("texts of any kind are the same text again when they are taken apart and joined", () => {
  for (let round = 0; round < 5000; round++) {
    const text = `x${some([...PIECES, "b.c\n```c\n1\n```", "b.c\n```c\n1\n```\n\n", "n\n```\n", "q.js\n````js\n```\n````\n\n"], 8)}`.slice(below(2));
    const { files, words } = splitText(text);
    assert.equal(joinText(words, files), text.trim() === "" ? "" : text, JSON.stringify(text));
  }
});

test("of a text that this tab did not send, only what can be nothing but a file is one", () => {
  const block = (name, language, text = "x\n", more = "\n\nWhy?") => `${name}\n\`\`\`${language}\n${text}\`\`\`${more}`;
  const names = (text) => splitText(text).files.map(({ name }) => name);
  for (const [name, language] of [["a.py", "py"], [PASTED_NAME, "txt"], [".env", "env"], ["A.TXT", "txt"], ["דוח.txt", "txt"], ["a`b.py", ""]]) {
    assert.deepEqual(names(block(name, language)), language === "" ? [] : [name]);
  }
  for (const text of [
    block("Here is my code:", ""),
    block("Look at main.py", "py"),
    block("notes", ""),
    block("main.py", "python"),
    block("main.py", ""),
    block("src/main.py", "py"),
    block("`main.py", "py"),
    block("main.py:", "py"),
    block("a.py", "py", "x\n", "\nWhy?"),
    block("a.py", "py", "x\n", "\n\n  \n"),
    block("a.py", "py", "x\n", " "),
    block("a.py", "py", "", ""),
    "a.py\n````py\nx\n````",
    "a.py\n```py\nx",
    " a.py\n```py\nx\n```",
    "Why?\n\na.py\n```py\nx\n```",
  ]) {
    assert.deepEqual(names(text), [], JSON.stringify(text));
    assert.equal(splitText(text).words, text);
  }
  const two = `${block("a.py", "py", "x\n", "\n\n")}${block("b.c", "c")}`;
  assert.deepEqual(split(two).words, "Why?");
  assert.deepEqual(names(two), ["a.py", "b.c"]);
});

test("typed blocks behind files that were attached stay words", () => {
  const file = textAttachment("a.py", "1");
  const typed = "b.c\n```c\nx\n```\n\nWhy?";
  const message = userMessage(typed, [file]);
  assert.equal(message.content, `a.py\n\`\`\`py\n1\n\`\`\`\n\n${typed}`);
  assert.deepEqual([message.words, message.files.length, message.files[0].text], [typed, 1, "1"]);
});

test("a block that was typed like a file stays words", () => {
  const typed = "main.py\n```py\nprint(1)\n```\n\nWhy?";
  assert.deepEqual(facts(userMessage(typed)), { files: [], words: typed });
});

test("words are sent and shown as they were written", () => {
  for (const words of ["    code", "\n\nfirst\n", " x ", "a\n\n\n"]) {
    const message = userMessage(words);
    assert.deepEqual([message.content, message.words, message.files], [words, words, []]);
  }
  const message = restoredMessage({ role: "user", content: [{ type: "text", text: "a.py\n```py\nx\n```\n\n  y " }] });
  assert.deepEqual([message.words, message.files[0].name], ["  y ", "a.py"]);
  const other = restoredMessage({ role: "system", content: "a.py\n```py\nx\n```" });
  assert.deepEqual([other.words, other.files], [other.text, []]);
});
