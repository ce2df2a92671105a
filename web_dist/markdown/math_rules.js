// Where a formula begins and ends: \(..\), \[..\], $$..$$, and $..$ under strict rules, because a dollar sign is mostly
// money or a shell variable. Never inside code, never over a blank line, and only once it is closed.
// Written as extensions of marked's lexer (math tokens: {type, raw, text, isDisplay}).

// 30k, 1.5M: money. A single digit before a letter is rather a product.
const AMOUNT = /^(?:\d{2,}|\d+[.,]\d+)[kKMB]$/;

// Longer ones are no formulas; the limit also bounds the search for an end.
const MAX_FORMULA = 5000;

// How far ahead the next formula is looked for. Without a limit each piece of a text would be searched to its end.
export const MAX_LOOK = 4000;

const BLOCK_START = /(?:^|\n) {0,3}(?:\$\$|\\\[)/g;
// Words and nothing else: \[see below\] is a text in brackets.
const NO_SIGNS = /^[\p{L}\s,.;:!?'’"-]*$/u;
const TWO_WORDS = /\p{L}{2}\s+\p{L}{2}/u;
const PROSE = /(?:^|[\s(])\p{L}{2,}[,;:]?\s+\p{L}{2,}/u;
const SIGN = /\$|\\[([]/;
const COMMAND = /\\[A-Za-z]+\s*(?:\{[^{}]*\})?/g;

/** A formula in lines of its own at the beginning of `source`, as a token. */
export function blockFormula(source) {
  const start = /^ {0,3}(?=\$\$|\\\[)/.exec(source);
  if (start === null) return undefined;
  const found = fenced(source, start[0].length);
  if (found === null) return undefined;
  const rest = /[ \t]*(?:\n|$)/y;
  rest.lastIndex = found.end;
  if (!rest.test(source)) return undefined;
  return { type: "math", raw: source.slice(0, rest.lastIndex), text: found.text, isDisplay: true };
}

/** Where in the paragraph at the beginning of `source` a line begins that is such a formula; marked cuts there. */
export function blockFormulaStart(source) {
  for (const { 0: start, index } of firstParagraph(source).matchAll(BLOCK_START)) {
    const at = start.startsWith("\n") ? index + 1 : index;
    if (at > 0 && blockFormula(source.slice(at)) !== undefined) return at;
  }
  return undefined;
}

/**
 * A formula inside a line of text, at the beginning of `source`.
 * @param {string} before the character before it, or ""
 */
export function inlineFormula(source, before = "") {
  const found = source[0] === "$" && source[1] !== "$" ? dollars(source, before) : fenced(source, 0, before);
  if (found === null) return undefined;
  return { type: "math", raw: source.slice(0, found.end), text: found.text, isDisplay: found.isDisplay };
}

/** Where the next one may begin; if it is far away, a place on the way to it. */
export function inlineFormulaStart(source) {
  const at = source.slice(0, MAX_LOOK).search(SIGN);
  if (at >= 0) return at;
  return source.length > MAX_LOOK ? MAX_LOOK : undefined;
}

/** The text up to the first blank line, or as far as anybody looks. */
export function firstParagraph(source) {
  const near = source.slice(0, MAX_LOOK);
  const blank = near.search(/\n[ \t]*\n/);
  return blank < 0 ? near : near.slice(0, blank);
}

/**
 * Covers formulas, so that the marks in them are no emphasis.
 * @param {string} masked `source` as marked has masked it: code is covered already
 */
export function maskFormulas(masked, source) {
  if (!SIGN.test(source)) return masked;
  const parts = [];
  let done = 0;
  for (let at = 0; at < source.length; at++) {
    const sign = source[at];
    if (sign !== "$" && sign !== "\\") continue;
    const isCode = masked[at] !== sign && masked[at] !== "+";
    const found = isCode ? undefined : inlineFormula(source.slice(at), source[at - 1]);
    if (found !== undefined) {
      const { length } = found.raw;
      parts.push(masked.slice(done, at), "a".repeat(length));
      at += length - 1;
      done = at + 1;
    } else if (sign === "\\") {
      at++;
    }
  }
  return parts.join("") + masked.slice(done);
}

/** Where formulas begin and end in a line; also in code, as far as they are whole in it. */
export function* formulasIn(line) {
  for (let at = 0; at < line.length; at++) {
    if (line[at] !== "$" && line[at] !== "\\") continue;
    const found = inlineFormula(line.slice(at), line[at - 1]);
    if (found !== undefined) {
      yield { start: at, end: at + found.raw.length };
      at += found.raw.length - 1;
    } else if (line[at] === "\\") at++;
  }
}

/** Where an unclosed formula begins in a paragraph that is still being written, or -1. */
export function openFormula(source) {
  let ticks = null;
  for (let at = 0; at < source.length; at++) {
    if (source[at] === "`") {
      const run = /`+/y;
      run.lastIndex = at;
      const [marks] = run.exec(source);
      if (ticks === null) ticks = marks;
      else if (ticks === marks) ticks = null;
      at += marks.length - 1;
    } else if (ticks !== null) {
      continue;
    } else if (source[at] === "$" || (source[at] === "\\" && "([".includes(source[at + 1] ?? " "))) {
      const rest = source.slice(at);
      const found = inlineFormula(rest, source[at - 1] ?? "");
      if (found !== undefined) at += found.raw.length - 1;
      else if (canStillClose(rest, source[at - 1] ?? "")) return at;
      else if (source[at] === "\\" || source[at + 1] === "$") at++;
    } else if (source[at] === "\\") {
      at++;
    }
  }
  return -1;
}

function canStillClose(source, before) {
  if (source[0] === "$" && source[1] !== "$") return canBecomeDollars(source, before);
  const closer = closerOf(source);
  if (closer === null || source.length > MAX_FORMULA || source.includes("`")) return false;
  return source.indexOf(closer, 2) < 0 && !(closer === "$$" && source[2] === "$");
}

function canBecomeDollars(source, before) {
  if (/[\p{L}\p{N}$\\]/u.test(before) || !/^\$[^\s\d$][^$`\n]*$/.test(source)) return false;
  return !PROSE.test(source.slice(1).replace(COMMAND, " ~ "));
}

function closerOf(source) {
  if (source.startsWith("$$")) return "$$";
  if (source.startsWith("\\(")) return "\\)";
  return source.startsWith("\\[") ? "\\]" : null;
}

function fenced(source, start, before = "") {
  const opener = source.slice(start, start + 2);
  const closer = closerOf(opener);
  if (closer === null || (closer === "$$" && (before === "$" || source[start + 2] === "$"))) return null;
  const end = findEnd(source, start + 2, closer, opener);
  if (end < 0) return null;
  const text = source.slice(start + 2, end).trim();
  if (text === "" || (NO_SIGNS.test(text) && TWO_WORDS.test(text))) return null;
  // Escaped brackets before an address are a link that somebody wanted to be no link.
  const next = source[end + 2];
  if ((closer === "\\]" && next === "(") || (closer === "$$" && next === "$")) return null;
  return { text, end: end + 2, isDisplay: closer !== "\\)" };
}

/** The index of `closer`, or -1 if something comes before it that no formula has. */
function findEnd(source, start, closer, opener) {
  const limit = Math.min(source.length, start + MAX_FORMULA);
  for (let at = start; at < limit; at++) {
    const sign = source[at];
    if (sign === closer[0] && source[at + 1] === closer[1]) return at;
    if (sign === "`" || (sign === "\n" && /^[ \t]*\n/.test(source.slice(at + 1, at + 200)))) return -1;
    if (sign === "\\") {
      if (source[at + 1] === opener[1] && opener[0] === "\\") return -1;
      at++;
    }
  }
  return -1;
}

/**
 * One dollar sign each: no space inside the signs, no letter or digit outside of them, in one line, and nothing that
 * looks like prose, prices or variables between.
 */
function dollars(source, before) {
  if (/[\p{L}\p{N}$\\]/u.test(before)) return null;
  const match = /^\$((?:[^$\\`\n]|\\[^\n])+)\$/.exec(source.slice(0, MAX_FORMULA));
  if (match === null || /[\p{L}\p{N}_$({]/u.test(source[match[0].length] ?? "")) return null;
  const text = match[1];
  if (/^\s|\s$/.test(text) || AMOUNT.test(text) || !hasEvenBraces(text)) return null;
  const bare = text.replace(COMMAND, " ~ ");
  if (PROSE.test(bare)) return null;
  // A price: an amount, and a word somewhere after it.
  if (/^\d/.test(text) && /(?<![\p{L}\p{N}])\p{L}{2,}/u.test(bare)) return null;
  return { text, end: match[0].length, isDisplay: false };
}

function hasEvenBraces(text) {
  let depth = 0;
  for (const [sign] of text.matchAll(/\\.|[{}]/g)) {
    if (sign === "{") depth++;
    else if (sign === "}" && --depth < 0) return false;
  }
  return depth === 0;
}
