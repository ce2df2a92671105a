// From marked's tokens to a plain tree that patch.js turns into DOM nodes. No HTML strings anywhere:
// HTML in an answer is text, an image is a line that names it, a link is checked by links.js.
//
// A node of the tree is a string, {tag, attrs, children}, or one of the parts that have a life of their own:
// {code: {language, text, open}}, {math: {source, raw, isDisplay}}, {mark: label} for a footnote's mark.
// Headings must have been ranked before; their class tells how they look, by their own number of #.
// A list, table or quote begins with the nodes in its `done` (open_block.js), if it has any.
// Each block token gives exactly one node, or none (blank lines, definitions of links and footnotes, the mark of an alert).

import { decodeEntities } from "./entities.js";
import { safeAddress } from "./links.js";
import { hasLongWord, LONG_WORDS } from "./long_words.js";

// Deeper than this nobody reads; without a limit a hostile answer could exhaust the stack or the layout.
const MAX_DEPTH = 24;
const ALERTS = { note: "Note", tip: "Tip", important: "Important", warning: "Warning", caution: "Caution" };
// The page's own headings are levels 1 and 2, so an answer's begin at 3.
const HEADING_TAGS = ["h3", "h4", "h5", "h6"];

/** One block token as a tree node, or null for tokens that show nothing. */
export function blockNode(token, depth = 0) {
  if (depth > MAX_DEPTH) return raw(token.raw);
  switch (token.type) {
    case "space":
    case "def":
    case "footnote":
      return null;
    case "math":
      return mathNode(token);
    case "paragraph":
      return token.text === "" ? null : textBlock("p", inlineNodes(token.tokens, depth), wordsIn(token));
    case "text":
      return textBlock("p", inlineNodes(token.tokens ?? [token], depth), wordsIn(token));
    case "heading":
      return headingNode(token, depth);
    case "code":
      return codeNode(token);
    case "blockquote":
      return quoteNode(token, depth);
    case "list":
      return listNode(token, depth);
    case "table":
      return tableNode(token, depth);
    case "hr":
      return node("hr", []);
    default:
      return raw(token.raw);
  }
}

/**
 * Sets `rank` (1 is the highest) on the headings among these block tokens and inside them. Models begin with any number
 * of # and leave levels out; who goes through a page by its headings must not meet a gap.
 * @param {number[]} open numbers of # of the headings that the next one may stand below, outermost first; kept up to date
 */
export function rankHeadings(tokens, open, depth = 0) {
  if (depth > MAX_DEPTH) return;
  for (const token of tokens) {
    switch (token.type) {
      case "heading":
        while (open.length > 0 && open.at(-1) >= token.depth) open.pop();
        open.push(token.depth);
        token.rank = open.length;
        break;
      case "footnote":
        rankHeadings(token.tokens, [], depth + 1); // stands at the end, outside of all of them
        break;
      case "blockquote":
      case "list_item":
        rankHeadings(token.tokens, open, depth + 1);
        break;
      case "list":
        rankHeadings(token.items, open, depth);
    }
  }
}

/** The footnotes defined in these block tokens, in order: {label, children}. */
export function footnotesIn(tokens, depth = 0) {
  if (depth > MAX_DEPTH) return [];
  return tokens.flatMap((token) => {
    switch (token.type) {
      case "footnote":
        return [{ label: token.label, children: blockNodes(token.tokens, 1) }, ...footnotesIn(token.tokens, depth + 1)];
      case "blockquote":
      case "list_item":
        return footnotesIn(token.tokens, depth + 1);
      case "list":
        return footnotesIn(token.items, depth);
      default:
        return [];
    }
  });
}

function blockNodes(tokens, depth) {
  return tokens.map((token) => blockNode(token, depth)).filter((made) => made !== null);
}

function node(tag, children, attrs = null) {
  return { tag, attrs, children };
}

/** A block of running text: takes the direction of its own first letter, left to right or right to left. */
function textBlock(tag, children, attrs = null) {
  return node(tag, children, { dir: "auto", ...attrs });
}

/** Text exactly as it was written, line breaks kept. */
function raw(text) {
  return textBlock("p", [text.replace(/\n+$/, "")], { class: hasLongWord(text) ? `as-written ${LONG_WORDS}` : "as-written" });
}

/** Attributes of a block by the words in it. */
function wordsIn({ text }) {
  return hasLongWord(text) ? { class: LONG_WORDS } : null;
}

/** A quote, or one of GitHub's alerts. */
function quoteNode(token, depth) {
  const done = token.done ?? [];
  const children = [...done, ...blockNodes(token.tokens, depth + 1)];
  if (token.alert === undefined) return textBlock("blockquote", children);
  const title = done.length > 0 ? [] : [node("p", [ALERTS[token.alert]], { class: "alert-title" })];
  return textBlock("div", [...title, ...children], { class: `alert alert-${token.alert}`, role: "note" });
}

function headingNode(token, depth) {
  const rank = token.rank ?? 1; // none deep inside a footnote that is itself deep inside something
  const tag = HEADING_TAGS[Math.min(rank, HEADING_TAGS.length) - 1];
  const words = wordsIn(token);
  return textBlock(tag, inlineNodes(token.tokens, depth), { class: `level-${token.depth}${words === null ? "" : ` ${words.class}`}` });
}

function codeNode(token) {
  const isFenced = token.codeBlockStyle !== "indented";
  const language = isFenced ? (token.lang ?? "").trim().split(/[\s,{]/, 1)[0] : "";
  return { code: { language, text: token.text.replace(/\n$/, ""), open: isFenced && !isClosed(token.raw) } };
}

function isClosed(fenced) {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(fenced)?.[1];
  if (fence === undefined) return true;
  const last = fenced.trimEnd().slice(fenced.indexOf("\n") + 1).split("\n").at(-1).trim();
  return fenced.includes("\n") && last.length >= fence.length && last === fence[0].repeat(last.length);
}

function listNode(token, depth) {
  const made = token.items.map((item) => {
    const children = item.tokens.flatMap((part) => itemPart(part, depth + 1));
    return node("li", children, item.task ? { class: "task" } : wordsIn(item));
  });
  const items = [...(token.done ?? []), ...made];
  if (!token.ordered) return textBlock("ul", items);
  const start = token.start === 1 ? {} : { start: String(token.start) };
  // Room for the longest number. It has up to nine digits where the list begins, and may get one more.
  const digits = String(token.start + items.length - 1).length;
  return textBlock("ol", items, digits > 2 ? { ...start, class: `digits-${digits}` } : start);
}

// In a tight list the text of an item stands without a paragraph around it.
function itemPart(token, depth) {
  if (token.type === "text") return inlineNodes(token.tokens ?? [token], depth);
  if (token.type === "checkbox") return inlineNodes([token], depth);
  return blockNodes([token], depth);
}

function tableNode(token, depth) {
  const row = (tag, cells) => node("tr", cells.map((cell) => cellNode(tag, cell, depth)));
  const parts = [node("thead", [row("th", token.header)])];
  const rows = [...(token.done ?? []), ...token.rows.map((cells) => row("td", cells))];
  if (rows.length > 0) parts.push(node("tbody", rows));
  // The frame scrolls sideways, so it must be reachable by keyboard and have a name.
  return node("div", [textBlock("table", parts)], { class: "table-frame", tabindex: "0", role: "group", "aria-label": "Table" });
}

function cellNode(kind, cell, depth) {
  const tag = cell.tokens.length === 0 ? "td" : kind; // an empty corner is the head of nothing
  const attrs = {};
  const looks = [cell.align ? `align-${cell.align}` : "", hasLongWord(cell.text) ? LONG_WORDS : ""].filter((look) => look !== "");
  if (looks.length > 0) attrs.class = looks.join(" ");
  if (tag === "th") attrs.scope = "col";
  // A table cell is the one place where Markdown has no line break of its own, so models write <br>.
  const tokens = cell.tokens.map((part) => (/^<br\s*\/?>$/i.test(part.raw) ? { type: "br", raw: part.raw } : part));
  return node(tag, inlineNodes(tokens, depth), attrs);
}

function inlineNodes(tokens, depth) {
  const nodes = [];
  for (const token of tokens) {
    const made = depth > MAX_DEPTH ? token.raw : inlineNode(token, depth + 1);
    for (const part of Array.isArray(made) ? made : [made]) {
      if (typeof part === "string" && typeof nodes.at(-1) === "string") nodes[nodes.length - 1] += part;
      else nodes.push(part);
    }
  }
  return nodes;
}

function inlineNode(token, depth) {
  switch (token.type) {
    case "text":
      if (token.tokens) return inlineNodes(token.tokens, depth);
      return token.escaped ? token.text : decodeEntities(token.text);
    case "escape":
      return token.text;
    case "strong":
    case "em":
    case "del":
      return node(token.type, inlineNodes(token.tokens, depth));
    case "codespan":
      return node("code", [token.text]);
    case "br":
      return node("br", []);
    case "link":
      return linkNode(token, depth);
    case "image":
      return imageNode(token);
    case "checkbox":
      return checkboxNode(token);
    case "math":
      return mathNode(token);
    case "footnoteMark":
      return { mark: token.label };
    default:
      return token.raw;
  }
}

function mathNode({ text, raw, isDisplay }) {
  return { math: { source: text, raw: raw.trim(), isDisplay } };
}

function linkNode(token, depth) {
  const address = safeAddress(decodeEntities(token.href));
  const children = inlineNodes(token.tokens, depth);
  if (address === null) return children;
  return node("a", children, linkAttrs(address));
}

function linkAttrs(address) {
  return { href: address, target: "_blank", rel: "noreferrer noopener" };
}

// Fetching it would tell another server that this answer is being read, so it is only named.
function imageNode(token) {
  const label = `Image: ${decodeEntities(token.text) || "without description"}`;
  const address = safeAddress(decodeEntities(token.href));
  if (address === null) return node("span", [label], { class: "image-name" });
  return node("a", [label], { ...linkAttrs(address), class: "image-name" });
}

function checkboxNode(token) {
  const attrs = { type: "checkbox", disabled: "", "aria-label": token.checked ? "Done" : "To do" };
  if (token.checked) attrs.checked = "";
  return node("input", [], attrs);
}
