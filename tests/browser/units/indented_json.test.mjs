// Arguments of calls on the page: laid out, and every value as it was written.
import assert from "node:assert/strict";
import { test } from "node:test";
import { indentedJson } from "../../../web_dist/components/indented_json.js";

const VALUES = [
  {},
  [],
  { a: [] },
  { a: {}, b: [{}, [[]], ""] },
  { 'a"\\': 'x\\"{[,:]}\\\\', "": [1, -2.5, true, false, null, "é\n🎉"] },
  [[1, [2, { b: [3] }]], "a, b: c"],
];

test("ordinary values look as JSON.stringify lays them out", () => {
  for (const value of VALUES) {
    for (const space of [0, 1, "\t"]) {
      assert.equal(indentedJson(JSON.stringify(value, null, space)), JSON.stringify(value, null, 2));
    }
  }
});

test("no value is changed, whatever a parser makes of it", () => {
  const text = '{"a":12345678901234567890,"a":1.50,"n":96e012995466444,"s":"\\u00e9\\/\\ud83d","z":-0}';
  const lines = ['"a": 12345678901234567890,', '"a": 1.50,', '"n": 96e012995466444,', '"s": "\\u00e9\\/\\ud83d",', '"z": -0'];
  assert.equal(indentedJson(text), `{\n  ${lines.join("\n  ")}\n}`);
});

test("what is no JSON stays as it is", () => {
  for (const text of ["", "{", '{"a', "{'a': 1}", "{} {}", '"\\']) assert.equal(indentedJson(text), text);
});

test("deep nesting costs no more than its text", () => {
  const deep = `{"a":${"[".repeat(50_000)}1,2${"]".repeat(50_000)}}`;
  const shown = indentedJson(deep);
  assert.ok(shown.length < deep.length + 2_000);
  assert.equal(shown.replace(/\s/g, ""), deep);
  const slashes = `{"a":"${"\\\\".repeat(200_000)}\\""}`;
  assert.equal(indentedJson(slashes).length, slashes.length + 5);
});
