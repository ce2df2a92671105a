// A chat as a document and back: nothing lost, nothing trusted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { checkChat, ChatFileFault } from "../../../web_dist/state/chat_check.js";
import { documentOf, titleOf } from "../../../web_dist/state/chat_format.js";
import { markdownOf } from "../../../web_dist/state/chat_markdown.js";
import { noteCircumstances } from "../../../web_dist/state/circumstances.js";
import { asTurn, editedAnswer, restoredMessage, userMessage } from "../../../web_dist/state/messages.js";
import { pictureAttachment } from "../../../web_dist/state/pictures.js";

const PIXEL = `data:image/png;base64,${Buffer.from("not really a picture").toString("base64")}`;
const NOW = new Date("2026-11-30T06:54:00Z");
const METRICS = { prompt_tokens: 21, decode_tokens_per_second: 17.5, cancelled: true, session_reset_reason: "new", finish_reason: "stop" };

function chat() {
  const question = userMessage("Look", [pictureAttachment({ name: "a.png", url: PIXEL })]);
  const answer = restoredMessage({ role: "assistant", content: "A *pixel*.", reasoning_content: "Hm.\n\nYes.", muse_metrics: METRICS, reply_id: "secret-reply" });
  noteCircumstances(answer, { at: "2026-11-30T06:53:00.000Z", model: "m", settings: { temperature: 0.5, stop: ["\n"], muse: { max_thinking_tokens: 3 } } });
  return [question, answer, userMessage("and?"), editedAnswer("Mine.")];
}

function minimal(fields = {}, message = {}) {
  return JSON.stringify({ format: "muse-chat", version: 1, messages: [{ role: "assistant", content: "x", ...message }], ...fields });
}

test("what is written is read back the same", () => {
  const document = documentOf(chat(), { system: "Be kind.", now: NOW });
  const read = checkChat(JSON.stringify(document));
  assert.deepEqual(read.messages, document.messages.map((message) => ({ ...message })));
  assert.deepEqual(read.messages[0], { role: "system", content: "Be kind." });
  assert.equal(read.messages[1].content[0].image_url.url, PIXEL);
  assert.deepEqual(read.messages[2].metrics, METRICS);
  assert.equal(read.messages[2].state, "stopped");
  assert.equal(read.messages[4].edited, true);
});

test("pictures keep their names in files, and the server is sent none", () => {
  const [question] = checkChat(JSON.stringify(documentOf(chat(), { system: "", now: NOW }))).messages;
  assert.equal(question.content[0].name, "a.png");
  const opened = restoredMessage(question);
  assert.equal(opened.pictures[0].name, "a.png");
  assert.deepEqual(asTurn(opened), asTurn(chat()[0]));
  assert.deepEqual(documentOf([opened], { system: "", now: NOW }).messages[0].content, question.content);
  const odd = { ...question, content: [{ ...question.content[0], name: "a]\n[b" }] };
  assert.ok(markdownOf({ exported_at: NOW.toISOString(), messages: [odd] }, "t").includes(`![a\\] \\[b](${PIXEL})`));
});

test("no id of the server is in it", () => {
  assert.ok(!JSON.stringify(documentOf(chat(), { system: "", now: NOW })).includes("secret-reply"));
});

test("Markdown has all that was said", () => {
  const text = markdownOf(documentOf(chat(), { system: "Be kind.", now: NOW }), "Look");
  for (const part of ["# Look", "Be kind.", PIXEL, "> Hm.\n>\n> Yes.", "A *pixel*.", "*Stopped here.*", "*Edited by the user.*", "2026-11-30 06:53"]) {
    assert.ok(text.includes(part), part);
  }
});

test("a title is one short line", () => {
  assert.equal(titleOf([userMessage("  one\ttwo\nthree")]), "one two");
  assert.equal(titleOf([userMessage("x".repeat(80))]).length, 60);
  assert.equal(titleOf([]), "Chat");
});

test("fields that nobody knows are passed over, and reach no prototype", () => {
  const text = minimal({}, { metrics: { prompt_tokens: 1 }, extra: { deep: [1] } }).replace('"extra"', '"__proto__": {"hacked": 1}, "constructor": {"prototype": {"hacked": 1}}, "extra"');
  const [message] = checkChat(text).messages;
  assert.deepEqual(Object.keys(message).sort(), ["content", "metrics", "role", "state"]);
  assert.equal(message.hacked, undefined);
  assert.equal({}.hacked, undefined);
});

const FAULTS = [
  ["", /not JSON/],
  ["[]", /must be a JSON object/],
  ["[".repeat(100_000), /not JSON/],
  [`${"[".repeat(100_000)}${"]".repeat(100_000)}`, /must be a JSON object/],
  ['{"format": "other"}', /“format” is not/],
  [minimal({ version: 2 }), /version 2/],
  [minimal({ messages: {} }), /messages must be a list/],
  [minimal({ messages: [] }), /no message/],
  [minimal({ messages: Array(32_769).fill(0) }), /at most 32,768/],
  [minimal({}, { role: "developer" }), /messages\[0\]\.role must be one of/],
  [minimal({}, { content: null }), /messages\[0\]\.content must be text/],
  [minimal({}, { content: "\ud800" }), /lone surrogate/],
  [minimal({}, { state: "running" }), /state must be one of/],
  [minimal({}, { metrics: { prompt_tokens: "1" } }), /metrics\.prompt_tokens must be a number/],
  [minimal({}, { metrics: { context: { length: 1 } } }), /metrics\.context must hold/],
  [minimal({}, { settings: { temperature: 99 } }), /settings\.temperature is out of range/],
  [minimal({}, { settings: { stop: "x" } }), /settings\.stop must be a list/],
  [minimal({}, { created_at: "yesterday" }), /created_at is no date/],
  [minimal({}, { error: { message: 7 } }), /error\.message must be text/],
  [minimal({}, { tool_calls: [{ id: "1" }] }), /tool_calls\[0\] must be a call/],
  [minimal({}, { role: "tool", content: "x" }), /tool_call_id must be text/],
  [minimal({}, { role: "user", content: [] }), /must not be empty/],
  [minimal({}, { role: "user", content: [{ type: "audio" }] }), /content\[0\]\.type must be/],
  ...["https://example.com/a.png", "data:image/svg+xml;base64,AAAA", "data:image/png;base64,A A", "javascript:1"].map((url) => [
    minimal({}, { role: "user", content: [{ type: "image_url", image_url: { url } }] }),
    /as a data URL/,
  ]),
  [minimal({}, { role: "user", content: Array(257).fill({ type: "image_url", image_url: { url: PIXEL } }) }), /one picture too many/],
  [minimal({}, { role: "user", content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${"A".repeat(28 * 1024 * 1024)}` } }] }), /larger than the 20 MB/],
];

test("what is wrong is refused, and where it is stands in the words", () => {
  for (const [text, words] of FAULTS) {
    assert.throws(() => checkChat(text), (fault) => fault instanceof ChatFileFault && words.test(fault.message), text.slice(0, 200));
  }
});
