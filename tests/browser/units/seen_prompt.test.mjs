// The parts of a prompt as the panel shows them: names, sums, what was reused, and long texts in blocks.
import assert from "node:assert/strict";
import { test } from "node:test";
import { inBlocks, kindOf, legendOf, promptText, reuseOf } from "../../../web_dist/state/seen_prompt.js";

const part = (kind, role, tokens = 3, more = {}) => ({ kind, role, message: null, text: "x", tokens, reused: 0, ...more });

test("every kind and role has a name, also one that is not known here", () => {
  const named = [
    [part("scaffold", null), "Template"],
    [part("text", "system"), "System"],
    [part("text", "user"), "User"],
    [part("text", "assistant"), "Assistant, as text"],
    [part("text", "tool"), "Tool result"],
    [part("text", "tools"), "Tool definitions"],
    [part("text", "settings"), "Settings"],
    [part("answer", "assistant"), "Earlier answer, exact tokens"],
    [part("begun", "assistant"), "This answer so far"],
    [part("image", "user"), "Image"],
    [part("text", "oracle"), "oracle"],
    [part("text", null), "Template"],
  ];
  assert.deepEqual(named.map(([segment]) => kindOf(segment).name), named.map(([, name]) => name));
});

test("the legend sums up what occurs, in its own order", () => {
  const legend = legendOf([part("text", "user", 5), part("scaffold", null, 2), part("text", "user", 7)]);
  assert.deepEqual(legend.map(({ name, tokens }) => [name, tokens]), [["Template", 2], ["User", 12]]);
});

test("a sum with an unknown part is unknown", () => {
  const [user] = legendOf([part("text", "user", 5), part("text", "user", null), part("text", "user", 7)]);
  assert.equal(user.tokens, null);
});

test("reuse is all, part or none, or not known", () => {
  const reuse = (tokens, reused) => reuseOf({ tokens, reused });
  assert.deepEqual([reuse(4, 4), reuse(4, 1), reuse(4, 0), reuse(null, null)], ["all", "part", "none", null]);
});

test("blocks of a long text are whole lines, and joined they are the text", () => {
  const lines = Array.from({ length: 5000 }, (_, number) => `line ${number}`).join("\n");
  for (const text of ["", "short", lines, `${lines}\n`, `${"x".repeat(50_000)}\nend`]) assert.equal(inBlocks(text).join("\n"), text);
  assert.ok(inBlocks(lines).length > 5);
  assert.ok(Math.max(...inBlocks(lines).map((block) => block.length)) < 6100);
});

test("the whole prompt as a text has words for an image", () => {
  const picture = part("image", "user", 18, { text: undefined, image: { type: "image/png", width: 448, height: 56 } });
  assert.equal(promptText({ segments: [part("text", "user"), picture, part("scaffold", null)] }), "x[PNG image, 448 × 56 pixels]x");
});
