// The line that says how far the model is with reading a prompt.
import { leftWords } from "../state/reading_pace.js";
import { count, rate, tokens } from "./figures.js";

/** What is new, how much of it is read, how fast, and how long that takes; what was held before in brackets. */
export function readingWords({ reused, done, fresh, perSecond, leftMs }) {
  const amount = reused > 0 ? `${count(done)} of ${count(fresh)} new tokens (${count(reused)} reused)` : `${count(done)} of ${tokens(fresh)}`;
  const parts = [`Reading ${amount}`];
  if (perSecond !== null && perSecond > 0 && done < fresh) {
    parts.push(rate(perSecond));
    if (leftMs !== null) parts.push(leftWords(leftMs));
  }
  return { words: parts.join(" · "), fraction: fresh > 0 ? done / fresh : null };
}
