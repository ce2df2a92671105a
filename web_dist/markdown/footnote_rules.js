// Footnotes: [^label] in the text, and [^label]: words for the definition, which may have more lines and blocks if they
// are indented by two spaces. Written as extensions of marked's lexer.

import { MAX_LOOK, firstParagraph } from "./math_rules.js";

const LABEL = String.raw`\[\^([^\]\[\s\\^\x60]{1,64})\]`;
const MARK = new RegExp(`^${LABEL}(?!:\\s)`);
const DEFINITION = new RegExp(`^ {0,3}${LABEL}:[ \\t]*(?=\\S)`);
const DEFINITION_START = new RegExp(`\\n {0,3}${LABEL}:[ \\t]*(?=\\S)`);

/** A definition with all its lines at the beginning of `source`. */
export function footnoteDefinition(source) {
  const start = DEFINITION.exec(source);
  if (start === null) return undefined;
  this.lexer.hasFootnotes = true;
  const end = endOfDefinition(source, start[0].length);
  const text = source.slice(start[0].length, end).replace(/\n(?: {1,4}|\t)/g, "\n");
  return { type: "footnote", raw: source.slice(0, end), label: start[1], tokens: this.lexer.blockTokens(text, []) };
}

/** The paragraph at the beginning of `source` ends where a definition begins. */
export function footnoteStart(source) {
  const at = firstParagraph(source).search(DEFINITION_START);
  return at < 0 ? undefined : at + 1;
}

export function footnoteMark(source) {
  const match = MARK.exec(source);
  return match === null ? undefined : { type: "footnoteMark", raw: match[0], label: match[1] };
}

export function footnoteMarkStart(source) {
  const at = source.slice(0, MAX_LOOK).indexOf("[^");
  return at < 0 ? undefined : at; // formulas cut a longer text
}

/** Further lines belong to it while they are indented; blank lines only between such lines. */
function endOfDefinition(source, start) {
  const line = /\n(?:[ \t]*\n)*(?= {2}|\t)[ \t]*\S[^\n]*/y;
  let end = source.indexOf("\n", start);
  if (end < 0) return source.length;
  for (line.lastIndex = end; line.test(source); line.lastIndex = end) end = line.lastIndex;
  return source[end] === "\n" ? end + 1 : end;
}
