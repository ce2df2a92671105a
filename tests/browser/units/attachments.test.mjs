// Files on their way into a message: what a file is, told by its bytes, and how a text becomes a block.
import assert from "node:assert/strict";
import { test } from "node:test";
import { isNothing } from "../../../web_dist/state/draft.js";
import { FileRefused, fileSize } from "../../../web_dist/state/file_words.js";
import { isAnimated, pictureKind } from "../../../web_dist/state/pictures.js";
import { joinText } from "../../../web_dist/state/message_text.js";
import { fenced, fileFacts, textAttachment, textFile } from "../../../web_dist/state/text_files.js";

const bytes = (...parts) => Uint8Array.from(parts.flatMap((part) => (typeof part === "string" ? [...Buffer.from(part, "latin1")] : part)));
const PNG = "\x89PNG\r\n\x1a\n";
const chunk = (name, size) => [0, 0, 0, size, ...Buffer.from(name), ...Array(size + 4).fill(0)];
const refusal = (make) => {
  try {
    make();
  } catch (fault) {
    assert.ok(fault instanceof FileRefused);
    return fault.message;
  }
  return null;
};

test("the kind of a picture is told by its bytes, not by its name", () => {
  assert.equal(pictureKind(bytes(PNG, "rest")), "png");
  assert.equal(pictureKind(bytes([0xff, 0xd8, 0xff, 0xe0])), "jpeg");
  assert.equal(pictureKind(bytes("RIFF", [0, 0, 0, 0], "WEBPVP8 ")), "webp");
  for (const other of ["", "RIFF", "RIFF....WAVE", "\x89PNG", "GIF89a", "hello"]) assert.equal(pictureKind(bytes(other)), null);
});

test("animations are found before the pixels, and damaged files end the search", () => {
  const still = bytes(PNG, chunk("IHDR", 13), chunk("IDAT", 4), chunk("acTL", 8));
  const moving = bytes(PNG, chunk("IHDR", 13), chunk("acTL", 8), chunk("IDAT", 4));
  assert.equal(isAnimated(still, "png"), false);
  assert.equal(isAnimated(moving, "png"), true);
  for (let end = 0; end < moving.length; end++) assert.equal(typeof isAnimated(moving.slice(0, end), "png"), "boolean");
  assert.equal(isAnimated(bytes("RIFF....WEBPVP8X", [0, 0, 0, 0, 0x02]), "webp"), true);
  assert.equal(isAnimated(bytes("RIFF....WEBPVP8X", [0, 0, 0, 0, 0x10]), "webp"), false);
  assert.equal(isAnimated(bytes("RIFF....WEBPVP8 ", [0, 0, 0, 0, 0x02]), "webp"), false);
});

test("a fence is longer than any in the file, and ends on a line of its own", () => {
  assert.equal(fenced(textAttachment("a.py", "x = 1\n")), "a.py\n```py\nx = 1\n```");
  assert.equal(fenced(textAttachment("notes", "no line end")), "notes\n```\nno line end\n```");
  for (const inside of ["```", "~~~\n`````\n", "`".repeat(9) + " and ```"]) {
    const [, opening, ...rest] = fenced(textAttachment("x.md", inside)).split("\n");
    const fence = /^`+/.exec(opening)[0];
    assert.ok(!inside.includes(fence));
    assert.equal(rest.at(-1), fence);
  }
  assert.equal(fenced(textAttachment("a\nb`.c d", "x")).split("\n")[0], "a b`.c d");
});

test("text is UTF-8 or refused in words", () => {
  assert.equal(textFile("a", Buffer.from("größe 🦊\r\n")).text, "größe 🦊\r\n");
  assert.equal(textFile("a", bytes([0xef, 0xbb, 0xbf], "x")).text, "x");
  assert.match(refusal(() => textFile("a", bytes())), /is empty/);
  assert.match(refusal(() => textFile("a", bytes([0x67, 0x72, 0xf6]))), /UTF-8/);
  assert.match(refusal(() => textFile("a", bytes("PK", [3, 4, 0, 0]))), /no text file/);
  assert.match(refusal(() => textFile("a", new Uint8Array(1024 * 1024 + 1).fill(65))), /than the 1 MB that/);
  assert.equal(textFile("a", new Uint8Array(1024 * 1024).fill(65)).size, 1024 * 1024);
});

test("files come before the words, and either is enough", () => {
  const file = textAttachment("a.txt", "inside\n");
  assert.equal(joinText("  what is this?\n", [file]), "a.txt\n```txt\ninside\n```\n\n  what is this?\n");
  assert.equal(joinText(" ", [file]), "a.txt\n```txt\ninside\n```");
  assert.equal(isNothing(" \n", []), true);
  assert.equal(isNothing("", [file]), false);
});

test("sizes and lines in words", () => {
  assert.deepEqual([1, 340, 85 * 1024, 1024 * 1024, 2.4 * 1024 * 1024, 20 * 1024 * 1024].map(fileSize),
    ["1 byte", "340 bytes", "85 KB", "1 MB", "2.4 MB", "20 MB"]);
  assert.equal(fileFacts(textAttachment("a", "one\n")), "1 line, 4 bytes");
  assert.equal(fileFacts(textAttachment("a", "one\ntwo\nthree")), "3 lines, 13 bytes");
});
