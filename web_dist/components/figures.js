// Numbers as people read them.

/** 12345 as "12,345". (The browser's own formats take 20 ms to make, at every opening of the page.) */
export function count(value) {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/** Milliseconds as "85 ms", "1.4 s" or "2 min 5 s". */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Milliseconds as "under 1 s", "4 s" or "2 min 5 s", where the exact time does not matter. */
export function roughDuration(ms) {
  if (ms < 1000) return "under 1 s";
  return ms < 60_000 ? `${Math.round(ms / 1000)} s` : duration(ms);
}

/** 1 as "1 token", 12345 as "12,345 tokens". */
export function tokens(number) {
  return `${count(number)} ${number === 1 ? "token" : "tokens"}`;
}

/** 1 as "1st", 2 as "2nd", 11 as "11th". */
export function ordinal(number) {
  const isTeen = Math.floor((number % 100) / 10) === 1;
  return `${count(number)}${(isTeen ? null : { 1: "st", 2: "nd", 3: "rd" }[number % 10]) ?? "th"}`;
}

// Of fewer tokens, or in less time, a speed is noise, and so is the time itself.
export const RATED_TOKENS = 30;
const RATED_MS = 200;

/** A rate as "7.4 tokens/s" or "182 tokens/s". */
export function rate(perSecond) {
  return `${perSecond < 100 ? perSecond.toFixed(1) : count(Math.round(perSecond))} tokens/s`;
}

/**
 * The rate of so many tokens in words, or null where it would be noise or is not known.
 * @param {number|null} [ms] how long they took; as the rate says where that is not known
 */
export function ratedWords(perSecond, number, ms) {
  if (!(perSecond > 0) || !(number >= RATED_TOKENS) || !isRated(ms ?? (number / perSecond) * 1000)) return null;
  return rate(perSecond);
}

/** Whether so many milliseconds are more than noise. */
export function isRated(ms) {
  return ms >= RATED_MS;
}

/** Bytes of a model or its memory as "105 MB", "12.3 GB" or "40 kB". */
export function bytes(value) {
  if (value < 1e6) return `${Math.round(value / 1e3)} kB`;
  return value >= 1e9 ? `${(value / 1e9).toFixed(1)} GB` : `${Math.round(value / 1e6)} MB`;
}
