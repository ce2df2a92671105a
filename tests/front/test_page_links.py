"""Invariant: the start document names every module of the page and none that is not there, each under a path that
changes with the page's content."""

from __future__ import annotations

import re
from pathlib import Path

from actors.front.page_links import VERSIONED, imported_modules, linked, version_prefix
from actors.front.security import SECURITY_HEADERS
from actors.front.static import StaticFile, StaticFiles, load_static
from tests.front.harness import running

PREFIX = "/v-0123456789abcdef"
MODULES = {
    "/app.js": b'import { a } from "./parts/a.js";\nimport "./parts/b.js";\nimport { gone } from "./gone.js";\n',
    "/parts/a.js": b'// a\nexport {\n  b,\n  c,\n} from "./b.js";\nconst later = () => import("./later.js");',
    "/parts/b.js": b'import{h}from"../vendor/h.js";import"../app.js";import x from \'./a.js\'',
    "/parts/later.js": b"export {}",
    "/vendor/h.js": b'import{x}from"bare";export{x}',
    "/early.js": b'import { h } from "./vendor/h.js";',
}


def test_modules_are_found_however_they_are_imported() -> None:
    """Over lines, minified, in circles; not those that are imported when needed, and none that is no file."""
    assert imported_modules("/app.js", MODULES) == ["/app.js", "/parts/a.js", "/parts/b.js", "/vendor/h.js"]
    assert imported_modules("/gone.js", MODULES) == []


def test_document_names_the_imports_behind_each_script() -> None:
    """Once each, not its own scripts again; nothing else of it is touched."""
    document = (
        b'<link rel="icon" href="/early.js">\n  <a href="/elsewhere" data-src="/app.js">/app.js</a>\n'
        b'  <script type="module" async src="/early.js"></script>\n  <script type="module" src="/app.js"></script>\n'
    )
    lines = linked(document, MODULES, PREFIX).decode().splitlines()
    assert lines == [
        f'<link rel="icon" href="{PREFIX}/early.js">',
        '  <a href="/elsewhere" data-src="/app.js">/app.js</a>',
        f'  <script type="module" async src="{PREFIX}/early.js"></script>',
        f'  <link rel="modulepreload" href="{PREFIX}/vendor/h.js">',
        f'  <script type="module" src="{PREFIX}/app.js"></script>',
        f'  <link rel="modulepreload" href="{PREFIX}/parts/a.js">',
        f'  <link rel="modulepreload" href="{PREFIX}/parts/b.js">',
    ]
    assert linked(b"<!doctype html>", MODULES, PREFIX) == b"<!doctype html>"


def test_version_is_made_of_names_and_contents() -> None:
    """Every change makes another one, also one that only moves a border between two files."""
    versions = {
        version_prefix(bodies)
        for bodies in (
            {"/a": b"1", "/b": b"2"},
            {"/a": b"1", "/b": b"3"},
            {"/a": b"1", "/c": b"2"},
            {"/a": b"1"},
            {"/a": b"", "/b": b"12"},
            {"/a": b"12", "/b": b""},
        )
    }
    assert len(versions) == 6
    assert version_prefix({"/b": b"2", "/a": b"1"}) == version_prefix({"/a": b"1", "/b": b"2"})
    assert all(VERSIONED.fullmatch(version + "/app.js") is None for version in versions)
    assert all(VERSIONED.match(version + "/app.js") for version in versions)


def make_page(folder: Path) -> Path:
    (folder / "index.html").write_text('<script type="module" src="/app.js"></script>')
    (folder / "app.js").write_text('import "./part.js";')
    (folder / "part.js").write_text("export {}")
    return folder


def named(files: StaticFiles) -> list[str]:
    start = files.find("/")
    assert start is not None
    return re.findall(r'(?:href|src)="([^"]*)"', start.body.decode())


def found(files: StaticFiles, path: str) -> StaticFile:
    file = files.find(path)
    assert file is not None
    return file


def test_what_the_document_names_is_kept_for_good_and_the_document_is_not(tmp_path: Path) -> None:
    """So a reload asks for the document alone."""
    files = load_static(make_page(tmp_path))
    assert len(named(files)) == 2
    for path in named(files):
        assert VERSIONED.match(path)
        assert path in files.kept_paths
        assert found(files, path).cache_control == b"max-age=31536000, immutable"
    for path in files.paths:
        assert found(files, path).cache_control == b"no-cache"
    assert not any(path.endswith((".html", "/")) for path in files.kept_paths)


def test_a_page_of_before_an_update_gets_what_it_needs_later(tmp_path: Path) -> None:
    """Under a version of the past there is today's file, which a browser may not keep; no document, no other name."""
    before = load_static(make_page(tmp_path))
    (tmp_path / "part.js").write_text("export const changed = true;")
    after = load_static(tmp_path)
    assert not set(named(before)) & set(named(after))
    [old] = [path for path in named(before) if path.endswith("/part.js")]
    assert found(after, old) == found(after, "/part.js")
    assert found(after, old).cache_control == b"no-cache"
    prefix = old.removesuffix("/part.js")
    for path in (prefix, prefix + "/", prefix + "/index.html", prefix + "/gone.js", prefix + "//part.js"):
        assert after.find(path) is None
    assert after.find("/v-123/part.js") is None
    assert after.find(prefix + prefix + "/part.js") is None


async def test_kept_files_carry_the_headers_of_all_answers(tmp_path: Path) -> None:
    """Over HTTP: security headers, tag and type as ever, and how long it may be kept."""
    files = load_static(make_page(tmp_path))
    path = next(path for path in named(files) if path.endswith("/part.js"))
    async with running(static=files) as front, await front.connect() as client:
        whole = await client.ask("GET", path)
        again = await client.ask("GET", path, ("if-none-match", (whole.header(b"etag") or b"").decode()))
        document = await client.ask("GET", "/")
    assert (whole.status, whole.body) == (200, b"export {}")
    assert whole.header(b"content-type") == b"text/javascript; charset=utf-8"
    assert (again.status, again.body) == (304, b"")
    for answer in (whole, again):
        assert answer.header(b"cache-control") == b"max-age=31536000, immutable"
        assert all(answer.header(name) == value for name, value in SECURITY_HEADERS)
    assert document.header(b"cache-control") == b"no-cache"
