// Invariant: however the bytes of a stream are cut into chunks, the same items come out.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readSse, SseParser } from "../../../web_dist/net/sse.js";

const encoder = new TextEncoder();

function streamOf(chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
}

async function itemsOf(chunks) {
  const items = [];
  for await (const item of readSse(streamOf(chunks))) items.push(item);
  return items;
}

/** Numbers that are the same in each run. */
function* numbers(seed) {
  let state = seed;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

const LINES = [
  ": muse {\"phase\":\"prefill\"}",
  ":bare comment",
  "data: {\"a\": \"häßlich 👩‍👩‍👧 日本\"}",
  "data:second line",
  "data",
  "event: state",
  "id: 7",
  "retry: 10",
  "unknown: field",
  "",
  "",
  "data: [DONE]",
];

test("any chunking and any line end gives the same items", async () => {
  const random = numbers(42);
  for (let round = 0; round < 150; round++) {
    const ends = ["\n", "\r", "\r\n"];
    const mixed = round % 4 === 3;
    const lines = Array.from({ length: 30 }, () => LINES[Math.floor(random.next().value * LINES.length)]);
    const text = lines.map((line) => line + (mixed ? ends[Math.floor(random.next().value * 3)] : ends[round % 3])).join("");
    // Mixed ends: "\r" before a line that begins the next with "\n" is one CRLF, in both readings.
    const bytes = encoder.encode(text);
    const whole = await itemsOf([bytes]);
    const chunks = [];
    for (let at = 0; at < bytes.length; ) {
      const size = round === 0 ? 1 : 1 + Math.floor(random.next().value * 9);
      chunks.push(bytes.slice(at, at + size));
      at += size;
    }
    assert.deepEqual(await itemsOf(chunks), whole);
  }
});

test("the fields of an event are read as the standard says", () => {
  const parser = new SseParser();
  const items = parser.push("\uFEFFevent: state\ndata: one\ndata:two\ndata\nid: 3\n\n");
  assert.deepEqual(items, [{ type: "event", event: "state", data: "one\ntwo\n", id: "3" }]);
  assert.deepEqual(parser.push("data: next\n\n"), [{ type: "event", event: "message", data: "next", id: "3" }]);
});

test("comments come at once, between the lines of an event", () => {
  const items = new SseParser().push("data: a\n: muse {}\ndata: b\n\n");
  assert.deepEqual(items, [
    { type: "comment", text: "muse {}" },
    { type: "event", event: "message", data: "a\nb", id: "" },
  ]);
});

test("CRLF cut between its two characters is one line end", () => {
  const parser = new SseParser();
  const items = [...parser.push("data: a\r"), ...parser.push("\ndata: b\r"), ...parser.push("\n\r"), ...parser.push("\n")];
  assert.deepEqual(items, [{ type: "event", event: "message", data: "a\nb", id: "" }]);
});

test("an event without data, and one without its blank line, are dropped", async () => {
  assert.deepEqual(new SseParser().push("event: empty\n\n"), []);
  assert.deepEqual(await itemsOf([encoder.encode("data: half")]), []);
});

test("bytes that are not UTF-8 become replacement characters and end nothing", async () => {
  const items = await itemsOf([encoder.encode("data: a"), new Uint8Array([0xff, 0xe2, 0x82]), encoder.encode("b\n\n")]);
  assert.equal(items.length, 1);
  assert.match(items[0].data, /^a\ufffd+b$/);
});

test("leaving the loop early cancels the stream", async () => {
  let cancelled = false;
  const stream = new ReadableStream({
    pull(controller) {
      controller.enqueue(encoder.encode("data: x\n\n"));
    },
    cancel() {
      cancelled = true;
    },
  });
  for await (const item of readSse(stream)) {
    assert.equal(item.data, "x");
    break;
  }
  assert.equal(cancelled, true);
});
