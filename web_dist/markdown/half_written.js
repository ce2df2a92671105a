// Makes the end of a growing answer presentable: closes emphasis and code that the model is still
// writing, so that marks do not flash by as text and then turn into formatting.
// A formula shows as it is written until it is closed.
// Used for what is on the screen between two tokens only; a finished answer is shown as it was written.

import { openFormula } from "./math_rules.js";

// A longer block is no prose, and searching it for marks would take too long for what can be seen of it.
const MAX_BLOCK = 4000;

/**
 * The live tail with its half-written end mended.
 * @param {string} source text of the blocks that are not settled, outside any code block
 */
export function mendEnd(source) {
  if ((source.match(/^[ \t>]*(?:```|~~~)/gm) ?? []).length % 2 === 1) return source; // code inside a list or quote
  const start = source.lastIndexOf("\n\n") + 1;
  const lastLineStart = source.lastIndexOf("\n") + 1;
  const lastLine = source.slice(lastLineStart);
  // `---` or `===` under a line would make it a heading for a moment; a lone list mark an empty item.
  if (/^ {0,3}(?:-+|=+|[*+]|\d{1,9}[.)]?|#{1,6}|>)\s*$/.test(lastLine)) return source.slice(0, lastLineStart);
  if (isHalfAlert(source, lastLineStart)) return source.slice(0, lastLineStart);
  const block = source.slice(start);
  if (block.length > MAX_BLOCK) return source;
  const formula = openFormula(block);
  const shown = formula < 0 ? hideTableStart(block) : block.slice(0, formula) + asWritten(block.slice(formula));
  return source.slice(0, start) + closeInline(shown);
}

/** The first line of a quote that may become [!NOTE]. */
function isHalfAlert(source, lastLineStart) {
  if (!/^ {0,3}> ?\[(?:![a-z]*)?$/i.test(source.slice(lastLineStart))) return false;
  const lineBefore = source.lastIndexOf("\n", lastLineStart - 2) + 1;
  return !/^ {0,3}>/.test(source.slice(lineBefore, lastLineStart));
}

function asWritten(text) {
  return text.replace(/[!-/:-@[-`{-~]/g, "\\$&");
}

/** A table is a table only after its second line; until then its header would show as bars and dashes. */
function hideTableStart(block) {
  return /^\n?\|[^\n]*(?:\n[|:\- \t]*)?$/.test(block) ? "" : block;
}

function closeInline(block) {
  let text = hideAddress(block);
  const ticks = openCodeSpan(text);
  if (ticks !== null) return text.endsWith(ticks) ? text.slice(0, -ticks.length) : text + ticks;
  text = text.replace(/(?<!\\)(?:\*{1,3}|~~|_{1,2})$/, (marks, at) => (isCloser(text, at, marks) ? marks : ""));
  const plain = withoutCode(text).replace(/\\./g, "");
  const strong = count(plain, /\*\*/g) % 2 === 1;
  const emphasis = count(plain.replaceAll("**", ""), /(?<![\\*])\*(?=\S)|(?<=\S)\*/g) % 2 === 1;
  const struck = count(plain, /~~/g) % 2 === 1;
  if (!strong && !emphasis && !struck) return text;
  const spaceless = (struck ? text.replace(/(?<!~)~$/, "") : text).trimEnd(); // half of the closing ~~
  return spaceless + (struck ? "~~" : "") + (emphasis ? "*" : "") + (strong ? "**" : "");
}

/** Of a link whose address is still coming only the text shows. */
function hideAddress(text) {
  const end = text.lastIndexOf("](");
  const start = text.lastIndexOf("[", end);
  if (end < 0 || start < 0 || /[)\s]/.test(text.slice(end + 2))) return text;
  const label = text.slice(start + 1, end);
  return /[\]\n]/.test(label) ? text : text.slice(0, text[start - 1] === "!" ? start - 1 : start) + label;
}

/** The run of backticks that has no partner yet, or null. */
function openCodeSpan(text) {
  let open = null;
  for (const [run] of text.matchAll(/`+/g)) {
    if (open === null) open = run;
    else if (run === open) open = null;
  }
  return open;
}

// Marks at the very end close something if an odd number of the same marks stands before them.
function isCloser(text, at, marks) {
  const before = withoutCode(text.slice(0, at));
  const single = marks[0] === "*" && marks.length === 1 ? before.replaceAll("**", "") : before;
  return at > 0 && single.split(marks).length % 2 === 0 && !/\s/.test(text[at - 1]);
}

function withoutCode(text) {
  return text.replace(/(`+)[\s\S]*?\1/g, "");
}

function count(text, pattern) {
  return (text.match(pattern) ?? []).length;
}
