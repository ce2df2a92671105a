"""The tags of ATEM (atem.py), and what comes between them, as tokens."""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs

from muse.chat.tag_reader import Tag

BLOCK_END: Final = "</atem:function_calls>"

# Behind its name a tag ends at `>`, or before a line end or another tag. Longer than this (a name has 64
# characters) it is none: what is held back and scanned again has a bound.
TAG: Final = re.compile(
    r"</atem:(?P<end>function_calls|invoke|parameter)>"
    r"|<atem:(?P<block>function_calls)>"
    r"|<atem:(?P<open>invoke|parameter)(?=[\s>])"
    r"(?:(?P<attributes>[^<>\n]{0,299}+)(?P<close>>|(?=[<\n]))|[^<>\n]{300})"
)
_UNFINISHED: Final = re.compile(r"<atem:(?:invoke|parameter)(?:\s[^<>\n]{0,298})?")
_LITERALS: Final = (
    BLOCK_END,
    "</atem:invoke>",
    "</atem:parameter>",
    "<atem:function_calls>",
    "<atem:invoke",
    "<atem:parameter",
)
_NAME: Final = re.compile(r' name="([^"]*)"')
# Seen from the model: a control token in the place of the end of the tag, or in the middle of it.
_UNCLOSED_NAME: Final = re.compile(r' name="([^"]*)"?[ \t]*')
# What a malformed tag may mean.
_MEANT: Final = re.compile(r"""\sname\s*=\s*["']?([A-Za-z0-9_.-]+)""")

Kind = Literal["text", "block", "/block", "invoke", "/invoke", "parameter", "/parameter"]
_ENDS: Final[dict[str, Kind]] = {"function_calls": "/block", "invoke": "/invoke", "parameter": "/parameter"}


@attrs.frozen
class Token:
    """A tag, or text between tags. name: of a tag that opens a call or a parameter, as far as it can be told."""

    kind: Kind
    raw: str
    name: str = ""
    is_malformed: bool = False

    @property
    def is_space(self) -> bool:
        """White space, which may stand between tags."""
        return self.kind == "text" and self.raw.isspace()


def token_of(tag: Tag) -> Token:
    """A match of TAG."""
    found, raw = tag.match, tag.raw
    if found["end"]:
        return Token(_ENDS[found["end"]], raw)
    if found["block"]:
        return Token("block", raw)
    attributes = found["attributes"] or ""
    if found["open"] == "parameter":
        kind: Kind = "parameter"
        name = _NAME.fullmatch(attributes) if found["close"] else None
    else:
        kind = "invoke"
        name = _UNCLOSED_NAME.fullmatch(attributes)
    if name is None:
        meant = _MEANT.search(attributes)
        return Token(kind, raw, meant[1] if meant else "", is_malformed=True)
    return Token(kind, raw, name[1])


def is_tag_surely(text: str) -> bool:
    """Whether the beginning of a tag is so long that it is nothing else."""
    return text.startswith("<atem")


def may_become_tag(text: str) -> bool:
    """Whether text from a `<` on may be the beginning of a match of TAG."""
    return any(literal.startswith(text) for literal in _LITERALS) or _UNFINISHED.fullmatch(text) is not None
