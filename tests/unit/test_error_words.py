"""Errors are words for people: no `[Errno 2]`, and no exception as Python prints it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from muse.exhaustion import reason_of

ROOT = Path(__file__).resolve().parents[2]
BROAD = {"OSError", "Exception", "BaseException", "FileNotFoundError", "PermissionError", "ConnectionError"}
"""Exceptions whose text may begin with an error number, or say nothing to people."""
OWN_WORDS = {
    # Pillow's errors have words of their own, and no number.
    "muse/worker/pictures.py",
    # Lines of a log, which are for whoever looks for the cause.
    "muse/worker/guard.py",
    "muse/worker/engines/llamacpp/serve.py",
}


def names_in(node: ast.expr | None) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} if node is not None else set()


def is_log_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and names_in(node.func.value) == {"log"}


def bare_uses(node: ast.AST, name: str) -> Iterator[int]:
    """Lines in which the exception itself is written into a text, other than the log's."""
    if is_log_call(node):
        return
    if isinstance(node, ast.FormattedValue) and names_in(node.value) == {name} and isinstance(node.value, ast.Name):
        yield node.lineno
    is_str = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"
    if is_str and isinstance(node, ast.Call) and node.args and names_in(node.args[0]) == {name}:
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from bare_uses(child, name)


def offenders(source: str) -> list[int]:
    """Lines of a module that write a broad exception as it is."""
    handlers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)]
    broad = [handler for handler in handlers if handler.name and names_in(handler.type) & BROAD]
    return sorted({line for handler in broad for part in handler.body for line in bare_uses(part, str(handler.name))})


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "/models/x.gguf"), "No such file or directory"),
        (OSError("image file is truncated"), "image file is truncated"),
        (ValueError("it is empty"), "it is empty"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_an_exception_in_words(fault: Exception, words: str) -> None:
    """Without its number, its class and its path, where it has words of its own."""
    assert reason_of(fault) == words


def test_no_error_says_an_exception_as_python_prints_it() -> None:
    """Wherever the system's errors, or any, are caught: `reason_of` is what makes words of them."""
    found = {
        str(path.relative_to(ROOT)): lines
        for folder in ("actors", "muse")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (lines := offenders(path.read_text("utf-8")))
    }
    assert {path: lines for path, lines in found.items() if path not in OWN_WORDS} == {}
    assert set(found) == OWN_WORDS


def test_the_search_finds_what_it_is_for() -> None:
    """In an f-string and by str(), and not in a line of the log."""
    source = """
try:
    pass
except (OSError, ValueError) as fault:
    log.warning("it failed: %s", str(fault))
    raise Error(f"cannot read: {fault}")
except Exception as other:
    raise Error(str(other))
except KeyError as mine:
    raise Error(f"{mine}")
"""
    assert offenders(source) == [6, 8]
