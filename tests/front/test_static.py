"""Invariant: exactly the page's files are served, from memory, and nothing that a request says makes a path."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from actors.front.static import StaticFiles, load_static
from muse.errors import EnvironmentFault
from tests.front.harness import STATIC, Front, Reply, running


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A folder as web_dist is, with what must and must not be served."""
    files = {
        "index.html": "<!doctype html>",
        "app.js": "export {}",
        "style/main.css": "body {}",
        "vendor/temml/temml.mjs": "export {}",
        "vendor/fonts/a b.woff2": "font",
        "icon.svg": "<svg/>",
        "LICENSE.txt": "text",
        "package.json": "{}",
        "package-lock.json": "{}",
        "vendor.json": "{}",
        "notes.md": "#",
        "app.js.map": "{}",
        ".npmrc": "x",
        ".secret/key.txt": "x",
        "node_modules/preact/preact.js": "x",
        "noextension": "x",
    }
    for name, text in files.items():
        path = tmp_path / "page" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside.txt").write_text("secret")
    (tmp_path / "page" / "leak.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "page" / "folder.js").mkdir()
    return tmp_path / "page"


async def ask(front: Front, path: str, *extra: tuple[str, str]) -> Reply:
    async with await front.connect() as client:
        return await client.ask("GET", path, *extra)


def test_served_files_are_those_of_the_page(page: Path) -> None:
    """By extension; no manifests of npm, no hidden files, no links to the outside."""
    assert set(load_static(page).paths) == {
        "/",
        "/index.html",
        "/app.js",
        "/style/main.css",
        "/vendor/temml/temml.mjs",
        "/vendor/fonts/a b.woff2",
        "/icon.svg",
        "/LICENSE.txt",
    }


def test_content_types_are_those_browsers_insist_on(page: Path) -> None:
    """With nosniff, a script of another type is not run."""
    files = load_static(page)
    types = {path: (file.content_type if (file := files.find(path)) else None) for path in files.paths}
    assert types["/"] == types["/index.html"] == b"text/html; charset=utf-8"
    assert types["/app.js"] == types["/vendor/temml/temml.mjs"] == b"text/javascript; charset=utf-8"
    assert types["/style/main.css"] == b"text/css; charset=utf-8"
    assert types["/vendor/fonts/a b.woff2"] == b"font/woff2"
    assert types["/icon.svg"] == b"image/svg+xml"


def test_later_changes_of_the_folder_do_not_matter(page: Path) -> None:
    """What was read at start is served, and the table cannot be changed."""
    files = load_static(page)
    (page / "app.js").write_text("changed")
    (page / "new.js").write_text("new")
    file = files.find("/app.js")
    assert file is not None
    assert file.body == b"export {}"
    assert files.find("/new.js") is None
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        files._files = {}  # type: ignore[misc]


def test_missing_page_is_a_clear_fault(tmp_path: Path) -> None:
    """No folder, or no index.html in it."""
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(EnvironmentFault, match=r"index\.html is missing") as caught:
            load_static(folder)
        assert caught.value.code == "page_missing"


@pytest.mark.parametrize(
    "path",
    [
        "/../outside.txt",
        "/%2e%2e/outside.txt",
        "/..%2foutside.txt",
        "/..%5coutside.txt",
        "/....//outside.txt",
        "/app.js%00",
        "/app.js/",
        "/./app.js",
        "/APP.JS",
        "/app.js%20",
        "/app%252ejs",
        "/%C0%AE%C0%AE/outside.txt",
        "/etc/passwd",
        "/file:///etc/passwd",
        "/.npmrc",
        "/package.json",
        "/node_modules/preact/preact.js",
        "/app.js;x",
        "/style",
    ],
)
async def test_no_other_spelling_finds_a_file(path: str) -> None:
    """The table knows one spelling of each path."""
    async with running() as front:
        assert (await ask(front, path)).status == 404


async def test_file_is_sent_with_a_tag_and_not_again() -> None:
    """304 for whoever has it, in every form that If-None-Match has."""
    async with running() as front:
        first = await ask(front, "/app.js")
        assert first.body == b"export {}\n"
        assert first.header(b"etag") == b'"script"'
        assert first.header(b"content-length") == b"10"
        for tag in ('"script"', 'W/"script"', '"a", "script"', '"a",W/"script"', "*"):
            again = await ask(front, "/app.js", ("if-none-match", tag))
            assert (again.status, again.body) == (304, b"")
            assert again.header(b"etag") == b'"script"'
        for tag in ('"page"', "script", '"script', '""', ""):
            assert (await ask(front, "/app.js", ("if-none-match", tag))).status == 200


async def test_tag_changes_with_the_content(page: Path) -> None:
    """It is made of the content alone."""
    before = load_static(page)
    (page / "app.js").write_text("changed")
    after = load_static(page)

    def tag(files: StaticFiles, path: str) -> bytes | None:
        file = files.find(path)
        return file.etag if file else None

    assert tag(before, "/app.js") != tag(after, "/app.js")
    assert tag(before, "/style/main.css") == tag(after, "/style/main.css")
    assert (tag(after, "/app.js") or b"").startswith(b'"')


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_files_are_only_read(method: str) -> None:
    """405 that says what is allowed."""
    async with running() as front, await front.connect() as client:
        answer = await client.ask(method, "/app.js")
    assert answer.status == 405
    assert answer.header(b"allow") == b"GET, HEAD"


async def test_query_does_not_change_the_file() -> None:
    """A version in the query is common."""
    async with running() as front:
        assert (await ask(front, "/app.js?v=2")).body == b"export {}\n"
        file = STATIC.find("/")
        assert file is not None
        assert (await ask(front, "/?reply=1")).body == file.body
