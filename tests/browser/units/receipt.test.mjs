// The figures of an answer in words: everything that is known, and nothing that is not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { receiptRows } from "../../../web_dist/components/receipt.js";

const PLAIN = {
  prompt_tokens: 40,
  completion_tokens: 30,
  reused_prompt_tokens: 30,
  prefilled_prompt_tokens: 10,
  decode_ms: 2000,
  decode_tokens_per_second: 15,
  thinking_tokens: 0,
  thinking_ms: null,
  earlier_tokens: 0,
  draft_proposed: null,
  draft_accepted: null,
  resumed: 0,
  tool_warning: null,
  cancelled: false,
};
const rowsOf = (more) => Object.fromEntries(receiptRows({ ...PLAIN, ...more }));

test("what is too little or too quick to measure has no rate, and nothing takes 0 ms", () => {
  const tiny = { completion_tokens: 13, decode_ms: 0.4, decode_tokens_per_second: 38_420 };
  assert.equal(rowsOf(tiny).Answer, "13 tokens");
  assert.equal(rowsOf({ ...tiny, completion_tokens: 700, decode_ms: 199 }).Answer, "700 tokens");
  assert.equal(rowsOf({ ...tiny, completion_tokens: 29, decode_ms: 2000, decode_tokens_per_second: 14.5 }).Answer, "29 tokens in 2.0 s");
  assert.equal(rowsOf({ completion_tokens: 30, decode_ms: 200, decode_tokens_per_second: 150 }).Answer, "30 tokens in 200 ms (150 tokens/s)");
  assert.equal(rowsOf({ decode_ms: undefined, decode_tokens_per_second: 3000 }).Answer, "30 tokens");
  assert.equal(rowsOf({ decode_ms: undefined, decode_tokens_per_second: 20 }).Answer, "30 tokens (20.0 tokens/s)");
  assert.equal(rowsOf({ decode_tokens_per_second: 0 }).Answer, "30 tokens in 2.0 s");
  const read = { prefilled_prompt_tokens: 10, prefill_ms: 3, prefill_tokens_per_second: 3333 };
  assert.equal(rowsOf(read).Reading, "10 tokens");
  assert.equal(rowsOf({ ...read, prefilled_prompt_tokens: 900, prefill_ms: 300, prefill_tokens_per_second: 3000 }).Reading, "900 tokens in 300 ms (3,000 tokens/s)");
  assert.equal(rowsOf({ thinking_tokens: 5, thinking_ms: 1 }).Thinking, "5 tokens");
});

test("an ordinary answer has no row of what did not happen", () => {
  assert.deepEqual(rowsOf({}), {
    Prompt: "40 tokens: 30 reused, 10 new",
    Reading: "10 tokens",
    Answer: "30 tokens in 2.0 s (15.0 tokens/s)",
  });
});

test("thinking and answer are counted apart", () => {
  const rows = rowsOf({ thinking_tokens: 29, thinking_ms: 1500 });
  assert.equal(rows.Writing, "30 tokens in 2.0 s (15.0 tokens/s)");
  assert.equal(rows.Thinking, "29 tokens in 1.5 s");
  assert.equal(rows.Answer, "1 token");
});

test("a draft's guesses, and how many were right", () => {
  assert.equal(rowsOf({ draft_proposed: 120, draft_accepted: 83 }).Draft, "83 of 120 tokens guessed ahead were right (69 %)");
  assert.equal(rowsOf({ draft_proposed: 0, draft_accepted: 0 }).Draft, undefined);
});

test("restarts, a stop, a continuation, a shorter length and a broken call are said", () => {
  assert.equal(rowsOf({ resumed: 1 }).Restart, "continued after the model restarted");
  assert.equal(rowsOf({ resumed: 2 }).Restart, "continued after the model restarted, 2 times");
  assert.equal(rowsOf({ cancelled: true }).End, "stopped before the model was done");
  assert.equal(rowsOf({ earlier_tokens: 12 }).Continued, "behind 12 tokens written before");
  assert.equal(rowsOf({ max_tokens_cut_to: 7 }).Length, "at most 7 tokens: the conversation left no room for more");
  assert.equal(rowsOf({ tool_warning: "There is no tool 'rain'." })["Tool call"], "There is no tool 'rain'.");
  assert.equal(rowsOf({ schema_notes: "Not enforced: format 'x'." }).Schema, "Not enforced: format 'x'.");
  assert.equal(rowsOf({ schema_notes: null }).Schema, undefined);
});

test("the reason of a reset is said in the server's words, one without words as it is", () => {
  const why = { session_reset_reason: "rewound", session_reset_explanation: "The model kept the common beginning." };
  assert.equal(rowsOf(why).Memory, "The model kept the common beginning.");
  assert.equal(rowsOf({ session_reset_reason: "moved_to_disk", session_reset_explanation: null }).Memory, "moved_to_disk");
  assert.equal(rowsOf({ session_reset_reason: null, session_reset_explanation: null }).Memory, undefined);
});

test("pictures: how long they took, and how many were made smaller", () => {
  assert.equal(rowsOf({ vision_encoder_ms: null, images_scaled: 0 }).Images, undefined);
  assert.equal(rowsOf({ vision_encoder_ms: 1234, images_scaled: 0 }).Images, "encoded in 1.2 s");
  assert.equal(rowsOf({ images_scaled: 2 }).Images, "2 made smaller, so that the conversation fits");
});

test("calls that were tried again, and a thought that the length cut", () => {
  assert.equal(rowsOf({ tool_repairs: 1 })["Tool repair"], "tried again once");
  assert.equal(rowsOf({ tool_repairs: 2 })["Tool repair"], "tried again 2 times");
  assert.equal(rowsOf({ thinking_unfinished: true }).End, "the length ran out while it was thinking");
});
