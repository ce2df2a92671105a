"""The patch as text, read without the set-up's own parser: it only adds, and its page tells the truth about it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import attrs

from bootstrap.layout import PROJECT

PATCH = (PROJECT / "patches" / "executorch-muse-cancel.patch").read_text()
PAGE = (PROJECT / "patches" / "README.md").read_text()
HEAD, _, BODY = PATCH.partition("diff --git ")
NO_FILE = "0" * 40
# The style of the source that it is for.
COLUMNS = 80


@attrs.frozen
class Hunk:
    path: str
    behind: int
    at: int
    lines: tuple[str, ...]


def hunks() -> Iterator[Hunk]:
    """Every hunk, by its own header's count."""
    path = ""
    lines = iter(("diff --git " + BODY).splitlines())
    for line in lines:
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        if line.startswith("@@ "):
            found = re.fullmatch(r"@@ -(\d+),0 \+(\d+)(?:,(\d+))? @@", line)
            assert found, line
            yield Hunk(path, int(found[1]), int(found[2]), tuple(next(lines) for _ in range(int(found[3] or 1))))


def blobs() -> dict[str, tuple[str, str]]:
    """Path to blob hashes before and after."""
    found = re.findall(
        r"^diff --git a/(\S+) b/\1\n(?:new file mode 100644\n)?index (\w{40})\.\.(\w{40})(?: 100644)?$",
        PATCH,
        re.MULTILINE,
    )
    return {path: (before, after) for path, before, after in found}


def test_patch_holds_nothing_but_added_lines() -> None:
    """No context, no removed line, and no text of the patched file behind a hunk's header."""
    other = [
        line
        for line in ("diff --git " + BODY).splitlines()
        if not line.startswith(("+", "@@ ", "diff --git ", "index ", "new file mode 100644", "--- "))
    ]

    assert other == []
    assert all(line.startswith("+") for hunk in hunks() for line in hunk.lines)
    assert len(re.findall(r"^--- ", PATCH, re.MULTILINE)) == len(blobs())
    assert len(re.findall(r"^\+(?!\+\+ b/)", PATCH, re.MULTILINE)) == sum(len(hunk.lines) for hunk in hunks())


def test_hunks_are_in_order_and_count_right() -> None:
    """Each hunk's place in the result is its place in the original plus what was added above it."""
    added: dict[str, int] = {}
    last: dict[str, int] = {}
    for hunk in hunks():
        assert hunk.behind > last.get(hunk.path, -1)
        assert hunk.at == hunk.behind + added.get(hunk.path, 0) + 1
        last[hunk.path] = hunk.behind
        added[hunk.path] = added.get(hunk.path, 0) + len(hunk.lines)

    assert set(added) == set(blobs())


def test_new_files_are_the_blobs_they_say() -> None:
    """A header's content is in the patch as a whole."""
    new = {hunk.path: hunk for hunk in hunks() if hunk.behind == 0}

    for path, hunk in new.items():
        content = "".join(f"{line[1:]}\n" for line in hunk.lines).encode()
        digest = hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()
        assert blobs()[path] == (NO_FILE, digest)
        assert content.startswith(b"// Added by the Muse Glimmer Playground")
    assert {path for path, (before, _) in blobs().items() if before == NO_FILE} == set(new)


def test_lines_fit_the_source() -> None:
    """ASCII without tabs or blanks at the end, within the source's columns; head within ours."""
    assert PATCH.isascii()
    for hunk in hunks():
        for line in hunk.lines:
            assert len(line[1:]) <= COLUMNS
            assert line == line.rstrip()
            assert "\t" not in line


def test_every_insertion_says_what_it_is() -> None:
    """Whoever reads the patched source finds the part's name, and with it the reason on the page."""
    for hunk in hunks():
        text = "\n".join(line[1:] for line in hunk.lines)
        includes_only = all(line.startswith("+#include <") for line in hunk.lines)
        assert hunk.behind == 0 or includes_only or re.search(r"// \[playground [ab]\d+\]", text), text


def test_page_lists_every_insertion_with_its_line() -> None:
    """The table of reasons and the patch name the same places, and the tags that stand there."""
    rows = re.findall(r"^\| ([ab0-9, ]+) \| `(\S+)` \| (\d+) \| \S.* \|$", PAGE, re.MULTILINE)

    told = {(file, int(line)): set(parts.split(", ")) for parts, file, line in rows}
    places = {(hunk.path.rpartition("/")[2], hunk.behind): hunk for hunk in hunks() if hunk.behind}
    assert len(told) == len(rows)
    assert set(told) == set(places)
    for place, hunk in places.items():
        tags = set(re.findall(r"\[playground (\w+)\]", "\n".join(hunk.lines)))
        assert tags in (set(), told[place])


def test_page_lists_the_blobs_and_the_commit() -> None:
    """What the patch is for can be looked up without reading the patch."""
    rows = re.findall(r"^\| `(\S+)` \| (ours|`\w{40}`) \| `(\w{40})` \|$", PAGE, re.MULTILINE)

    told = {path: (NO_FILE if before == "ours" else before.strip("`"), after) for path, before, after in rows}
    commit = re.search(r"^Pinned-Commit: (\w{40})$", HEAD, re.MULTILINE)
    assert told == blobs()
    assert commit
    assert f"Commit: `{commit[1]}`" in PAGE
