// What is a formula and what is money, a variable, code or a text in brackets.
import assert from "node:assert/strict";
import { test } from "node:test";
import { mendEnd } from "../../../web_dist/markdown/half_written.js";
import { GrowingMarkdown } from "../../../web_dist/markdown/renderer.js";

function formulasIn(text) {
  const markdown = new GrowingMarkdown();
  markdown.append(text);
  const found = [];
  const visit = (node) => {
    if (node.math) found.push(node.math.raw);
    for (const child of node.children ?? []) visit(child);
  };
  for (const node of markdown.finish().nodes) visit(node);
  return found;
}

test("these are no formulas", () => {
  const texts = [
    "$5 and $10", "costs $5/$10", "$1,000 vs $2,000.", "US$5 or US$6", "$20k a month or $30k", "$30k$", "$1.5M$ in all", "$5 (or 4$)", "$5, vs. 10$",
    "\\$5 and 6\\$", "$HOME/bin:$PATH", "$HOME and $PATH", "${A}:${B}", "$(ls)/$(pwd)", "$a,$b", "$1 $2", "$x = $y", "$ x$",
    "$x $", "a$b$c", "$x$y", "$$ $$", "$$", "$$$$", "`$x$`", "``\\(x\\)``", "    $x$", "```\n$$\nx\n$$\n```", "\\(open", "$x\ny$",
    "\\[see below\\]", "\\[text\\](http://a.example)", "\\\\(x\\\\)", "$$x\n\ny$$", "\\(x\n\ny\\)", "$the other one$", "\\( \\)",
    "<div>$x$</div>", "$x`y`$", "${x$",
  ];
  for (const text of texts) assert.deepEqual(formulasIn(text), [], text);
});

test("these are", () => {
  const texts = {
    "$x$": ["$x$"], "for $a_1*b$, and ($c$).": ["$a_1*b$", "$c$"], "$5 + 3 = 8$": ["$5 + 3 = 8$"], "$2k$ and $30$": ["$2k$", "$30$"], "$\\$5$": ["$\\$5$"],
    "\\(x\\) \\[y\\]": ["\\(x\\)", "\\[y\\]"], "$$x$$ and $$y$$": ["$$x$$", "$$y$$"], "a\n$$\nx\n$$\nb": ["$$\nx\n$$"],
    "$\\text{if this holds}$": ["$\\text{if this holds}$"], "**$x*y$**": ["$x*y$"], "- $$\n  x\n  $$": ["$$\nx\n$$"],
    "> \\[\n> x\n> \\]": ["\\[\nx\n\\]"], "|$x$|\n|-|\n|\\(y\\)|": ["$x$", "\\(y\\)"], "\\[a \\\\[2pt] b\\]": ["\\[a \\\\[2pt] b\\]"],
    "$5 and $x$": ["$x$"], "[$x$](http://a.example)": ["$x$"], "$\\alpha$-helix": ["$\\alpha$"], "$x$[^1]": ["$x$"],
    "$$\n- a\n= b\n# c\n$$": ["$$\n- a\n= b\n# c\n$$"], "~~$a~~b$~~": ["$a~~b$"],
  };
  for (const [text, formulas] of Object.entries(texts)) assert.deepEqual(formulasIn(text), formulas, text);
});

test("a formula that is being written is its source", () => {
  const cases = {
    "a \\(x_1": "a \\\\\\(x\\_1", "**b \\(x*": "**b \\\\\\(x\\***", "$$\n- a": "\\$\\$\n\\- a", "a $x^*b": "a \\$x\\^\\*b",
    "a $5 *b": "a $5 *b*", "use $HOME and *b": "use $HOME and *b*", "`\\(a": "`\\(a`", "\\(x\\) *b": "\\(x\\) *b*",
  };
  for (const [half, shown] of Object.entries(cases)) assert.equal(mendEnd(half), shown, half);
});

test("many signs without a formula take as many steps as there are signs", () => {
  for (const sign of ["$", "$$", "\\(", "\\[", "$x ", "\\(\\[", "$$ a\n", "[^", "[^1]:\n", "\\(`", "$a b c "]) {
    const count = (length) => {
      let steps = 0;
      const text = sign.repeat(length / sign.length);
      const original = String.prototype.slice;
      String.prototype.slice = function (...range) {
        steps++;
        return original.apply(this, range);
      };
      try {
        formulasIn(text);
      } finally {
        String.prototype.slice = original;
      }
      return steps;
    };
    assert.ok(count(8000) < 3 * count(4000) + 1000, sign);
  }
});
