// How fast a prompt is read and how long that still takes: of the new tokens only, and calmly.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readingWords } from "../../../web_dist/components/reading_words.js";
import { leftWords, newPace } from "../../../web_dist/state/reading_pace.js";

/** Progress of a steady reader: so many tokens a second, told every 200 ms. */
function* steady({ perSecond, reused = 0, total, from = 0 }) {
  for (let at = 0; ; at += 200) {
    const processed = Math.min(total, reused + (perSecond * at) / 1000);
    yield [{ processed, total, reused }, from + at];
    if (processed === total) return;
  }
}

const follow = (pace, progress) => [...progress].map(([facts, now]) => pace.note(facts, now));

test("tokens that were held before count neither as read nor in the rate", () => {
  const told = follow(newPace(), steady({ perSecond: 100, reused: 8000, total: 8400 }));
  assert.deepEqual([told[0].done, told[0].fresh, told[0].reused], [0, 400, 8000]);
  assert.deepEqual([told.at(-1).done, Math.round(told.at(-1).perSecond)], [400, 100]);
});

test("nothing is said of the rate before it can be measured", () => {
  const told = follow(newPace(), steady({ perSecond: 100, total: 1000 }));
  assert.deepEqual(told.slice(0, 6).map(({ perSecond, leftMs }) => [perSecond, leftMs]), Array(6).fill([null, null]));
  assert.equal(Math.round(told[6].perSecond), 100);
});

test("too few tokens have no rate; a slow reader is measured over as long as they take", () => {
  const told = follow(newPace(), steady({ perSecond: 4, total: 60 }));
  const first = told.find(({ perSecond }) => perSecond !== null);
  assert.equal(Math.floor(first.done), 30);
  assert.equal(first.perSecond.toFixed(3), "4.000");
  assert.equal(told.at(-1).perSecond.toFixed(3), "4.000");
  const few = follow(newPace(), steady({ perSecond: 4, total: 29 }));
  assert.ok(few.every(({ perSecond, leftMs }) => perSecond === null && leftMs === null));
});

test("the time left counts down and is right at a steady speed", () => {
  const told = follow(newPace(), steady({ perSecond: 100, total: 3000 })).filter(({ leftMs }) => leftMs !== null);
  for (const { done, leftMs } of told) assert.ok(Math.abs(leftMs - (3000 - done) * 10) < 250, `${leftMs} at ${done}`);
  for (const [at, { leftMs }] of told.slice(1).entries()) assert.ok(leftMs <= told[at].leftMs);
});

test("a reader that varies a little does not make the time left jump", () => {
  const pace = newPace();
  let processed = 0;
  let before = null;
  for (let step = 0; step < 60; step++) {
    processed += step % 2 === 0 ? 17 : 23;
    const { leftMs } = pace.note({ processed, total: 1200, reused: 0 }, step * 200);
    if (before !== null && leftMs !== null) assert.ok(leftMs <= before, `${leftMs} after ${before}`);
    before = leftMs;
  }
});

test("one that slows down much is believed", () => {
  const pace = newPace();
  follow(pace, steady({ perSecond: 100, total: 1000 }));
  const fast = newPace();
  let told;
  for (let at = 0; at <= 4000; at += 200) told = fast.note({ processed: at / 10, total: 4000, reused: 0 }, at);
  const early = told.leftMs;
  for (let at = 4200; at <= 16000; at += 200) told = fast.note({ processed: 400 + (at - 4000) / 100, total: 4000, reused: 0 }, at);
  assert.ok(told.leftMs > 5 * early);
});

test("a prompt that is read again, after a restart, is measured anew", () => {
  const pace = newPace();
  follow(pace, steady({ perSecond: 100, total: 1000 }));
  const [first] = follow(pace, steady({ perSecond: 50, total: 1000, from: 20_000 }));
  assert.deepEqual([first.done, first.perSecond, first.leftMs], [0, null, null]);
});

test("times are round, and rounder the longer they are", () => {
  const said = [400, 4_900, 7_000, 13_000, 44_000, 61_000, 100_000, 140_000, 300_000].map(leftWords);
  assert.deepEqual(said, [
    "a few seconds left",
    "a few seconds left",
    "about 5 s left",
    "about 15 s left",
    "about 40 s left",
    "about 1 min left",
    "about 1 min 40 s left",
    "about 2 min 30 s left",
    "about 5 min left",
  ]);
});

test("the words name what is reused only where something is", () => {
  const facts = { reused: 8000, done: 100, fresh: 400, perSecond: 50, leftMs: 6000 };
  assert.deepEqual(readingWords(facts), {
    words: "Reading 100 of 400 new tokens (8,000 reused) · 50.0 tokens/s · about 5 s left",
    fraction: 0.25,
  });
  assert.equal(readingWords({ ...facts, reused: 0, perSecond: null, leftMs: null }).words, "Reading 100 of 400 tokens");
  assert.equal(readingWords({ ...facts, done: 400 }).words, "Reading 400 of 400 new tokens (8,000 reused)");
});
