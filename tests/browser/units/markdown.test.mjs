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
  "age(1~3) ~~gone~~ 5~7U ~~注意：~~请看 **注意：**请看 **“quoted”**text *。* 见https://example.com/d。谢谢（www.example.com）",
  "| $\\ln|x|$ | z |\n|---|---|\n| $|y|$ | \\(|a|\\) |\n| $5 | $6 |\n| `$|` | $\\|v\\|$ |\n\nafter",
  "> [!NOTE]\n> One *it*\n>\n> - a\n> - b\n>\n> two\n>\n> three\n\n> [!tip] more\n\n> [!WARNING]\n\n- > [!CAUTION]\n  > in",
  `98. a\n99. b\n100. ${"x".repeat(700)}\n101. c\n\n# ${"y".repeat(700)}\n\n| ${"z".repeat(700)} |\n|-|\n| a |`,
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
    "~", "~~", "注", "：", "“", "”", "http://a.b/c", "$|x|$", "> [!NOTE]\n", "[!tip]", "99. ", "\n> ",
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

const html = (nodes) => nodes.map((node) => (typeof node === "string" ? node : elementOf(node))).join("");

function elementOf({ tag, attrs, children, math }) {
  if (math) return math.raw;
  return `<${[tag, ...["href", "class", "start"].filter((name) => attrs?.[name]).map((name) => `${name}=${attrs[name]}`)].join(" ")}>${html(children)}</${tag}>`;
}

/** What a line of text becomes, without the paragraph around it. */
const inLine = (text) => html(grown([text]).nodes).replace(/^<p>(.*)<\/p>$/s, "$1");

function becomes(cases) {
  for (const [text, shown] of Object.entries(cases)) assert.equal(inLine(text), shown, text);
}

test("two tildes strike out, one or three do not", () => {
  becomes({
    "age(1~3), height(80~100)": "age(1~3), height(80~100)",
    "5~7U × 100~200": "5~7U × 100~200",
    "~a~ ~5 and ~6": "~a~ ~5 and ~6",
    "b ~~~a~~~": "b ~~~a~~~",
    "a ~~gone 1~3~~ b": "a <del>gone 1~3</del> b",
    "~~a~ b~~": "<del>a~ b</del>",
    "*a ~~b* c~~": "<em>a ~~b</em> c~~",
    "`~~a~~` \\~~b~~": "<code>~~a~~</code> ~~b~~",
  });
});

test("an address in the open ends before CJK punctuation and quotation marks", () => {
  const link = "<a href=https://example.com/d>https://example.com/d</a>";
  for (const mark of "。，、；：！？）】》〉」』〕”’»…—｡､") {
    assert.equal(inLine(`见https://example.com/d${mark}谢谢`), `见${link}${mark}谢谢`);
    assert.equal(inLine(`(https://example.com/d${mark})`), `(${link}${mark})`);
  }
  for (const mark of "（「“《") assert.equal(inLine(`https://example.com/d${mark}说明`), `${link}${mark}说明`);
  for (const mark of ["؟", "،", "।", "."]) assert.equal(inLine(`https://example.com/d${mark} x`), `${link}${mark} x`);
  becomes({
    "https://ja.example/ジョブズ・a-b_c(d)": "<a href=https://ja.example/%E3%82%B8%E3%83%A7%E3%83%96%E3%82%BA%E3%83%BBa-b_c(d)>https://ja.example/ジョブズ・a-b_c(d)</a>",
    "[x](https://example.com/（y）)": "<a href=https://example.com/%EF%BC%88y%EF%BC%89>x</a>",
    "<https://example.com/、>": "<a href=https://example.com/%E3%80%81>https://example.com/、</a>",
    "www.example.com，a@example.com。": "<a href=http://www.example.com/>www.example.com</a>，<a href=mailto:a@example.com>a@example.com</a>。",
  });
});

test("bars in a formula end no cell of a table", () => {
  const rows = {
    "| $\\ln|x|$ | z |": ["$\\ln|x|$", "z"],
    "$|x|$ | $|y|$": ["$|x|$", "$|y|$"],
    "| \\(|a|\\) | $$|b|$$ |": ["\\(|a|\\)", "$$|b|$$"],
    "| $a \\mid b$ | $P(a|b)$ |": ["$a \\mid b$", "$P(a|b)$"],
    "| $5 | $6 |": ["$5", "$6"],
    "|$|€|": ["$", "€"],
    "| `$a` | $b |": ["<code>$a</code>", "$b"],
    "| `$|a|$` | `b|c` |": ["<code>$|a|$</code>", "`b"],
    "| `$` | a$ |": ["<code>$</code>", "a$"],
    "| $x$ | a\\|b |": ["$x$", "a|b"],
    "| $x | y |": ["$x", "y"],
  };
  for (const [row, cells] of Object.entries(rows)) {
    const [frame] = grown([`| a | b |\n|---|---|\n${row}\n`]).nodes;
    const [, body] = frame.children[0].children;
    assert.deepEqual(body.children[0].children.map((cell) => html(cell.children)), cells, row);
  }
  const [money] = grown(["|a|b|c|\n|-|-|-|\n|$|x|$|\n"]).nodes;
  assert.deepEqual(money.children[0].children[1].children[0].children.map((cell) => html(cell.children)), ["$", "x", "$"]);
  const [headed] = grown(["| $|x|$ | b |\n|-|-|\n"]).nodes;
  assert.deepEqual(headed.children[0].children[0].children[0].children.map((cell) => html(cell.children)), ["$|x|$", "b"]);
});

test("emphasis next to CJK punctuation and quotation marks", () => {
  becomes({
    "**注意：**请看": "<strong>注意：</strong>请看",
    "**“quoted”**text": "<strong>“quoted”</strong>text",
    "text**“quoted”**": "text<strong>“quoted”</strong>",
    "*。*": "<em>。</em>",
    "中*。*文": "中<em>。</em>文",
    "请**「注意」**看": "请<strong>「注意」</strong>看",
    "这是**(重点)**的，和**\"b\"**。": "这是<strong>(重点)</strong>的，和<strong>\"b\"</strong>。",
    "**（一）**，*二、*三": "<strong>（一）</strong>，<em>二、</em>三",
    "**a**，**b**。**c**": "<strong>a</strong>，<strong>b</strong>。<strong>c</strong>",
    "***注意！***请": "<em><strong>注意！</strong></em>请",
    "__注意：__请": "<strong>注意：</strong>请",
    "변수**‘값’**을": "변수<strong>‘값’</strong>을",
    "**𠮷（吉）**𠮷": "<strong>𠮷（吉）</strong>𠮷",
    "𠮷**(a)**𠮷": "𠮷<strong>(a)</strong>𠮷",
    "**注意：**see, see**「a」**b": "<strong>注意：</strong>see, see<strong>「a」</strong>b",
  });
});

test("all other emphasis is CommonMark's", () => {
  becomes({
    "a * b * c": "a * b * c",
    'a*"foo"*': 'a*"foo"*',
    "foo*bar*": "foo<em>bar</em>",
    "*foo bar *": "*foo bar *",
    "*(*foo)": "*(*foo)",
    "*(*foo*)*": "<em>(<em>foo</em>)</em>",
    "*£*bravo. *€*charlie.": "*£*bravo. *€*charlie.",
    "foo_bar_baz 变量_名_x 5_6_": "foo_bar_baz 变量_名_x 5_6_",
    'aa_"bb"_cc': 'aa_"bb"_cc',
    "foo-_(bar)_": "foo-<em>(bar)</em>",
    "*foo**bar**baz*": "<em>foo<strong>bar</strong>baz</em>",
    "*foo**bar*": "<em>foo**bar</em>",
    "***foo** bar*": "<em><strong>foo</strong> bar</em>",
    "foo***bar***baz": "foo<em><strong>bar</strong></em>baz",
    "foo******bar*********baz": "foo<strong><strong><strong>bar</strong></strong></strong>***baz",
    "**foo*": "*<em>foo</em>",
    "*foo _bar* baz_": "<em>foo _bar</em> baz_",
    "*a _b _c* d_ e_": "<em>a _b _c</em> d_ e_",
    "**a *b** c* *d*": "<em><em>a <em>b</em></em> c</em> <em>d</em>",
    "*a ~~b* c~~ *d* e*": "<em>a ~~b</em> c~~ <em>d</em> e*",
    "*word*’s “**Hello**” **“Hello”**": "<em>word</em>’s “<strong>Hello</strong>” <strong>“Hello”</strong>",
    "*He said “*Hello*” twice*": "<em>He said “<em>Hello</em>” twice</em>",
    "*a `*`*": "<em>a <code>*</code></em>",
    "\\*a* *b\\**": "*a* <em>b*</em>",
  });
});

test("GitHub's alerts have a title, and their mark is no text", () => {
  becomes({
    "> [!NOTE]\n> One\n> two\n": "<div class=alert alert-note><p class=alert-title>Note</p><p>One<br></br>two</p></div>",
    "> [!tip] One": "<div class=alert alert-tip><p class=alert-title>Tip</p><p>One</p></div>",
    "> [!IMPORTANT]  \n>\n> One": "<div class=alert alert-important><p class=alert-title>Important</p><p>One</p></div>",
    "> [!WARNING]\n> - a": "<div class=alert alert-warning><p class=alert-title>Warning</p><ul><li>a</li></ul></div>",
    "> [!CAUTION]": "<div class=alert alert-caution><p class=alert-title>Caution</p></div>",
    "> [!OTHER]\n> a": "<blockquote><p>[!OTHER]<br></br>a</p></blockquote>",
    "> a\n> [!NOTE]": "<blockquote><p>a<br></br>[!NOTE]</p></blockquote>",
    "> \\[!NOTE]\n> a": "<blockquote><p>[!NOTE]<br></br>a</p></blockquote>",
    "[!NOTE]": "[!NOTE]",
  });
});

test("a list has room for its longest number", () => {
  const looksOf = (text) => grown([text]).nodes[0].attrs.class;
  assert.equal(looksOf("1. a\n2. b\n"), undefined);
  assert.equal(looksOf("99. a\n"), undefined);
  assert.equal(looksOf("99. a\n1. b\n"), "digits-3");
  assert.equal(looksOf("1000. a\n"), "digits-4");
  assert.equal(looksOf("999999999. a\n1. b\n"), "digits-10");
  assert.equal(looksOf(Array.from({ length: 100 }, () => "1. a\n").join("")), "digits-3");
});

test("blocks with a word that no browser kerns in time are marked, others are not", () => {
  const word = "x".repeat(30_000);
  const text = `a ${word}\n\n## b ${word}\n\n- c\n- ${word}\n\n| ${word} |\n|-:|\n| d |\n\n${"word ".repeat(9000)}`;
  const marked = [];
  everyNode(grown([text]).nodes, ({ tag, attrs }) => attrs?.class?.includes("long-words") && marked.push(`${tag} ${attrs.class}`));
  assert.deepEqual(marked, ["p long-words", "h3 level-2 long-words", "li long-words", "th align-right long-words"]);
});

test("the half-written end shows no marks that are about to vanish", () => {
  const cases = {
    "hello **bo": "hello **bo**", "a `co": "a `co`", "a `": "a ", "a **": "a ", "it *is": "it *is*", "text\n-": "text\n",
    "- item\n-": "- item\n", "|a|b|": "", "x [link](htt": "x link", "a ~~s": "a ~~s~~", "* item **b": "* item **b**",
    "done **b**": "done **b**", "2 * 3 * 4": "2 * 3 * 4", "snake_case_": "snake_case_", "a *b*": "a *b*",
    "age(1~": "age(1~", "~~gone~": "~~gone~~", "a ~~": "a ", "> [!NO": "", "a\n\n> [": "a\n\n", "> a\n> [!N": "> a\n> [!N",
  };
  for (const [half, shown] of Object.entries(cases)) assert.equal(mendEnd(half), shown, half);
});
