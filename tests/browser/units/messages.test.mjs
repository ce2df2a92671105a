// An answer as its updates and the server's records make it: thinking and text apart, and a way back from a try to go on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { applyUpdate, asTurn, detailsOf, newAnswer, reopen, restoredMessage, userMessage } from "../../../web_dist/state/messages.js";
import { pictureAttachment } from "../../../web_dist/state/pictures.js";

const RECEIPT = { thinking_ms: 500, thinking_tokens: 4, earlier_thinking_ms: 1000, earlier_thinking_tokens: 8, cancelled: false };

function grown(...updates) {
  const answer = newAnswer();
  for (const update of updates) applyUpdate(answer, update);
  return answer;
}

test("thinking and text grow apart, and only the text is the model's to read", () => {
  const answer = grown(
    { kind: "started", id: "chatcmpl-1" },
    { kind: "reasoning", text: "Hm", position: 2 },
    { kind: "reasoning", text: ".", position: 3 },
  );
  assert.equal(answer.phase.value, "thinking");
  applyUpdate(answer, { kind: "text", text: "Yes.", position: 7 });
  assert.deepEqual([answer.reasoning.value, answer.text.value], ["Hm.", "Yes."]);
  assert.deepEqual([answer.phase.value, answer.position], ["writing", 7]);
  assert.deepEqual(asTurn(answer), { role: "assistant", content: "Yes." });
});

test("what the thinking took is known once it is over, with what came before a continuation", () => {
  const answer = grown({ kind: "progress", phase: "decode", thinking_ms: 1400, thinking_tokens: 11 });
  assert.deepEqual(answer.thought.value, { ms: 1400, tokens: 11 });
  applyUpdate(answer, { kind: "progress", phase: "decode" });
  assert.deepEqual(answer.thought.value, { ms: 1400, tokens: 11 });
  applyUpdate(answer, { kind: "metrics", metrics: RECEIPT });
  assert.deepEqual(answer.thought.value, { ms: 1500, tokens: 12 });
});

test("a continuation without thinking of its own keeps what is known of the earlier one", () => {
  const metrics = { ...RECEIPT, thinking_ms: null, thinking_tokens: 0 };
  assert.deepEqual(grown({ kind: "metrics", metrics }).thought.value, { ms: 1000, tokens: 8 });
  const never = { ...metrics, earlier_thinking_ms: 0, earlier_thinking_tokens: 0 };
  assert.equal(grown({ kind: "metrics", metrics: never }).thought.value, null);
});

test("a record of the server brings the thinking back", () => {
  const record = { role: "assistant", content: "Yes.", reasoning_content: "Hm.", reply_id: "r", muse_metrics: RECEIPT };
  const answer = restoredMessage(record);
  assert.deepEqual([answer.reasoning.value, answer.text.value, answer.replyId], ["Hm.", "Yes.", "r"]);
  assert.deepEqual(answer.thought.value, { ms: 1500, tokens: 12 });
});

test("an answer that was reopened in vain is as it was", () => {
  const answer = restoredMessage({ role: "assistant", content: "Half", reply_id: "r", finish_reason: "length", muse_metrics: RECEIPT });
  const facts = () => ["phase", "finishReason", "metrics", "error"].map((name) => answer[name].value);
  const before = facts();
  const close = reopen(answer);
  assert.deepEqual(facts(), ["waiting", null, null, null]);
  Object.assign(answer, { replyId: null, position: 0 });
  close();
  assert.deepEqual([facts(), answer.replyId], [before, "r"]);
});

test("what API programs wrote goes back as it came, and nothing that is for display only", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{}" } };
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  const told = [
    { role: "user", content: [{ type: "text", text: "a" }, image, { type: "text", text: "b" }], name: "Ada" },
    { role: "assistant", content: "", tool_calls: [call], name: "Muse" },
    { role: "tool", content: "result", tool_call_id: "c", name: "f" },
    { role: "system", content: "Now be brief." },
    { role: "assistant", content: "Yes." },
  ];
  const known = { reasoning_content: "Hm.", reply_id: "r", finish_reason: "stop", muse_metrics: RECEIPT };
  const restored = told.map((record) => restoredMessage(record.role === "assistant" ? { ...record, ...known } : record));
  assert.deepEqual(restored.map(asTurn), told);
  assert.equal(restored[0].text, "ab");
  assert.deepEqual(restored[0].pictures.map(({ name, size }) => [name, size]), [["Picture 1", 3]]);
});

test("what the server shows beside an answer is told with a changed history, and only what is known", () => {
  const known = { reasoning_content: "Hm.", reply_id: "r", finish_reason: "stop", muse_metrics: RECEIPT };
  const record = { role: "assistant", content: "Yes.", ...known };
  assert.deepEqual(detailsOf(restoredMessage(record)), known);
  const error = { message: "It broke.", code: "worker_lost" };
  assert.deepEqual(detailsOf(restoredMessage({ ...record, error })), { ...known, error });
  assert.deepEqual(detailsOf(restoredMessage({ role: "assistant", content: "Yes." })), {});
  assert.deepEqual(detailsOf(userMessage("hi")), {});
});

test("a message with pictures has them before its text, and without a text it has only them", () => {
  const picture = pictureAttachment({ name: "a.png", url: "data:image/png;base64,AAA=", width: 2, height: 3 });
  const part = { type: "image_url", image_url: { url: picture.url } };
  assert.deepEqual(asTurn(userMessage("hi", [picture])), { role: "user", content: [part, { type: "text", text: "hi" }] });
  assert.deepEqual(asTurn(userMessage("", [picture])), { role: "user", content: [part] });
  assert.deepEqual(asTurn(userMessage("hi")), { role: "user", content: "hi" });
});
