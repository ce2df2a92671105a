"""What the page's start document names, so that a browser asks for everything at once, and only once.

Modules name each other, and a browser that follows them has to fetch one to know the next. The files are all here, so
the start document is given the whole list (`modulepreload`). It names files under a path made of their content
(`/v-0123456789abcdef/app.js`); modules and style sheets name each other by relative paths and so stay under it. What
is under such a path never changes, so a browser keeps it without asking again.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from typing import Final

VERSION_HEX: Final = 16
VERSIONED: Final = re.compile(rf"/v-[0-9a-f]{{{VERSION_HEX}}}(?=/)")
"""The first part of a versioned path."""

_IMPORT: Final = re.compile(rb"""\b(?:from|import)\s*["'](\.{1,2}/[^"']+)["']""")
"""Names a static import by relative path; `import(...)` is fetched when it is needed."""
_REFERENCE: Final = re.compile(rb'(?<= )(href|src)="(/[^"]*)"')
_MODULE_SCRIPT: Final = re.compile(rb'( *)<script type="module"[^>]* src="(/[^"]*)"[^>]*></script>')


def version_prefix(bodies: Mapping[str, bytes]) -> str:
    """`/v-` and a hash of all paths and bodies: another one as soon as any file is another."""
    digest = hashlib.sha256()
    for path, body in sorted(bodies.items()):
        digest.update(b"%d %s %d " % (len(path), path.encode(), len(body)))
        digest.update(body)
    return f"/v-{digest.hexdigest()[:VERSION_HEX]}"


def imported_modules(entry: str, bodies: Mapping[str, bytes]) -> list[str]:
    """The entry and all modules that it imports, directly or not, each once, nearest first.

    A name that is no file is left out: whoever imports it fails in the browser, as it should.
    """
    found = {entry: None} if entry in bodies else {}
    waiting = list(found)
    for path in waiting:
        for name in _IMPORT.findall(bodies[path]):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), name.decode("utf-8", "replace")))
            if target in bodies and target not in found:
                found[target] = None
                waiting.append(target)
    return waiting


def linked(document: bytes, bodies: Mapping[str, bytes], prefix: str) -> bytes:
    """The start document with each module script followed by its imports' names, and versioned paths throughout.

    Args:
        document: HTML that names files by absolute paths.
        bodies: path to content of every file that may be named.
        prefix: of `version_prefix`.
    """
    named = {script[2].decode("utf-8", "replace") for script in _MODULE_SCRIPT.finditer(document)}

    def followed(script: re.Match[bytes]) -> bytes:
        modules = imported_modules(script[2].decode("utf-8", "replace"), bodies)
        new = [path for path in modules if path not in named]
        named.update(new)
        links = (b'\n%b<link rel="modulepreload" href="%b">' % (script[1], path.encode()) for path in new)
        return script[0] + b"".join(links)

    def versioned(match: re.Match[bytes]) -> bytes:
        name, path = match[1], match[2].decode("utf-8", "replace")
        return b'%b="%b"' % (name, (prefix + path).encode()) if path in bodies else match[0]

    return _REFERENCE.sub(versioned, _MODULE_SCRIPT.sub(followed, document))
