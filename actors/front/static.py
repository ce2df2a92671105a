"""The page's files, read once at start and served from memory.

The table from path to file is made by walking the folder; a request only looks a path up in it, so no request
can name a file that is not part of the page. Changed files are seen at the next start.

Every file but the documents is there under two paths: its own, for which browsers ask again each time, and the one that
carries a hash of the page's files (`page_links`), which browsers keep. The start document names the second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

from actors.front.answers import Answer, Header
from actors.front.page_links import VERSIONED, linked, version_prefix
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
ASK_AGAIN: Final = b"no-cache"
KEEP: Final = b"max-age=31536000, immutable"
"""A year, and no question at a reload either (RFC 8246 section 2)."""


@attrs.frozen
class StaticFile:
    """One file of the page, ready to send."""

    content_type: bytes
    etag: bytes
    body: bytes = attrs.field(repr=False)
    cache_control: bytes = ASK_AGAIN

    def answer(self, if_none_match: list[bytes]) -> Answer:
        """200 with the file, or 304 if the client has it."""
        shared: tuple[Header, ...] = ((b"etag", self.etag), (b"cache-control", self.cache_control))
        if any(_names(value, self.etag) for value in if_none_match):
            return Answer(304, shared, b"")
        length = b"%d" % len(self.body)
        headers = ((b"content-type", self.content_type), (b"content-length", length), *shared)
        return Answer(200, headers, self.body)


@attrs.frozen
class StaticFiles:
    """Path (`/app.js`) to file; `/` is index.html. `kept` is the same for versioned paths. Immutable."""

    _files: Mapping[str, StaticFile]
    _kept: Mapping[str, StaticFile] = MappingProxyType({})

    def find(self, path: str) -> StaticFile | None:
        return self._files.get(path) or self._kept.get(path) or self._of_another_version(path)

    @property
    def paths(self) -> tuple[str, ...]:
        """Those without a version."""
        return tuple(self._files)

    @property
    def kept_paths(self) -> tuple[str, ...]:
        """Those with one."""
        return tuple(self._kept)

    def _of_another_version(self, path: str) -> StaticFile | None:
        # A page that was opened before an update still fetches what it needs later: today's file, not to be kept.
        match = VERSIONED.match(path)
        file = self._files.get(path[match.end() :]) if match else None
        return None if file is None or _is_document(file) else file


def load_static(folder: Path) -> StaticFiles:
    """Read the page. Raises EnvironmentFault (`page_missing`) if there is no readable index.html."""
    files: dict[str, StaticFile] = {}
    try:
        for path, name in _served(folder):
            files[name] = _file(CONTENT_TYPES[path.suffix.lower()], path.read_bytes())
    except OSError as error:
        raise EnvironmentFault(
            "page_missing", f"The page cannot be read: {error.filename}: {error.strerror}."
        ) from error
    start = files.get("/index.html")
    if start is None:
        raise EnvironmentFault("page_missing", f"There is no page at {folder}: index.html is missing.")
    bodies = {path: file.body for path, file in files.items() if not _is_document(file)}
    prefix = version_prefix(bodies)
    files["/"] = files["/index.html"] = _file(start.content_type, linked(start.body, bodies, prefix))
    kept = {prefix + path: attrs.evolve(files[path], cache_control=KEEP) for path in bodies}
    return StaticFiles(MappingProxyType(files), MappingProxyType(kept))


def _file(content_type: bytes, body: bytes) -> StaticFile:
    return StaticFile(content_type, b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"', body)


def _is_document(file: StaticFile) -> bool:
    return file.content_type == CONTENT_TYPES[".html"]


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
