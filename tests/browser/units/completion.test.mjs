// A completion stream ends whole, or with an error: never silently short.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readUpdates } from "../../../web_dist/net/completion.js";

function streamOf(...frames) {
  return new Response(frames.join("")).body;
}

const data = (value) => `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
const chunk = (delta, finish = null) => data({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason: finish }] });

async function updatesOf(...frames) {
  const updates = [];
  for await (const update of readUpdates(streamOf(...frames))) updates.push(update);
  return updates;
}

test("a whole answer gives its id, thinking, text, end and figures", async () => {
  const updates = await updatesOf(
    ': muse {"phase":"prefill","processed":1,"total":2}\n\n',
    chunk({ role: "assistant" }),
    chunk({ reasoning_content: "Hm" }),
    chunk({ content: "Hel" }),
    `id: 5\n${chunk({ content: "lo" })}`,
    chunk({}, "length"),
    data({ id: "chatcmpl-1", choices: [{ index: 0, delta: {}, finish_reason: null }], muse_metrics: { total_ms: 5 } }),
    data({ id: "chatcmpl-1", choices: [], usage: { total_tokens: 3 } }),
    data("[DONE]"),
  );
  assert.deepEqual(updates, [
    { kind: "progress", phase: "prefill", processed: 1, total: 2 },
    { kind: "started", id: "chatcmpl-1" },
    { kind: "reasoning", text: "Hm", position: null },
    { kind: "text", text: "Hel", position: null },
    { kind: "text", text: "lo", position: 5 },
    { kind: "finish", reason: "length" },
    { kind: "metrics", metrics: { total_ms: 5 } },
  ]);
});

test("a stream that ends without [DONE] is an error, even after a finish", async () => {
  await assert.rejects(updatesOf(chunk({ content: "half" }), chunk({}, "stop")), { code: "stream_cut" });
});

test("an error inside the stream is thrown with its words and code", async () => {
  const fault = { error: { message: "The model died.", type: "server_error", code: "worker_died", param: null } };
  await assert.rejects(updatesOf(chunk({ content: "x" }), data(fault), data("[DONE]")), {
    message: "The model died.",
    code: "worker_died",
  });
});

test("what is not JSON, or no object, is an error", async () => {
  for (const junk of ["nonsense", "3", "null", '"text"', "{"]) {
    await assert.rejects(updatesOf(data(junk)), { code: "bad_stream" });
  }
});

test("comments that are not ours, or broken, are passed over", async () => {
  assert.deepEqual(await updatesOf(": ping\n\n: muse {broken\n\n: muse 5\n\n", data("[DONE]")), []);
});
