// What fills the context, from a receipt: every share that has tokens, what is free, and when it is nearly full.
import assert from "node:assert/strict";
import { test } from "node:test";
import { contextUse } from "../../../web_dist/state/context_use.js";

const NONE = { length: 1000, template: 0, system: 0, history: 0, images: 0, tools: 0, question: 0, begun: 0, thinking: 0, answer: 0 };
const use = (context, length = null) => contextUse({ prompt_tokens: 100, completion_tokens: 20, thinking_tokens: 5, context }, length);
const shares = ({ parts }) => Object.fromEntries(parts.map(({ name, tokens }) => [name, tokens]));

test("shares have names, and only those with tokens are there", () => {
  const told = use({ ...NONE, template: 6, system: 4, images: 40, question: 50, thinking: 5, answer: 15 });
  assert.deepEqual(shares(told), { Template: 6, System: 4, Images: 40, "This question": 50, Thinking: 5, Answer: 15 });
  assert.deepEqual([told.used, told.free, told.length, told.isNearlyFull], [120, 880, 1000, false]);
});

test("the order is that of the prompt, whatever that of the receipt is", () => {
  const told = use({ ...NONE, answer: 1, thinking: 2, begun: 3, question: 4, images: 5, history: 6, tools: 7, system: 8, template: 9 });
  assert.deepEqual(told.parts.map(({ tokens }) => tokens), [9, 8, 7, 6, 5, 4, 3, 2, 1]);
});

test("it is nearly full from 85 % on, and never less than nothing is free", () => {
  assert.equal(use({ ...NONE, history: 849 }).isNearlyFull, false);
  assert.equal(use({ ...NONE, history: 850 }).isNearlyFull, true);
  assert.equal(use({ ...NONE, history: 1001 }).free, 0);
});

test("where the server cannot tell the shares, the conversation is one", () => {
  assert.deepEqual(shares(use(null, 400)), { Prompt: 100, Thinking: 5, Answer: 15 });
  assert.equal(use(null, 400).free, 280);
});

test("nothing is claimed without figures, or without the context's length", () => {
  assert.equal(contextUse(null, 400), null);
  assert.equal(use(null, null), null);
  assert.equal(use(NONE), null);
});
