// What of a growing text is settled: nothing that comes can change it. Whole blocks, or the first entries of one (items
// of a list, rows of a table, blocks of a quote).

// A blank line with more spaces in it than this is not recognised; the block then settles a little later.
const BLANK_LINE_SPAN = 100;
// The last two entries of a block are never settled: the very last may turn out to belong to the one before it
// ("- a\n-" and then "-b").
const OPEN_ENTRIES = 2;
// These end where one of the three last begins.
const PLAIN_BLOCKS = new Set(["space", "heading", "hr", "paragraph", "list", "table", "blockquote"]);
// A formula may still become a block, and then reach into what is now the next one.
const FORMULA_START = /^ {0,3}(?:\$\$|\\\[)/m;

/**
 * How many leading tokens nothing can change any more: those before a blank line that is followed by a
 * complete line. Without the blank line a later line may still join what is before it ("ab", "10) x", "- y"
 * are one to three blocks, depending on what comes), and so may an incomplete one ("2" after a list, then "2.").
 * A block of several entries needs no blank line before it.
 */
export function countSettled(tokens) {
  let settled = 0;
  let before = "";
  let isPlain = true;
  for (const [at, token] of tokens.entries()) {
    const { type, raw } = token;
    const hasWholeLine = raw.includes("\n") || at < tokens.length - 1;
    if (type !== "space" && hasWholeLine && /\n[ \t]*\n[ \t]*$/.test(before)) settled = at;
    else if (isPlain && hasSettledEntries(token)) settled = at;
    isPlain = (isPlain || settled === at) && PLAIN_BLOCKS.has(type) && !FORMULA_START.test(raw);
    before = before.slice(-BLANK_LINE_SPAN) + raw;
  }
  return settled;
}

/** Whether it is a block of entries that begins with settled ones. */
export function hasSettledEntries(token) {
  if (token.type === "list") return token.items.length > OPEN_ENTRIES;
  if (token.type === "table") return token.rows.length > OPEN_ENTRIES;
  return token.type === "blockquote" && token.raw.split("\n", OPEN_ENTRIES + 2).length > OPEN_ENTRIES + 1;
}

/**
 * The settled entries of a block: as they are written, and as a token of only them.
 * @param {object} token
 * @param {string} source begins with the block
 * @param {number} headLines how many lines there are before the first entry
 */
export function settledEntries(token, source, headLines) {
  switch (token.type) {
    case "list": {
      const items = token.items.slice(0, -OPEN_ENTRIES);
      return { written: items.map((item) => item.raw).join(""), part: { ...token, items } };
    }
    case "table": {
      const rows = token.rows.slice(0, -OPEN_ENTRIES);
      return { written: firstLines(source, headLines + rows.length), part: { ...token, rows } };
    }
    default: {
      const tokens = token.tokens.slice(0, countSettled(token.tokens));
      return { written: writtenQuote(tokens, source), part: { ...token, tokens } };
    }
  }
}

/** The first lines of a text that has at least so many complete ones. */
export function firstLines(source, count) {
  let end = 0;
  for (let at = 0; at < count; at++) end = source.indexOf("\n", end) + 1;
  return source.slice(0, end);
}

/** Each line of what is in a quote is one line of the source; "" if one of them is not marked as quoted. */
function writtenQuote(tokens, source) {
  const inside = tokens.map(({ raw }) => raw).join("");
  const written = firstLines(source, inside.split("\n").length - 1);
  return inside.endsWith("\n") && !/^(?! {0,3}>)./m.test(written) ? written : "";
}
