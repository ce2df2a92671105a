"""Copying the page's third-party files: specifiers, source maps, folders, and what vendor.json can get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.faults import SetupFault
from bootstrap.vendor import VendorList, copy_all, read_list, rewrite_imports

KNOWN = {"preact": "preact.js", "preact/hooks": "preact-hooks.js", "@preact/signals-core": "deep/core.js"}


@pytest.mark.parametrize(
    ("source", "to", "expected"),
    [
        ('import{h}from"preact";', "a.js", 'import{h}from"./preact.js";'),
        ("import { h as x } from 'preact' ;", "a.js", "import { h as x } from './preact.js' ;"),
        ('import{h}from"preact";', "deep/a.js", 'import{h}from"../preact.js";'),
        ('import"@preact/signals-core"', "deep/a.js", 'import"./core.js"'),
        ('import "@preact/signals-core"', "a.js", 'import "./deep/core.js"'),
        ('export*from"preact/hooks";', "a.js", 'export*from"./preact-hooks.js";'),
        ('const x=await import( "preact" )', "a.js", 'const x=await import( "./preact.js" )'),
        ('import{h}from"./near.js"', "a.js", 'import{h}from"./near.js"'),
        ('keyword:"import from","preact"', "a.js", 'keyword:"import from","preact"'),
        ("text='take it from \"nowhere\" today'", "a.js", "text='take it from \"nowhere\" today'"),
    ],
)
def test_specifiers_become_relative_paths(source: str, to: str, expected: str) -> None:
    """Every form of a static or literal dynamic import is rewritten, text that only looks like one is not."""
    assert rewrite_imports(source, to, KNOWN) == expected


@pytest.mark.parametrize(
    "source",
    [
        'import{h}from"unknown";',
        'import "unknown"',
        'var a=1;export{b}from"@scope/unknown";',
        "}import * as all from 'unknown/deep';",
    ],
)
def test_unknown_specifiers_are_a_fault(source: str) -> None:
    """A name that no browser can find is found at set-up, not by the user."""
    with pytest.raises(SetupFault, match="unknown"):
        rewrite_imports(source, "a.js", KNOWN)


def test_files_and_folders_are_copied(tmp_path: Path) -> None:
    """Files go where listed, a folder brings its own files of the served kinds, source map comments go."""
    package = tmp_path / "node_modules" / "tiny"
    for name, text in {
        "a.mjs": "export const a = 1;\n//# sourceMappingURL=a.mjs.map\n",
        "styles/x.css": "a{}\n/*# sourceMappingURL=x.css.map */\n",
        "styles/y.woff2": "font",
        "styles/readme.md": "no",
        "styles/deeper/z.css": "no",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    wanted = VendorList(files=(("tiny/a.mjs", "sub/a.js"), ("tiny/styles/", "css/")), specifiers={})

    sizes = copy_all(wanted, tmp_path / "node_modules", tmp_path / "out")

    assert sorted(sizes) == ["css/x.css", "css/y.woff2", "sub/a.js"]
    assert (tmp_path / "out/sub/a.js").read_text() == "export const a = 1;\n"
    assert (tmp_path / "out/css/x.css").read_text() == "a{}\n"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A list that does not fit the installed packages says which file is missing."""
    wanted = VendorList(files=(("tiny/gone.js", "gone.js"),), specifiers={})

    with pytest.raises(SetupFault, match=r"tiny/gone\.js"):
        copy_all(wanted, tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        '{"files": [{"from": "a"}]}',
        '{"files": [{"from": "a", "to": 5}]}',
        '{"files": [{"from": "../a", "to": "a"}]}',
        '{"files": [{"from": "a", "to": "/a"}]}',
        '{"files": [{"from": "a", "to": "b/../../a"}]}',
        '{"files": [{"from": "a", "to": ""}]}',
        '{"files": [], "specifiers": {"x": "../x.js"}}',
    ],
)
def test_broken_lists_are_refused(tmp_path: Path, content: str) -> None:
    """A list that is no list, or leads outside its folders, is a fault that names the file."""
    path = tmp_path / "vendor.json"
    path.write_text(content)

    with pytest.raises(SetupFault, match=r"vendor\.json"):
        read_list(path)


def test_the_page_s_own_list_is_sound() -> None:
    """The list that the project ships can be read, and names no target twice."""
    path = Path(__file__).parents[2] / "web_dist" / "vendor.json"

    wanted = read_list(path)

    targets = [to for _, to in wanted.files]
    assert len(set(targets)) == len(targets)
    assert set(wanted.specifiers.values()) <= set(targets)
