"""Rules of the set-up's own files: what they may import, where they must start, what the locks hold."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from bootstrap.relock import blocks, without_pins

PROJECT = Path(__file__).parents[2]
SOURCES = sorted((PROJECT / "bootstrap").rglob("*.py"))
LOCKS = sorted((PROJECT / "bootstrap" / "locks").glob("*.txt"))
ADDRESS = re.compile(r"https?:|git\+|www\.|\b[\w-]+\.(?:org|com|io|net|dev)\b")


def name_of(path: Path) -> str:
    return str(path.relative_to(PROJECT))


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_source_starts_on_python_3_9(source: Path) -> None:
    """No newer syntax, and no annotation that an old interpreter would evaluate."""
    tree = ast.parse(source.read_text(), feature_version=(3, 9))

    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    has_code = any(not isinstance(node, ast.Expr) for node in tree.body)
    assert futures or not has_code
    assert not any(isinstance(node, ast.Match) for node in ast.walk(tree))


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_source_imports_only_the_standard_library(source: Path) -> None:
    """Set-up runs before anything is installed, and knows nothing of what it installs."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])

    assert imported <= {*sys.stdlib_module_names, "bootstrap"}
    assert "tomllib" not in imported


@pytest.mark.parametrize("lock", LOCKS, ids=name_of)
def test_lock_pins_and_hashes_every_package(lock: Path) -> None:
    """Each entry is one exact version with hashes, and nothing else is in the file."""
    text = lock.read_text()

    entries = blocks(text)

    assert entries
    assert "".join(entries) == text
    for entry in entries:
        assert re.match(
            r"^[a-z0-9-]+==[0-9][^ ]* (?:; [^\\]+)?\\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+$", entry
        ), entry


@pytest.mark.parametrize(
    "path",
    [*LOCKS, *sorted((PROJECT / "bootstrap").rglob("*.json")), PROJECT / "web_dist" / "package-lock.json"],
    ids=name_of,
)
def test_lock_names_no_address(path: Path) -> None:
    """Where packages come from is the user's own setting."""
    text = path.read_text()

    found = [
        line for line in text.splitlines() if ADDRESS.search(line) and '"funding"' not in line and '"url"' not in line
    ]

    assert found == []


def test_locks_do_not_overlap() -> None:
    """`test` is installed on top of `run`, so no package may be in both."""
    run, test = ((PROJECT / "bootstrap" / "locks" / f"{name}.txt").read_text() for name in ("run", "test"))

    assert {entry.partition("==")[0] for entry in blocks(run)}.isdisjoint(
        entry.partition("==")[0] for entry in blocks(test)
    )


def test_every_need_is_locked() -> None:
    """A lock is never older than the needs that it was made from."""
    for needs in (PROJECT / "bootstrap" / "locks").glob("*.in"):
        pinned = {entry.partition("==")[0]: entry for entry in blocks(needs.with_suffix(".txt").read_text())}
        for need in needs.read_text().split():
            name, _, version = need.partition("==")
            assert name in pinned
            assert not version or pinned[name].startswith(f"{need} ")


def test_npm_locks_hold_integrity_only() -> None:
    """Every npm package is fixed by its content's hash, not by an address."""
    for lock in (PROJECT / "web_dist" / "package-lock.json", *(PROJECT / "bootstrap").rglob("package-lock.json")):
        packages = json.loads(lock.read_bytes())["packages"]
        for name, package in packages.items():
            assert name == "" or package["integrity"].startswith("sha512-")
            assert "resolved" not in package


def test_relock_leaves_out_what_the_base_pins(tmp_path: Path) -> None:
    """The second lock keeps its own packages with all their hash lines."""
    anyio = "anyio==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    attrs = "attrs==1 \\\n    --hash=sha256:aa\n"
    zope = "zope==3 \\\n    --hash=sha256:dd\n"
    base = tmp_path / "run.txt"
    base.write_text(attrs)

    assert without_pins(anyio + attrs + zope, base) == anyio + zope
