// An answer over several connections: nothing repeated, nothing lost, and an end in any case.
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { askDetached, cancelReply, readReply } from "../../../web_dist/net/reply.js";

const { fetch: realFetch, setTimeout: realTimeout } = globalThis;
afterEach(() => Object.assign(globalThis, { fetch: realFetch, setTimeout: realTimeout }));

/** Each request gets the next answer; pauses take no time. Returns the list of requests made. */
function serve(...answers) {
  const requests = [];
  globalThis.setTimeout = (done) => realTimeout(done, 0);
  globalThis.fetch = async (path, options) => {
    requests.push([path, options.body ? JSON.parse(options.body) : null]);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === "unreachable") throw new TypeError("Failed to fetch");
    return answer();
  };
  return requests;
}

const frame = (position, delta) =>
  `id: ${position}\ndata: ${JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
const stream = (...frames) => () => new Response(frames.join(""));
const missing = () => Response.json({ error: { message: "No such reply.", code: "reply_not_found" } }, { status: 404 });
const DONE = "data: [DONE]\n\n";

async function read(updates) {
  const seen = { text: "", kinds: [] };
  for await (const update of updates) {
    seen.kinds.push(update.kind);
    if (update.kind === "text") seen.text += update.text;
  }
  return seen;
}

const ask = () => askDetached({ messages: [] }, new AbortController().signal);

test("a broken stream goes on behind the last position the server gave", async () => {
  const requests = serve(
    stream(frame(0, { role: "assistant" }), frame(2, { content: "🦊 " })),
    "unreachable",
    stream(frame(5, { content: "and" })),
    stream(frame(7, { content: " 🦊" }), DONE),
  );
  const { text, kinds } = await read(ask());
  assert.equal(text, "🦊 and 🦊");
  assert.equal(kinds.filter((kind) => kind === "lost").length, 3);
  const chat_template_kwargs = { return_reasoning: true };
  const body = { messages: [], stream: true, chat_template_kwargs, muse: { detached: true } };
  assert.deepEqual(requests[0], ["/v1/chat/completions", body]);
  const places = requests.slice(1).map(([path]) => path);
  const reply = "/api/replies/chatcmpl-1?reasoning=true&after=";
  assert.deepEqual(places, [`${reply}2`, `${reply}2`, `${reply}5`]);
});

test("a reply that the server does not know ends as interrupted", async () => {
  serve(stream(frame(0, { role: "assistant" }), frame(4, { content: "half" })), missing);
  await assert.rejects(read(ask()), { code: "interrupted", message: /has forgotten this answer/ });
});

test("a server that stays away ends it as interrupted, after a few tries", async () => {
  const requests = serve(stream(frame(0, { role: "assistant" })), "unreachable");
  await assert.rejects(read(ask()), { code: "interrupted", message: /connection to the server was lost/ });
  assert.equal(requests.length, 8);
});

test("losses count anew after every piece that came", async () => {
  const brokenOften = Array.from({ length: 9 }, (_, at) => stream(frame(at + 1, { content: "x" })));
  serve(...brokenOften, stream(frame(10, { content: "." }), DONE));
  const { text } = await read(ask());
  assert.equal(text, "xxxxxxxxx.");
});

test("without an id there is nothing to come back to", async () => {
  serve(stream(': muse {"phase":"queued","position":1}\n\n'));
  await assert.rejects(read(ask()), { code: "stream_cut" });
  serve("unreachable");
  await assert.rejects(read(ask()), { code: "unreachable" });
});

test("reasoning moves the place on, too", async () => {
  const requests = serve(stream(frame(0, { role: "assistant" }), frame(6, { reasoning_content: "Hm, hm" })), stream(frame(8, { content: "So" }), DONE));
  const { text, kinds } = await read(ask());
  assert.equal(text, "So");
  assert.deepEqual(kinds, ["open", "started", "reasoning", "lost", "open", "started", "text"]);
  assert.equal(requests[1][0], "/api/replies/chatcmpl-1?reasoning=true&after=6");
});

test("what else is asked for goes along", async () => {
  const requests = serve(stream(frame(0, { role: "assistant" }), DONE));
  await read(askDetached({ muse: { continue: "chatcmpl-0" } }, new AbortController().signal));
  assert.deepEqual(requests[0][1].muse, { continue: "chatcmpl-0", detached: true });
});

test("a known reply is read from a place on", async () => {
  const requests = serve(stream(frame(0, { role: "assistant" }), frame(3, { content: "all" }), DONE));
  const { text, kinds } = await read(readReply("chatcmpl-1", 0, new AbortController().signal));
  assert.equal(text, "all");
  assert.deepEqual(kinds, ["open", "started", "text"]);
  assert.equal(requests[0][0], "/api/replies/chatcmpl-1?reasoning=true&after=0");
});

test("a cancel is tried again until the server was reached", async () => {
  const requests = serve("unreachable", "unreachable", () => Response.json({ cancelled: true }));
  await cancelReply("chatcmpl-1");
  assert.deepEqual(requests.at(-1), ["/api/cancel", { reply_id: "chatcmpl-1" }]);
  assert.equal(requests.length, 3);
});
