"""A checkout that only looks like ExecuTorch's: files of numbered lines, and the real patch with their hashes in it."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bootstrap.console import Console
from bootstrap.layout import PROJECT, Layout
from bootstrap.native import PATCH, NativeOptions, run

NO_FILE = "0" * 40
# More lines than the patch counts in any file.
LINES = 900


@dataclass(frozen=True)
class MadeUpSource:
    """`originals` are the files before, `results` (with the new files) after; `insertions` is path to line to text."""

    root: Path
    layout: Layout
    commit: str
    originals: dict[str, bytes]
    results: dict[str, bytes]
    insertions: dict[str, dict[int, bytes]]

    def native(self, *, undo: bool = False) -> str:
        """Run the command and return what it prints; raises what it raises."""
        screen = io.StringIO()
        assert run(NativeOptions(self.root, undo), self.layout, Console(screen)) == 0
        return screen.getvalue()

    def files(self) -> dict[str, bytes]:
        """Everything in the checkout but git's own."""
        found = (path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def put(self, path: str, content: bytes) -> None:
        (self.root / path).write_bytes(content)


def make(folder: Path, *, with_git: bool = False) -> MadeUpSource:
    """Lay the checkout, and a project whose patch is for it."""
    text = (PROJECT / PATCH).read_text()
    insertions = _insertions(text)
    new_files = {path: lines[0] for path, lines in insertions.items() if 0 in lines}
    originals = {path: _original(path) for path in insertions if path not in new_files}
    results = {**new_files, **{path: _result(content, insertions[path]) for path, content in originals.items()}}
    root = folder / "executorch"
    for path, content in originals.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    commit = "1" * 40
    if with_git:
        git(root, "init", "--quiet")
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", "made up")
        commit = git(root, "rev-parse", "HEAD").strip()
    layout = Layout(project=folder / "project", home=folder / "home")
    (layout.project / PATCH).parent.mkdir(parents=True)
    (layout.project / PATCH).write_text(_rewritten(text, commit, originals, results))
    return MadeUpSource(root, layout, commit, originals, results, insertions)


def git(folder: Path, *arguments: str) -> str:
    """Run git without the user's own settings."""
    identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false"]
    asked = subprocess.run(["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True)
    return asked.stdout


def blob(content: bytes) -> str:
    """git's hash of a file's content."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


def _insertions(text: str) -> dict[str, dict[int, bytes]]:
    found: dict[str, dict[int, bytes]] = {}
    path, line = "", 0
    for row in text[text.index("diff --git ") :].splitlines(keepends=True):
        if row.startswith("+++ b/"):
            path = row.removeprefix("+++ b/").strip()
            found[path] = {}
        elif row.startswith("@@ -"):
            line = int(row[4:].partition(",")[0])
            found[path][line] = b""
        elif row.startswith("+"):
            found[path][line] += row[1:].encode()
    return found


def _original(path: str) -> bytes:
    return "".join(f"{path}, line {number}\n" for number in range(1, LINES + 1)).encode()


def _result(original: bytes, inserted: dict[int, bytes]) -> bytes:
    whole = b""
    for number, line in enumerate(original.splitlines(keepends=True), start=1):
        whole += line + inserted.get(number, b"")
    return whole


def _rewritten(text: str, commit: str, originals: dict[str, bytes], results: dict[str, bytes]) -> str:
    text = re.sub(r"^Pinned-Commit: \w+$", f"Pinned-Commit: {commit}", text, flags=re.MULTILINE)
    for path, content in results.items():
        before = blob(originals[path]) if path in originals else NO_FILE
        text, count = re.subn(
            rf"(^diff --git a/{re.escape(path)} .*\n(?:new .*\n)?index )\w+\.\.\w+",
            rf"\g<1>{before}..{blob(content)}",
            text,
            flags=re.MULTILINE,
        )
        assert count == 1
    return text
