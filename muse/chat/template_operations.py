"""What chat templates may do with values, in forms whose results are bounded.

Jinja's own operators and filters make long texts, long lists and huge numbers out of short ones; these
here refuse to, or end when told to. They keep the origin of text (marked_text.py) wherever it can be kept.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.filters import do_title

from muse.chat.marked_text import MAX_PIECES, JsonText, MarkedText, TextLimitExceeded, join_marked, same_shape, scaffold

_MAX_NUMBER_BITS: Final = 4096
_MAX_INDENT: Final = 64

ARITHMETIC_SYMBOLS: Final = frozenset(("+", "-", "*", "/", "//", "**", "%"))


def marked(value: object) -> MarkedText:
    """Any value as text whose methods are bounded; without marks it is UNKNOWN text."""
    return value if isinstance(value, MarkedText) else MarkedText(str(value))


def with_bounded_methods(value: Any) -> Any:
    """Plain text as MarkedText, all else as it is. (`type is`: markupsafe's text keeps its own methods.)"""
    return MarkedText(value) if type(value) is str else value


def bounded_operands(symbol: str, left: Any, right: Any) -> tuple[Any, Any]:
    """The operands of one piece of arithmetic, if its result is bounded. Raises SecurityError and
    TextLimitExceeded."""
    if symbol == "%" and isinstance(left, str):
        raise SecurityError("% on text is not offered to chat templates: use ~ or +")
    if symbol == "+":
        _check_length(_items(left) + _items(right))
    elif symbol in ("*", "**"):
        _check_product(symbol, left, right)
    return with_bounded_methods(left), with_bounded_methods(right)


def _check_product(symbol: str, left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * right if symbol == "**" else left.bit_length() + right.bit_length()
        if bits > _MAX_NUMBER_BITS:
            raise SecurityError("numbers of this size are not offered to chat templates")
    elif isinstance(right, int):
        _check_length(_items(left) * right)
    elif isinstance(left, int):
        _check_length(_items(right) * left)


def _items(value: Any) -> int:
    return len(cast("list[object]", value)) if isinstance(value, list | tuple) else 0


def _check_length(items: int) -> None:
    if items > MAX_PIECES:
        raise TextLimitExceeded(f"a list of more than {MAX_PIECES} items")


# ---------------------------------------------------------------- filters, with the signatures of Jinja's


def replace(s: object, old: object, new: object, count: int | None = None) -> str:
    return marked(s).replace(str(old), str(new), -1 if count is None else count)


def title(value: object) -> str:
    text = marked(value)
    return same_shape(text, do_title(text))


def indent(s: object, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    if isinstance(width, int) and width > _MAX_INDENT:
        raise SecurityError(f"indent: at most {_MAX_INDENT} are offered to chat templates")
    margin = scaffold(" " * width) if isinstance(width, int) else width
    pieces: list[str] = []
    for index, line in enumerate((marked(s) + scaffold("\n")).splitlines()):
        indented = first if index == 0 else blank or bool(line)
        pieces += (scaffold("\n") if index else "", margin if indented else "", line)
    return join_marked(pieces)


def check_json_indent(indent: object) -> None:
    """Raises SecurityError for one that would swell the text."""
    size = len(indent) if isinstance(indent, str) else indent
    if isinstance(size, int) and size > _MAX_INDENT:
        raise SecurityError(f"tojson: indents of at most {_MAX_INDENT} are offered to chat templates")


# ---------------------------------------------------------------- functions


def raise_exception(message: object) -> None:
    """How templates refuse a conversation."""
    raise TemplateError(str(message))


def no_format(*_args: object, **_kwargs: object) -> str:
    """Stands for str.format, whose widths make long texts out of short ones."""
    raise SecurityError("str.format is not offered to chat templates: use ~ or +")


def walk(value: Any, tick: Callable[[], None]) -> bool:
    """Visit everything that writing the value out would visit, so that it can be stopped meanwhile. Returns whether
    there is JsonText in it."""
    tick()
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list | tuple):
        items = cast("Iterable[object]", value)
    found = [walk(item, tick) for item in items]
    return any(found) or isinstance(value, JsonText)


def to_json(value: object, **options: Any) -> str:
    """What `json.dumps` writes, with JsonText as it is."""
    texts: list[str] = []
    key = secrets.token_hex(8)

    def replaced(inner: object) -> object:
        if isinstance(inner, JsonText):
            texts.append(inner)
            return f"{key}-{len(texts) - 1}"
        if isinstance(inner, Mapping):
            return {name: replaced(item) for name, item in cast("Mapping[object, object]", inner).items()}
        if isinstance(inner, list | tuple):
            return [replaced(item) for item in cast("Iterable[object]", inner)]
        return inner

    written = json.dumps(replaced(value), **options)
    return re.sub(f'"{key}-([0-9]+)"', lambda found: texts[int(found[1])], written)
