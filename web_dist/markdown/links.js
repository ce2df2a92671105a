// Which addresses an answer may link to. A model's output is untrusted: anything that could run in our
// origin or reach another program (javascript:, data:, file:, custom schemes) is no link at all.

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
