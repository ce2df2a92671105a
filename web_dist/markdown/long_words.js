// A word of many thousand letters: a browser that kerns it lays it out in time that grows with its square.

/** Class of what has such a word in it; it is not kerned. */
export const LONG_WORDS = "long-words";

// Longer than any word that is read; addresses and hashes are shorter, too.
const LONG_WORD = /(?<!\S)\S{500}/;

export function hasLongWord(text) {
  return LONG_WORD.test(text);
}
