"""Copies the third-party files that `web_dist/vendor.json` lists from node_modules to where the page is served from.

Browsers do not know package names, and the page's security policy allows no import map. So import specifiers named in
`specifiers` are rewritten to relative paths; source map comments go (the maps are not served). A bare specifier that
is left over would break the page in the browser, so it is a fault here.

vendor.json: {"files": [{"from": <path in node_modules>, "to": <path in vendor>}...], "specifiers": {name: "./path"}};
a `from` that ends in / means the folder's own .js, .mjs, .css and .woff2 files (no deeper), `to` is then a folder.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bootstrap.faults import SetupFault

FOLDER_SUFFIXES = (".js", ".mjs", ".css", ".woff2")
SCRIPT_SUFFIXES = (".js", ".mjs")
# Goes into the stamp: a change of what this module does to a file makes every vendor folder anew.
FORMAT = "1"

# `from "x"`, `import "x"` and `import("x")`; what stands before `from` is not looked at, since minified code may
# hold anything there.
SPECIFIER = re.compile(r"""(?P<head>\bfrom\s*|\bimport\s*(?:\(\s*)?)(?P<quote>["'])(?P<name>[^"'\n]+)(?P=quote)""")
# A whole import or export statement with a package name; stricter, so that text inside strings is not taken for one.
STATEMENT = re.compile(
    r"""(?:^|[;}])\s*(?:import|export)\b(?:[\s\w$*{},]*?\bfrom)?\s*["'](?P<name>[@a-zA-Z][\w@/.-]*)["']""", re.MULTILINE
)
SOURCE_MAP = re.compile(r"(?://[#@]\s*sourceMappingURL=.*|/\*[#@]\s*sourceMappingURL=.*?\*/)[ \t]*$\n?", re.MULTILINE)


@dataclass(frozen=True)
class VendorList:
    """The content of vendor.json, checked: pairs of (path in node_modules, path in vendor), and the specifiers."""

    files: tuple[tuple[str, str], ...]
    specifiers: dict[str, str]


def read_list(path: Path) -> VendorList:
    """Read vendor.json; raises SetupFault naming what is wrong in it."""
    try:
        content: Any = json.loads(path.read_bytes())
        files = tuple((_inside(item["from"]), _inside(item["to"])) for item in content["files"])
        specifiers = {str(name): _inside(target) for name, target in content.get("specifiers", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise SetupFault(
            f"{path} cannot be used ({type(fault).__name__}: {fault}).",
            advice="The project folder is incomplete or was changed: clone or unpack it again",
        ) from fault
    return VendorList(files=files, specifiers=specifiers)


def copy_all(wanted: VendorList, node_modules: Path, target: Path) -> dict[str, int]:
    """Fill the folder `target` (which must not exist); returns the path below it and the size of each file."""
    sizes: dict[str, int] = {}
    for source, to in _expanded(wanted, node_modules):
        written = target / to
        written.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, written)
        if written.suffix in (*SCRIPT_SUFFIXES, ".css"):
            text = SOURCE_MAP.sub("", written.read_text(encoding="utf-8"))
            if written.suffix in SCRIPT_SUFFIXES:
                text = rewrite_imports(text, to, wanted.specifiers)
            written.write_text(text, encoding="utf-8")
        sizes[to] = written.stat().st_size
    return sizes


def rewrite_imports(text: str, to: str, specifiers: dict[str, str]) -> str:
    """Replace package names in the imports of the script that will lie at `to`; raises SetupFault on unknown ones."""

    def relative(match: re.Match[str]) -> str:
        target = specifiers.get(match["name"])
        if target is None:
            return match[0]
        path = posixpath.relpath(target, posixpath.dirname(to) or ".")
        path = path if path.startswith(".") else f"./{path}"
        return f"{match['head']}{match['quote']}{path}{match['quote']}"

    text = SPECIFIER.sub(relative, text)
    left = STATEMENT.search(text)
    if left:
        raise SetupFault(
            f"{to} imports {left['name']!r}, which no browser can find.",
            advice="Add that name to `specifiers` in web_dist/vendor.json",
        )
    return text


def _expanded(wanted: VendorList, node_modules: Path) -> Iterator[tuple[Path, str]]:
    for start, to in wanted.files:
        source = node_modules / start
        if not start.endswith("/"):
            found = [(source, to)] if source.is_file() else []
        else:
            names = sorted(path.name for path in source.iterdir()) if source.is_dir() else []
            found = [(source / name, posixpath.join(to, name)) for name in names if name.endswith(FOLDER_SUFFIXES)]
        if not found:
            raise SetupFault(
                f"The npm packages hold no {start}, which web_dist/vendor.json lists.",
                advice="vendor.json and package-lock.json in web_dist do not fit together: clone the project again",
            )
        yield from found


def _inside(path: object) -> str:
    """A relative path that stays inside its folder, without a leading ./; raises ValueError."""
    if not isinstance(path, str) or not path:
        raise ValueError(f"no path: {path!r}")
    clean = posixpath.normpath(path)
    if path.startswith("/") or clean in (".", "..") or clean.startswith("../") or "\\" in path:
        raise ValueError(f"path leads outside: {path!r}")
    return clean + ("/" if path.endswith("/") else "")
