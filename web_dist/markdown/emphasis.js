// Which marks in a line of text are emphasis (*, _), strong emphasis (**, __) or strike something out (~~): CommonMark's
// rules, with two changes for answers.
//
// CommonMark looks for spaces around marks that stand at punctuation. Chinese and Japanese have none, so there
// `**注意：**请看` would stay literal: punctuation of these scripts counts as a letter here, quotation marks do on their
// inner side, and a CJK character counts as a space where the other side is punctuation.
// One tilde strikes nothing out: it stands for "to" (1~3) and "about" (~5).

const RUN = /\*+|_+|~+/g;
const SPACE = /^\s$/u;
const PUNCTUATION = /^[\p{P}\p{S}]$/u;
/** Ideographic and fullwidth punctuation (、。「」（）：！ and so on). */
const CJK_PUNCTUATION = /^(?=[\p{P}\p{S}])[\u3000-\u303f\u30a0\u30fb\ufe10-\ufe1f\ufe30-\ufe6f\uff00-\uffef]$/u;
const CJK_LETTER = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}\u30fc]$/u;
const OPENING_QUOTE = /^\p{Pi}$/u;
const CLOSING_QUOTE = /^\p{Pf}$/u;

/**
 * @param {string} masked a text in which code, links and whatever else has no emphasis in it is covered
 * @returns {Map<number, {type: "em"|"strong"|"del", end: number, size: number}>} by where it begins; size: of its marks
 */
export function emphasisIn(masked) {
  const found = new Map();
  const openers = []; // runs that may still open something, the last one on top
  for (const run of runsIn(masked)) {
    if (run.canClose) closeWith(run, openers, found);
    if (run.canOpen && run.start < run.end) openers.push(run);
  }
  return found;
}

/** Matches a run with those before it, nearest first, as long as there is something left of it. */
function closeWith(closer, openers, found) {
  while (closer.start < closer.end) {
    const at = openers.findLastIndex((opener) => fits(opener, closer));
    if (at < 0) return;
    openers.length = at + 1; // what stands between them is text
    const opener = openers[at];
    const size = Math.min(2, opener.end - opener.start, closer.end - closer.start);
    opener.end -= size;
    closer.start += size;
    found.set(opener.end, { type: closer.sign === "~" ? "del" : size === 2 ? "strong" : "em", end: closer.start, size });
    if (opener.start === opener.end) openers.pop();
  }
}

function fits(opener, closer) {
  if (opener.sign !== closer.sign) return false;
  const isEither = (opener.canClose || closer.canOpen) && closer.sign !== "~";
  // CommonMark's rule of three, so that `*foo**bar*` is one emphasis.
  return !isEither || (opener.length + closer.length) % 3 !== 0 || (opener.length % 3 === 0 && closer.length % 3 === 0);
}

function* runsIn(masked) {
  for (const { 0: marks, index: start } of masked.matchAll(RUN)) {
    const [sign] = marks;
    const { length } = marks;
    if (sign === "~" && length !== 2) continue;
    const end = start + length;
    yield { sign, length, start, end, ...directions(sign, characterBefore(masked, start), characterAt(masked, end)) };
  }
}

/** Whether a run between two characters can open and can close something. */
function directions(sign, before, after) {
  const isLeft = !isSpace(after) && (!isBarrier(after, OPENING_QUOTE) || isOpen(before));
  const isRight = !isSpace(before) && (!isBarrier(before, CLOSING_QUOTE) || isOpen(after));
  if (sign !== "_") return { canOpen: isLeft, canClose: isRight };
  // Inside a word it is a part of the word: snake_case. Of words in CJK with punctuation at the mark that is not so.
  return {
    canOpen: isLeft && (!isRight || PUNCTUATION.test(before) || CJK_PUNCTUATION.test(after)),
    canClose: isRight && (!isLeft || PUNCTUATION.test(after) || CJK_PUNCTUATION.test(before)),
  };
}

/** The beginning and the end of the text count as space. */
function isSpace(character) {
  return character === "" || SPACE.test(character);
}

/** Punctuation that a mark on its inner side needs a space for. */
function isBarrier(character, quote) {
  return PUNCTUATION.test(character) && !CJK_PUNCTUATION.test(character) && !quote.test(character);
}

/** What may stand outside of a mark that has such punctuation on its inner side. */
function isOpen(character) {
  return isSpace(character) || PUNCTUATION.test(character) || CJK_LETTER.test(character);
}

function characterAt(text, at) {
  return at < text.length ? String.fromCodePoint(text.codePointAt(at)) : "";
}

function characterBefore(text, at) {
  if (at === 0) return "";
  const isPair = at > 1 && /[\udc00-\udfff]/.test(text[at - 1]) && /[\ud800-\udbff]/.test(text[at - 2]);
  return text.slice(isPair ? at - 2 : at - 1, at);
}
