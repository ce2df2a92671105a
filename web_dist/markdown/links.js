// Which addresses an answer may link to, and where one in running text ends. A model's output is untrusted: anything that
// could run in our origin or reach another program (javascript:, data:, file:, custom schemes) is no link at all.

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

/** The address in normal form, or null if it must not become a link. Relative addresses are refused. */
export function safeAddress(href) {
  try {
    const address = new URL(href);
    return ALLOWED.has(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

// CJK punctuation, fullwidth forms, and quotation marks: in these scripts no space tells where an address ends. Not the
// dot between the parts of a name (・), which addresses of pages have.
const END = /[\u3001-\u3003\u3008-\u3011\u3014-\u301f\u3030\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff64]|[\p{Pi}\p{Pf}„‚…—]/u;
// Of other scripts only what stands at the end.
const TRAILING = /[^\P{P}\x00-\x7f]$/u;

/** What of a text that begins with an address in the open can belong to it. */
export function bareAddress(source) {
  const word = /^[^\s<]*/.exec(source)[0];
  const end = word.search(END);
  const own = withoutTrailing(end < 0 ? word : word.slice(0, end));
  return own.length === word.length ? source : own;
}

/** From its end, sign by sign: a pattern for all of them tries each run of such signs from each of its signs. */
function withoutTrailing(word) {
  let end = word.length;
  for (;;) {
    const sign = TRAILING.exec(word.slice(Math.max(0, end - 2), end));
    if (sign === null) return word.slice(0, end);
    end -= sign[0].length;
  }
}
