// Brings DOM nodes in line with a tree from tree.js, touching only what differs.
//
// Text that only grew is appended to its text node, never replaced: a selection inside it survives.
// Nodes are compared by position; an answer grows at its end, so positions are stable.
// Trees are never changed once they were shown, so a tree that comes again needs no look at its nodes.

import { CodeBlock } from "./code_block.js";
import { FootnoteMark } from "./footnote_mark.js";
import { Formula } from "./formula.js";
import { setText } from "./text_node.js";

/** Parts that look after their own element: what makes them, and what may change of them in place. */
const PARTS = {
  code: { make: (code) => new CodeBlock(code), isSame: (before, after) => before.language === after.language },
  math: { make: (math) => new Formula(math), isSame: (before, after) => before.raw === after.raw },
  mark: { make: (label) => new FootnoteMark(label), isSame: (before, after) => before === after },
};
const made = new WeakMap();

/**
 * Makes the children of `parent` from index `first` on match `next`.
 * @param {Element} parent
 * @param {Array} previous the tree these children were made from
 * @param {Array} next
 * @param {number} [first] children before it are left alone
 */
export function patchChildren(parent, previous, next, first = 0) {
  for (let at = 0; at < next.length; at++) {
    if (at < previous.length && previous[at] === next[at]) continue; // the same tree, not one like it
    const existing = parent.childNodes[first + at];
    if (at >= previous.length || existing === undefined) parent.append(create(next[at]));
    else if (!update(existing, previous[at], next[at])) existing.replaceWith(create(next[at]));
  }
  while (parent.childNodes.length > first + next.length) parent.lastChild.remove();
}

/** The part that belongs to an element made here. */
export function partOf(element) {
  return made.get(element);
}

function kindOf(tree) {
  if (tree.tag !== undefined) return null;
  return tree.code !== undefined ? "code" : tree.math !== undefined ? "math" : "mark";
}

function create(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const kind = kindOf(tree);
  if (kind !== null) {
    const part = PARTS[kind].make(tree[kind]);
    made.set(part.element, part);
    return part.element;
  }
  const element = document.createElement(tree.tag);
  for (const [name, value] of Object.entries(tree.attrs ?? {})) element.setAttribute(name, value);
  for (const child of tree.children) element.append(create(child));
  return element;
}

/** Updates the node in place; false if it must be made anew. */
function update(existing, previous, next) {
  if (typeof next === "string") {
    if (typeof previous !== "string") return false;
    setText(existing, previous, next);
    return true;
  }
  if (typeof previous === "string") return false;
  const kind = kindOf(next);
  if (kind !== kindOf(previous)) return false;
  if (kind !== null) {
    if (!PARTS[kind].isSame(previous[kind], next[kind])) return false;
    made.get(existing).update?.(next[kind]);
    return true;
  }
  if (previous.tag !== next.tag) return false;
  patchAttributes(existing, previous.attrs ?? {}, next.attrs ?? {});
  patchChildren(existing, previous.children, next.children);
  return true;
}

function patchAttributes(element, previous, next) {
  for (const name of Object.keys(previous)) if (!(name in next)) element.removeAttribute(name);
  for (const [name, value] of Object.entries(next)) if (previous[name] !== value) element.setAttribute(name, value);
}
