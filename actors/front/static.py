"""The page's files, read once at start and served from memory.

The table from path to file is made by walking the folder; a request only looks a path up in it, so no request
can name a file that is not part of the page. Changed files are seen at the next start.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

from actors.front.answers import Answer, Header
from muse.errors import EnvironmentFault

CONTENT_TYPES: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        ".html": b"text/html; charset=utf-8",
        ".js": b"text/javascript; charset=utf-8",
        ".mjs": b"text/javascript; charset=utf-8",
        ".css": b"text/css; charset=utf-8",
        ".svg": b"image/svg+xml",
        ".png": b"image/png",
        ".webp": b"image/webp",
        ".woff2": b"font/woff2",
        ".webmanifest": b"application/manifest+json",
        ".ico": b"image/x-icon",
        ".txt": b"text/plain; charset=utf-8",
    }
)
"""Served extensions. package.json and vendor.json are not among them."""
HIDDEN_FOLDERS: Final = frozenset({"node_modules", "__pycache__"})


@attrs.frozen
class StaticFile:
    """One file of the page, ready to send."""

    content_type: bytes
    etag: bytes
    body: bytes = attrs.field(repr=False)

    def answer(self, if_none_match: list[bytes]) -> Answer:
        """200 with the file, or 304 if the client has it. Browsers ask again each time (`no-cache`)."""
        shared: tuple[Header, ...] = ((b"etag", self.etag), (b"cache-control", b"no-cache"))
        if any(_names(value, self.etag) for value in if_none_match):
            return Answer(304, shared, b"")
        length = b"%d" % len(self.body)
        headers = ((b"content-type", self.content_type), (b"content-length", length), *shared)
        return Answer(200, headers, self.body)


@attrs.frozen
class StaticFiles:
    """Path (`/app.js`) to file; `/` is index.html. Immutable."""

    _files: Mapping[str, StaticFile]

    def find(self, path: str) -> StaticFile | None:
        return self._files.get(path)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self._files)


def load_static(folder: Path) -> StaticFiles:
    """Read the page. Raises EnvironmentFault (`page_missing`) if there is no readable index.html."""
    files: dict[str, StaticFile] = {}
    try:
        for path, name in _served(folder):
            body = path.read_bytes()
            etag = b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'
            files[name] = StaticFile(CONTENT_TYPES[path.suffix.lower()], etag, body)
    except OSError as error:
        raise EnvironmentFault(
            "page_missing", f"The page cannot be read: {error.filename}: {error.strerror}."
        ) from error
    if "/index.html" not in files:
        raise EnvironmentFault("page_missing", f"There is no page at {folder}: index.html is missing.")
    files["/"] = files["/index.html"]
    return StaticFiles(MappingProxyType(files))


def _served(folder: Path) -> Iterator[tuple[Path, str]]:
    inside = folder.resolve()
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") or part in HIDDEN_FOLDERS for part in parts):
            continue
        # A link that leads out of the folder is not part of the page.
        if path.suffix.lower() in CONTENT_TYPES and path.is_file() and path.resolve().is_relative_to(inside):
            yield path, "/" + "/".join(parts)


def _names(if_none_match: bytes, etag: bytes) -> bool:
    # RFC 9110 section 13.1.2: weak comparison.
    tags = [tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b",")]
    return etag in tags or b"*" in tags
