// How fast the model reads a prompt, and how long it will still take.
//
// Only new tokens count: those that the model held before cost nothing. The rate is that of the last few seconds, since
// reading slows down behind a long prompt; of a slow model it takes as long as there are enough tokens to measure it by. The time left is said in round steps and keeps to what was said while that
// is about right, so that it counts down calmly.

import { RATED_TOKENS } from "../components/figures.js";

const WINDOW_MS = 6000;
// Before that, the first steps say little of the rest.
const PATIENCE_MS = 1200;
// What was said stands while the newest estimate is within this part of it.
const TOLERANCE = 0.25;

/** Follows one reading; `note` takes the server's progress ({processed, total, reused}) and the time in ms. */
export function newPace() {
  let samples = [];
  let said = null; // {leftMs, at}
  return {
    note({ processed, total, reused = 0 }, now) {
      const done = Math.max(0, processed - reused);
      const last = samples.at(-1);
      if (last !== undefined && done < last.done) {
        samples = []; // another worker reads it again
        said = null;
      }
      if (last?.done !== done || samples.length === 0) samples.push({ done, at: now });
      while (samples.length > 2 && now - samples[1].at > WINDOW_MS && done - samples[1].done >= RATED_TOKENS) samples.shift();
      const fresh = Math.max(0, total - reused);
      const perMs = rateOf(samples);
      if (perMs !== null) said = calm(said, (fresh - done) / perMs, now);
      return { reused, done, fresh, perSecond: perMs === null ? null : perMs * 1000, leftMs: leftOf(said, now) };
    },
  };
}

function rateOf(samples) {
  const [first, last] = [samples[0], samples.at(-1)];
  const [span, read] = [last.at - first.at, last.done - first.done];
  return span < PATIENCE_MS || read < RATED_TOKENS ? null : read / span;
}

function leftOf(said, now) {
  return said === null ? null : Math.max(0, said.leftMs - (now - said.at));
}

function calm(said, leftMs, now) {
  const standing = leftOf(said, now);
  if (standing !== null && Math.abs(standing - leftMs) <= TOLERANCE * Math.max(standing, leftMs)) return said;
  return { leftMs, at: now };
}

/** Milliseconds as "about 2 min 20 s left", in steps that get smaller towards the end. */
export function leftWords(ms) {
  const seconds = ms / 1000;
  if (seconds < 5) return "a few seconds left";
  const step = seconds < 20 ? 5 : seconds < 120 ? 10 : 30;
  const round = Math.round(seconds / step) * step;
  const minutes = Math.floor(round / 60);
  const rest = round % 60;
  if (minutes === 0) return `about ${round} s left`;
  return rest === 0 ? `about ${minutes} min left` : `about ${minutes} min ${rest} s left`;
}
