// Growing Markdown ends as Markdown in one piece does, and nothing in it becomes live content.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeEntities } from "../../../web_dist/markdown/entities.js";
import { mendEnd } from "../../../web_dist/markdown/half_written.js";
import { safeAddress } from "../../../web_dist/markdown/links.js";
import { GrowingMarkdown } from "../../../web_dist/markdown/renderer.js";

const CORPUS = [
  "# Title\n\nPara **bold** and *it*, `code`\nsecond line\n\n- a\n- b\n  - c\n\n  d\n\n1. x\n\n2. y\n   ```py\n   z = 1\n   ```\n\nend",
  "| a | b |\n|:--|--:|\n| 1<br>2 | **2** |\n| 3 | `|` |\n\nafter",
  "```js\nlet a = 1;\n\nlet b;\n```\n\n~~~\nplain\n~~~\n",
  "> quote\nlazy\n\n> > deep\n\n* [x] done\n* [ ] to do\n",
  "Setext\n======\ntext\n-\n---\nrule above\n\n***\n",
  "<div>\nhi</div>\n\n<script>alert(1)\n\n</script>\n\npara\n#hashtag\n# heading\n",
  "1. one\n2. two\n\n2\n\n- a\n\n-b\n\n+ c\n",
  "see [ref] and [other][x]\n\n[ref]: http://a.example\n[x]: https://b.example 'T'\n\n[ref]",
  "line\r\nbreaks\rof all\n\r\nkinds\r\n\r\n```\r\ncode\r\n```\r\n",
  "    indented code\n\n    more\n\ntext\n    not code\n",
  "|a|\n\n|b\n|-\n\n| only bars",
  "$x_1$ 2 * 3 * 4 snake_case_word **a** __b__ ~~c~~ &amp; &lt;b&gt; &#x1F600; &nosuch;",
  "````md\n```\ninner\n```\n````\n\nafter",
  "money $5 and $10, US$7, $HOME:$PATH; math $a_1*b$ and \\(c^{*}\\), **bold $x*y$ end**\n\n\\[\na\n=b\n\\]\ntext\n$$\nc\n$$\nmore",
  "$$\n\\begin{aligned}\n- a &= b \\\\\n1. c\n\\end{aligned}\n$$\n\n- item\n  \\[ x \\]\n  $$y$$ after\n\n> $$\n> z\n> $$\n\n$$open\n\nand \\(open",
  "a[^1] b[^two] c[^none] [^1]\n\n[^1]: One *it*\n\n    more\n\n    - list\n[^two]: Two $x$\n\nafter\n\n- d[^l]\n[^l]: lazy",
  "- item\n\n      code in item\n\n- [link](http://x.example/a(b)c) ![alt](http://y.example/p.png \"t\")",
];

function grown(pieces, afterEach = (markdown) => markdown.advance()) {
  const markdown = new GrowingMarkdown();
  const shown = { nodes: [], notes: [] };
  for (const [at, piece] of pieces.entries()) {
    markdown.append(piece);
    if (at === pieces.length - 1) break; // the end often comes with the last piece
    const { settled } = afterEach(markdown, pieces.slice(0, at + 1).join(""));
    shown.nodes.push(...settled.nodes);
    shown.notes.push(...settled.notes);
  }
  const { nodes, notes, isWhole } = markdown.finish(pieces.join(""));
  return isWhole ? { nodes, notes } : { nodes: [...shown.nodes, ...nodes], notes: [...shown.notes, ...notes] };
}

function piecesOf(text, size) {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, at) => text.slice(at * size, (at + 1) * size));
}

test("any chunking ends in the same tree as one piece", () => {
  for (const text of [...CORPUS, CORPUS.join("\n\n")]) {
    const whole = grown([text]);
    for (const size of [1, 2, 3, 7, 19]) assert.deepEqual(grown(piecesOf(text, size)), whole, JSON.stringify(text));
  }
});

test("fragments in any order, cut anywhere, end as in one piece", () => {
  const fragments = [
    "a", "b ", "\n", "\n\n", "- ", "1. ", "2", "  ", "    ", "```", "`", "~~~", "> ", "#", "# ", "|", "|-|\n", "|a|b|\n",
    "---", "===", "*", "**", "_", "<div>", "</div>", "<!--", "-->", "<script>", "[x]", "(http://a.b)", "[r]: http://q\n",
    "![i](u)", "\\", "&amp;", "\t", "\r", "\r\n", "+ ", "10) ", "[ ] ", "<br>", "two words",
    "$", "$$", "\\(", "\\)", "\\[", "\\]", "x^2", "[^n]", "[^n]: ", "\n[^n]: note\n", "\n$$\n",
  ];
  let state = 11; // the same cases in each run
  const below = (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  for (let round = 0; round < 6000; round++) {
    const text = Array.from({ length: 3 + below(14) }, () => fragments[below(fragments.length)]).join("");
    assert.deepEqual(grown([...text]), grown([text]), JSON.stringify(text));
  }
});

test("a text that was finished and goes on ends as in one piece", () => {
  for (const text of CORPUS) {
    const whole = grown([text]);
    for (const size of [1, 5]) {
      const end = grown(piecesOf(text, size), (markdown, text) => {
        const { settled } = markdown.advance();
        markdown.finish(text);
        return { settled };
      });
      assert.deepEqual(end, whole, JSON.stringify(text));
    }
  }
});

test("settled blocks are given out early and only once", () => {
  const markdown = new GrowingMarkdown();
  const paragraphs = Array.from({ length: 50 }, (_, at) => `Paragraph ${at} with *some* text.\n\n`);
  let settledCount = 0;
  for (const [at, piece] of paragraphs.entries()) {
    markdown.append(piece);
    const { settled, live } = markdown.advance();
    settledCount += settled.nodes.length;
    assert.ok(live.nodes.length <= 2, `block ${at} leaves ${live.nodes.length} live`);
  }
  assert.equal(settledCount + markdown.finish(paragraphs.join("")).nodes.length, 50);
});

function everyNode(nodes, visit) {
  for (const node of nodes) {
    visit(node);
    if (node.children) everyNode(node.children, visit);
  }
}

const TAGS = new Set("p h3 h4 h5 h6 blockquote ul ol li table thead tbody tr th td div hr br strong em del code a span input".split(" "));
const ATTRIBUTES = new Set("class dir href target rel start type disabled checked aria-label scope tabindex role".split(" "));

test("only known tags and attributes are ever made, and only checked links", () => {
  const hostile = [
    "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "<iframe src='javascript:alert(1)'>", "<style>*{}</style>",
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](java\nscript:alert(1))", "[a](&#106;avascript:alert(1))",
    "[a](data:text/html,<script>alert(1)</script>)", "[a](vbscript:x)", "[a](file:///etc/passwd)", "[a](//evil.example)",
    "[a](/api/cancel)", "![x](javascript:alert(1))", "![x](http://t.example/p.png)", "<javascript:alert(1)>",
    "<a href=\"javascript:alert(1)\">x</a>", "[x]: javascript:alert(1)\n\n[x]", "```<script>\nx\n```", "|a|\n|-|\n|<script>x</script>|",
    "[a](http://x.example \"onmouseover=alert(1)\")", "# <b onclick=x>t</b>", "[a](\u0001javascript:alert(1))", "&lt;script&gt;",
  ];
  for (const text of [...CORPUS, ...hostile]) {
    const { nodes, notes } = grown([text]);
    everyNode([...nodes, ...notes.flatMap((note) => note.children)], (node) => {
      if (typeof node === "string" || node.code || node.math || node.mark) return;
      assert.ok(TAGS.has(node.tag), node.tag);
      for (const [name, value] of Object.entries(node.attrs ?? {})) {
        assert.ok(ATTRIBUTES.has(name), name);
        if (name === "href") assert.match(value, /^(https?:\/\/|mailto:)/);
      }
    });
  }
});

test("no nesting exhausts the stack", () => {
  for (const text of [">".repeat(20_000), "- ".repeat(4000), "[".repeat(8000), "**a ".repeat(3000), "*_".repeat(4000)]) {
    let depth = 0;
    const measure = (nodes, at) => {
      depth = Math.max(depth, at);
      for (const node of nodes) if (node.children) measure(node.children, at + 1);
    };
    measure(grown([text]).nodes, 1);
    assert.ok(depth < 80, `${depth} levels for ${text.slice(0, 10)}`);
  }
});

test("headings leave no rank out, whatever the model wrote, and look as it wrote them", () => {
  const text = "### a\n\n# b\n\n### c\n\n> ###### d\n\n- ## e\n\n#### f\n\n# g[^n]\n\n[^n]: n\n\n    ##### h\n";
  const { nodes, notes } = grown([...text]);
  const found = [];
  everyNode([...nodes, ...notes.flatMap((note) => note.children)], ({ tag, attrs }) => {
    if (/^h\d$/.test(tag)) found.push(`${tag} ${attrs.class}`);
  });
  assert.deepEqual(found, [
    "h3 level-3", "h3 level-1", "h4 level-3", "h5 level-6", "h4 level-2", "h5 level-4", "h3 level-1", "h3 level-5",
  ]);
});

test("links: web and mail addresses only", () => {
  assert.equal(safeAddress("https://a.example/b"), "https://a.example/b");
  assert.equal(safeAddress("mailto:a@b.example"), "mailto:a@b.example");
  for (const address of ["javascript:x", " javascript:x", "java\tscript:x", "data:,x", "blob:https://a/b", "/x", "x", ""]) {
    assert.equal(safeAddress(address), null, address);
  }
});

test("character references: known names and numbers, the rest as written", () => {
  assert.equal(decodeEntities("&amp;lt; &copy; &#65;&#x42; &#0; &#xD800; &nosuch; & a&b"), "&lt; © AB \ufffd \ufffd &nosuch; & a&b");
});

test("the half-written end shows no marks that are about to vanish", () => {
  const cases = {
    "hello **bo": "hello **bo**", "a `co": "a `co`", "a `": "a ", "a **": "a ", "it *is": "it *is*", "text\n-": "text\n",
    "- item\n-": "- item\n", "|a|b|": "", "x [link](htt": "x link", "a ~~s": "a ~~s~~", "* item **b": "* item **b**",
    "done **b**": "done **b**", "2 * 3 * 4": "2 * 3 * 4", "snake_case_": "snake_case_", "a *b*": "a *b*",
  };
  for (const [half, shown] of Object.entries(cases)) assert.equal(mendEnd(half), shown, half);
});
