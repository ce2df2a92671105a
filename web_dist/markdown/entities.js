// Character references in Markdown text (&amp; &#8212; &copy;), decoded without an HTML parser.
// The names are those that occur in prose; an unknown one stays as it was written.

const NAMED = new Map(
  Object.entries({
    amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™",
    hellip: "…", mdash: "—", ndash: "–", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", laquo: "«",
    raquo: "»", bull: "•", middot: "·", deg: "°", plusmn: "±", times: "×", divide: "÷", frac12: "½",
    frac14: "¼", frac34: "¾", sup2: "²", sup3: "³", micro: "µ", para: "¶", sect: "§", euro: "€",
    pound: "£", yen: "¥", cent: "¢", larr: "←", uarr: "↑", rarr: "→", darr: "↓", harr: "↔", rArr: "⇒",
    hArr: "⇔", infin: "∞", ne: "≠", le: "≤", ge: "≥", asymp: "≈", equiv: "≡", minus: "−", radic: "√",
    sum: "∑", prod: "∏", int: "∫", part: "∂", nabla: "∇", isin: "∈", forall: "∀", exist: "∃", empty: "∅",
    cap: "∩", cup: "∪", sub: "⊂", sup: "⊃", and: "∧", or: "∨", not: "¬", alpha: "α", beta: "β",
    gamma: "γ", delta: "δ", epsilon: "ε", theta: "θ", lambda: "λ", mu: "μ", pi: "π", rho: "ρ", sigma: "σ",
    tau: "τ", phi: "φ", omega: "ω", Delta: "Δ", Sigma: "Σ", Omega: "Ω", ensp: "\u2002", emsp: "\u2003",
    thinsp: "\u2009", check: "✓", hearts: "♥", eacute: "é", egrave: "è", agrave: "à", ccedil: "ç",
    ntilde: "ñ", auml: "ä", ouml: "ö", uuml: "ü", Auml: "Ä", Ouml: "Ö", Uuml: "Ü", szlig: "ß",
  }),
);

const REFERENCE = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));/g;

export function decodeEntities(text) {
  if (!text.includes("&")) return text;
  return text.replace(REFERENCE, (whole, decimal, hex, name) => {
    if (name !== undefined) return NAMED.get(name) ?? whole;
    return fromCodePoint(decimal !== undefined ? Number(decimal) : Number.parseInt(hex, 16));
  });
}

// CommonMark: zero, surrogates and numbers beyond Unicode become the replacement character.
function fromCodePoint(code) {
  const isScalar = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return isScalar ? String.fromCodePoint(code) : "\ufffd";
}
