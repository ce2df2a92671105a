// From Temml's tree to MathML in the page. Only what is listed here gets through: Temml is told to trust nothing, and
// what it makes of a formula is still no reason to trust it. Style comes as single properties, never as a string.

const MATHML = "http://www.w3.org/1998/Math/MathML";
const ELEMENTS = new Set(
  ("math mrow mi mn mo mtext mspace ms mfrac msqrt mroot mstyle mpadded mphantom mover munder munderover msub msup " +
    "msubsup mmultiscripts mprescripts none mtable mtr mtd menclose").split(" "),
);
const ATTRIBUTES = new Set(
  ("accent accentunder columnalign columnlines columnspacing depth display displaystyle fence form height " +
    "largeop linethickness lspace mathbackground mathcolor mathsize mathvariant maxsize minsize movablelimits " +
    "notation rowalign rowlines rowspacing rspace scriptlevel separator stretchy symmetric voffset width").split(" "),
);
const PROPERTIES = new Set(
  ("background-color border border-bottom border-left border-right border-top color display font-family font-size " +
    "font-style font-weight height math-depth math-style padding padding-bottom padding-left padding-right padding-top " +
    "text-align transform vertical-align white-space width").split(" "),
);
const CLASS = /^[a-z][a-z0-9-]*$/;
const VALUE = /^[\w\s.,%#()+-]*$/;
// Larger than any formula needs; it could cover what stands around it.
const MAX_LENGTH = { em: 30, ex: 60, pt: 300, px: 400, mu: 540 };
const MAX_DEPTH = 60;
const MAX_NODES = 6000;

/** The formula as a math element; throws where it holds what is not allowed, or too much of it. */
export function toMathML(tree) {
  const budget = { left: MAX_NODES };
  const made = build(tree, budget, 0);
  if (made.nodeName !== "math") throw new RangeError("no formula");
  return made;
}

function build(tree, budget, depth) {
  if (depth > MAX_DEPTH || budget.left-- <= 0) throw new RangeError("the formula is too large");
  if (typeof tree.text === "string") return document.createTextNode(tree.text);
  const made = emptyNode(tree);
  for (const child of tree.children ?? []) made.append(build(child, budget, depth + 1));
  return made;
}

function emptyNode(tree) {
  if (tree.type === undefined) {
    // Temml's fragments, and its HTML parts (marks of equations): these keep their class alone.
    if (tree.classes === undefined || tree.classes.length === 0) return document.createDocumentFragment();
    return withClasses(document.createElement("span"), tree.classes);
  }
  if (!ELEMENTS.has(tree.type)) throw new RangeError(`no ${tree.type} in formulas`);
  const element = withClasses(document.createElementNS(MATHML, tree.type), tree.classes ?? []);
  for (const [name, value] of Object.entries(tree.attributes ?? {})) {
    if (name === "style") for (const [property, worth] of declarations(value)) setStyle(element, property, worth);
    else if (ATTRIBUTES.has(name)) element.setAttribute(name, checked(value));
  }
  // Some of its nodes carry an object of another kind here, with properties that mean nothing.
  for (const [name, value] of Object.entries(tree.style ?? {})) setStyle(element, hyphenated(name), value);
  return element;
}

function withClasses(element, classes) {
  const names = classes.filter((name) => CLASS.test(name));
  if (names.length > 0) element.setAttribute("class", names.join(" "));
  return element;
}

function setStyle(element, property, value) {
  if (PROPERTIES.has(property) && typeof value === "string") element.style.setProperty(property, checked(value));
}

function declarations(text) {
  return text
    .split(";")
    .map((one) => one.split(":").map((part) => part.trim()))
    .filter((pair) => pair.length === 2);
}

function hyphenated(name) {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function checked(value) {
  const text = String(value);
  if (!VALUE.test(text)) throw new RangeError(`no ${text} in formulas`);
  for (const [, number, unit] of text.matchAll(/(-?[\d.]+)(em|ex|pt|px|mu)\b/g)) {
    if (Math.abs(Number(number)) > MAX_LENGTH[unit]) throw new RangeError("a length in the formula is too large");
  }
  return text;
}
