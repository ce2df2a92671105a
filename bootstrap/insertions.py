"""A patch that only adds: new files, and lines behind certain lines of files that are known by their content's hash.

The patch is a unified diff without context lines, as `git diff -U0 --full-index` writes it, so git and patch(1) take it
too. Its `index` lines hold the git blob hash of every file before and after, which is all that is needed to tell a file
that can be patched from one that is patched and from one that is neither. A result is checked against its hash before
anything is written.
"""

from __future__ import annotations

import enum
import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

from bootstrap.faults import SetupFault

NO_FILE = "0" * 40
COMMIT = re.compile(r"^Pinned-Commit: ([0-9a-f]{40})$", re.MULTILINE)
FILE = re.compile(
    r"^diff --git a/(?P<path>\S+) b/(?P=path)\n(?:new file mode 100644\n)?"
    r"index (?P<before>[0-9a-f]{40})\.\.(?P<after>[0-9a-f]{40})(?: 100644)?\n"
    r"--- (?:a/(?P=path)|/dev/null)\n\+\+\+ b/(?P=path)\n(?P<hunks>(?:@@ .*\n(?:\+.*\n)+)+)",
    re.MULTILINE,
)
HUNK = re.compile(
    r"^@@ -(?P<after_line>\d+),0 \+(?P<first>\d+)(?:,(?P<count>\d+))? @@\n(?P<lines>(?:\+.*\n)+)", re.MULTILINE
)


class FileState(enum.Enum):
    """What a file of a checkout is to the patch."""

    UNPATCHED = "as the patch expects it"
    PATCHED = "patched"
    MISSING = "is missing"
    FOLDER = "is a folder"
    LINE_ENDS = "has Windows line ends"
    OTHER_VERSION = "holds another version of this patch, or one that was changed"
    DIFFERENT = "is not the file that the patch was made for"


@dataclass(frozen=True)
class Insertion:
    """`lines` (whole, with their ends) come behind line `after_line` of the original; as result, from line `first`."""

    after_line: int
    first: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True)
class FileChange:
    """What happens to one file; `before` and `after` are git blob hashes, `before` is NO_FILE for a new file."""

    path: str
    before: str
    after: str
    insertions: tuple[Insertion, ...]

    @property
    def is_new_file(self) -> bool:
        return self.before == NO_FILE

    def state_of(self, content: bytes | None, marks: tuple[bytes, ...] = ()) -> FileState:
        """What `content` (None: no such file) is; one of `marks` in it tells another version of the patch."""
        if content is None:
            return FileState.UNPATCHED if self.is_new_file else FileState.MISSING
        known = {self.before: FileState.UNPATCHED, self.after: FileState.PATCHED}
        state = known.get(blob_hash(content))
        if state is not None:
            return state
        if any(mark in content for mark in marks):
            return FileState.OTHER_VERSION
        return FileState.LINE_ENDS if blob_hash(content.replace(b"\r\n", b"\n")) in known else FileState.DIFFERENT

    def applied_to(self, original: bytes) -> bytes:
        """The patched content; raises SetupFault if the patch does not lead to the result it names."""
        lines = _lines(original)
        for insertion in reversed(self.insertions):
            lines[insertion.after_line : insertion.after_line] = insertion.lines
        return _checked(b"".join(lines), self.after, self.path)

    def removed_from(self, patched: bytes) -> bytes:
        """The original content of a file in state PATCHED that is no new file."""
        lines = _lines(patched)
        for insertion in reversed(self.insertions):
            del lines[insertion.first - 1 : insertion.first - 1 + len(insertion.lines)]
        return _checked(b"".join(lines), self.before, self.path)


@dataclass(frozen=True)
class InsertionPatch:
    """The whole patch: the commit it was made for, its changes (new files first), and the hash of its text."""

    commit: str
    changes: tuple[FileChange, ...]
    sha256: str


def read_patch(path: Path) -> InsertionPatch:
    """Read a patch; raises SetupFault when it is missing or anything but insertions."""
    try:
        content = path.read_bytes()
        text = content.decode()
    except (OSError, UnicodeDecodeError) as fault:
        raise _damaged(path.name, str(fault)) from fault
    commit = COMMIT.search(text)
    files = list(FILE.finditer(text))
    begin = files[0].start() if files else 0
    if commit is None or not files or text[begin:] != "".join(match[0] for match in files):
        raise _damaged(path.name, "it does more than to add lines")
    changes = [
        FileChange(match["path"], match["before"], match["after"], _insertions(match["hunks"], path.name))
        for match in files
    ]
    return InsertionPatch(
        commit=commit[1],
        changes=tuple(sorted(changes, key=lambda change: not change.is_new_file)),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def blob_hash(content: bytes) -> str:
    """git's name for a file's content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


def _insertions(hunks: str, name: str) -> tuple[Insertion, ...]:
    found: list[Insertion] = []
    added = 0
    matches = list(HUNK.finditer(hunks))
    if "".join(match[0] for match in matches) != hunks:
        raise _damaged(name, "a hunk holds more than new lines")
    for match in matches:
        lines = tuple(line[1:] for line in _lines(match["lines"].encode()))
        insertion = Insertion(int(match["after_line"]), int(match["first"]), lines)
        if len(lines) != int(match["count"] or 1) or insertion.first != insertion.after_line + added + 1:
            raise _damaged(name, f"the hunk behind line {insertion.after_line} does not count right")
        added += len(lines)
        found.append(insertion)
    return tuple(found)


def _lines(content: bytes) -> list[bytes]:
    # As git and patch(1) count them: nothing but a line feed ends a line.
    return io.BytesIO(content).readlines()


def _checked(content: bytes, wanted: str, path: str) -> bytes:
    if blob_hash(content) != wanted:
        raise _damaged(path, "its result is not what it names")
    return content


def _damaged(name: str, reason: str) -> SetupFault:
    return SetupFault(
        f"The patch cannot be used at {name}: {reason}.",
        advice="The project folder is incomplete or was changed: clone or unpack it again",
    )
