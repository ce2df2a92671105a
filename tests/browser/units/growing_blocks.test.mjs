// A list, a table or a quote that grows for long costs what is new in it, and ends as it does in one piece.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerLexer } from "../../../web_dist/markdown/lexer.js";
import { GrowingMarkdown } from "../../../web_dist/markdown/renderer.js";

const ENTRIES = {
  "tight list": (at) => `- item ${at} with **bold** words\n`,
  "loose list": (at) => `${at + 1}. item ${at} with **bold** words\n\n`,
  "nested list": (at) => `${at % 5 === 0 ? "" : "  "}* item ${at} with \`code\`\n`,
  table: (at) => (at === 0 ? "| a | b |\n|---|--:|\n" : `| row ${at} | **bold** |\n`),
  quote: (at) => (at % 3 === 2 ? ">\n" : `> line ${at} with *slant*\n`),
  alert: (at) => (at === 0 ? "> [!NOTE]\n" : at % 3 === 2 ? ">\n" : `> line ${at} with *slant*\n`),
  "table of formulas": (at) => (at === 0 ? "| $|a|$ | b |\n|---|--:|\n" : `| $|x_${at}|$ | ${at}~${at} |\n`),
  "list under a line": (at) => (at === 0 ? "Here they are:\n" : `- item ${at}\n`),
};
const LISTS_UNDER_HEADINGS = (at) => (at % 6 === 0 ? `## Part ${at}\n` : `- item ${at}\n`);

/** Shows a text piece by piece; `check` gets all that is shown after each. */
function grow(pieces, check) {
  const markdown = new GrowingMarkdown();
  const settledNodes = [];
  const settledNotes = [];
  let text = "";
  for (const [at, piece] of pieces.entries()) {
    text += piece;
    markdown.append(piece);
    const { settled, live } = markdown.advance();
    settledNodes.push(...settled.nodes);
    settledNotes.push(...settled.notes);
    check(at, {
      live: () => [...settledNodes, ...live.nodes],
      finished: () => {
        const { nodes, notes, isWhole } = markdown.finish(text);
        if (isWhole) return { nodes, notes };
        return { nodes: [...settledNodes, ...nodes], notes: [...settledNotes, ...notes] };
      },
    });
  }
}

function inOnePiece(text) {
  const markdown = new GrowingMarkdown();
  markdown.append(text);
  const { nodes, notes } = markdown.finish(text);
  return { nodes, notes };
}

/** How many characters are lexed while `work` runs. */
function lexed(work) {
  const { lex } = AnswerLexer.prototype;
  let length = 0;
  AnswerLexer.prototype.lex = function (source) {
    length += source.length;
    return lex.call(this, source);
  };
  try {
    work();
  } finally {
    delete AnswerLexer.prototype.lex;
  }
  return length;
}

for (const [name, entry] of Object.entries({ ...ENTRIES, "lists without blank lines": LISTS_UNDER_HEADINGS })) {
  const pieces = Array.from({ length: 600 }, (_, at) => entry(at));

  test(`${name}: an update costs the same at any length`, () => {
    const length = pieces.join("").length;
    const total = lexed(() => grow(pieces, () => {}));
    assert.ok(total < 25 * length, `${total} characters lexed for ${length}`);
  });

  test(`${name}: ends as in one piece, wherever it ends`, () => {
    grow(pieces.slice(0, 40), (at, { finished }) => {
      assert.deepEqual(finished(), inOnePiece(pieces.slice(0, at + 1).join("")));
    });
  });
}

for (const [name, entry] of Object.entries(ENTRIES)) {
  test(`${name}: what is finished is the same tree in every update`, () => {
    const firstEntries = new Set();
    grow(Array.from({ length: 300 }, (_, at) => entry(at)), (at, shown) => {
      if (at >= 100) firstEntries.add(firstEntry(shown.live().at(-1)));
    });
    assert.equal(firstEntries.size, 1);
  });
}

/** The first item, row or quoted block, which is long finished. */
function firstEntry({ attrs, children }) {
  if (attrs.class === "table-frame") return children[0].children[1].children[0];
  return children[0];
}

test("a list that becomes loose late is made once more, and only once", () => {
  const pieces = Array.from({ length: 300 }, (_, at) => `- item ${at}\n${at % 50 === 20 ? "\n" : ""}`);
  const length = pieces.join("").length;
  assert.ok(lexed(() => grow(pieces, () => {})) < 25 * length);
  grow(pieces.slice(0, 30), (at, { finished }) => {
    assert.deepEqual(finished(), inOnePiece(pieces.slice(0, at + 1).join("")));
  });
});

test("lines of any kind, cut anywhere, end as in one piece wherever they end", () => {
  const below = randomNumbers(5);
  const pick = (choices) => choices[below(choices.length)];
  const words = [
    "a", "b *c* d", "`x`", "**w", "w**", "$x$", "[^n]", "[r]", "| c | d |", "$$", "\\[", "\\]", "---", "#", "## h", "```", "~~~",
    "<div>", "<!--", "-->", "[ ] t", "[x] t", "", "  ", "=", "1.", "-", "two words", "[^n]: note", "[r]: http://q", "`", "\t",
    "[!NOTE]", "[!tip] x", "$|x|$ | y", "1~2", "~~s~~", "**注：**请", "http://a.b/。c",
  ];
  const marks = [
    "- ", "* ", "1. ", "2. ", "3) ", "> ", "| ", "", "", "  ", "    ", "  - ", "   1. ", "> - ", "> > ", "- > ", "- - ", "-", "1.",
    ">", "# ", "|-|\n", "\t- ", "* * *", "---", "  ```\n",
  ];
  const ends = ["\n", "\n", "\n", "\n", "\n\n", "\n  \n", " "];
  for (let round = 0; round < 600; round++) {
    const main = pick(["- ", "* ", "  - ", "1. ", "> ", "| "]); // mostly of one kind, so that blocks get long
    const purity = below(10);
    const line = () => (below(10) < purity ? main : pick(marks)) + pick(words) + pick(ends);
    const text = (main === "| " ? "| a | b |\n|-|-|\n" : "") + Array.from({ length: 3 + below(12) }, line).join("");
    const size = pick([1, 2, 5, 20]);
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, at) => text.slice(at * size, (at + 1) * size));
    grow(pieces, (at, { finished }) => {
      if (at < pieces.length - 1 && below(20) > 0) return;
      const written = pieces.slice(0, at + 1).join("");
      assert.deepEqual(finished(), inOnePiece(written), JSON.stringify(written));
    });
  }
});

/** The same numbers in each run. */
function randomNumbers(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}
