"""`bootstrap native` on made-up sources: all of the patch or nothing, again and again, and every conflict by name."""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bootstrap import native
from bootstrap.cli import main
from bootstrap.faults import SetupFault, UsageFault
from bootstrap.insertions import read_patch
from bootstrap.stamps import read_stamp
from tests.bootstrap import made_up_source
from tests.bootstrap.made_up_source import MadeUpSource

LOOP = "examples/llm_server/cpp/worker_loop.h"
HOOK = "examples/llm_server/cpp/worker_cancel_hook.h"
DRAFT = "examples/models/muse-glimmer/runtime/engine/dflash_session.cpp"


@pytest.fixture
def source(tmp_path: Path) -> MadeUpSource:
    """An unpacked source, not under git."""
    return made_up_source.make(tmp_path)


def fault_of(source: MadeUpSource, *, undo: bool = False) -> SetupFault:
    """The fault that the command ends with; nothing may have been written before it."""
    before = source.files()
    with pytest.raises(SetupFault) as caught:
        source.native(undo=undo)
    assert source.files() == before
    assert not (source.layout.stamps / "native.json").exists()
    return caught.value


def test_lines_stand_behind_their_anchors(source: MadeUpSource) -> None:
    """Every block follows the line it is for, and everything else is as it was."""
    source.native()

    assert source.files() == source.results
    for path, blocks in source.insertions.items():
        for line, block in blocks.items():
            if line:
                assert f"{path}, line {line}\n".encode() + block in source.files()[path]


def test_the_advice_can_be_followed(source: MadeUpSource) -> None:
    """Where the program will be, and a command that has all it needs."""
    said = source.native()

    assert str(source.root / native.WORKER) in said
    assert "run --engine native --worker-bin FILE --model ARTIFACT_FOLDER" in said


def test_second_run_changes_nothing(source: MadeUpSource) -> None:
    """What is in already is left alone, to the files' times."""
    source.native()
    before = {path: (source.root / path).stat().st_mtime_ns for path in source.files()}

    said = source.native()

    assert "is in already" in said
    assert {path: (source.root / path).stat().st_mtime_ns for path in source.files()} == before


@pytest.mark.parametrize("done", range(1, 7))
def test_killed_run_is_gone_on_with(source: MadeUpSource, done: int) -> None:
    """Some files patched, the others not: the rest follows."""
    for path in list(source.results)[:done]:
        source.put(path, source.results[path])

    said = source.native()

    assert f"other {7 - done} of 7 files" in said
    assert source.files() == source.results


def test_undo_brings_the_source_back(source: MadeUpSource) -> None:
    """Also when only a part was in; a second time it has nothing to do."""
    source.native()
    source.put(LOOP, source.originals[LOOP])

    first, second = source.native(undo=True), source.native(undo=True)

    assert "out of 6 files" in first
    assert "is not in" in second
    assert source.files() == source.originals


def test_permissions_stay(source: MadeUpSource) -> None:
    """A file's mode is the user's business."""
    (source.root / LOOP).chmod(0o640)

    source.native()

    assert stat.S_IMODE((source.root / LOOP).stat().st_mode) == 0o640


def test_a_link_stays_one(source: MadeUpSource, tmp_path: Path) -> None:
    """What it points to is patched, and is as it was after undo."""
    kept = tmp_path / "elsewhere.h"
    (source.root / LOOP).rename(kept)
    (source.root / LOOP).symlink_to(kept)

    source.native()
    patched = kept.read_bytes()
    source.native(undo=True)

    assert patched == source.results[LOOP]
    assert (source.root / LOOP).is_symlink()
    assert kept.read_bytes() == source.originals[LOOP]


@pytest.mark.parametrize("undo", [False, True])
def test_what_a_killed_run_left_is_cleared_away(source: MadeUpSource, undo: bool) -> None:
    """Also where nothing is to be written any more."""
    source.native(undo=undo)
    (source.root / LOOP).with_name(".worker_loop.h.partial").write_text("half of")

    source.native(undo=undo)

    assert source.files() == (source.originals if undo else source.results)


def test_stamp_names_source_commit_and_patch(source: MadeUpSource) -> None:
    """The report can tell which source was patched, and by what; undo forgets it."""
    source.native()
    noted = read_stamp(source.layout.stamps / "native.json")
    told = native.summary(source.layout)
    source.native(undo=True)

    assert noted == {
        "source": str(source.root),
        "commit": "",
        "patch_sha256": read_patch(source.layout.project / native.PATCH).sha256,
    }
    assert told == f"{source.root}, patched, commit unknown"
    assert native.summary(source.layout) == ""


def test_undo_elsewhere_leaves_the_stamp(source: MadeUpSource, tmp_path: Path) -> None:
    """It is about the source that was patched last."""
    source.native()
    copy = shutil.copytree(source.root, tmp_path / "copy" / "executorch")
    native.run(native.NativeOptions(copy, undo=True), source.layout, native.Console(io.StringIO()))

    assert native.summary(source.layout).startswith(f"{source.root}, patched")


def test_report_notices_what_happened_since(source: MadeUpSource) -> None:
    """A source that was changed, and a patch of another version, are not reported as patched."""
    source.native()
    source.put(LOOP, source.originals[LOOP])
    changed = native.summary(source.layout)
    patch = source.layout.project / native.PATCH
    patch.write_text("A newer one.\n" + patch.read_text())
    renewed = native.summary(source.layout)

    assert changed.endswith("changed since it was patched")
    assert renewed.endswith("patched by another version of this project")


@pytest.mark.parametrize(
    ("content", "told", "advice"),
    [
        (b"another file\n", "is not the file that the patch was made for", "of commit 1111"),
        (b"// [playground a1] once\n", "holds another version of this patch", "native --undo"),
        (None, "is missing", "of commit 1111"),
    ],
)
def test_conflicts_are_named(source: MadeUpSource, content: bytes | None, told: str, advice: str) -> None:
    """One file that does not fit keeps all from being written."""
    if content is None:
        (source.root / LOOP).unlink()
    else:
        source.put(LOOP, content)

    fault = fault_of(source)

    assert [line for line in fault.evidence if line.startswith(LOOP)] == list(fault.evidence)
    assert told in fault.evidence[0]
    assert advice in fault.advice


def test_windows_line_ends_are_told_as_such(source: MadeUpSource) -> None:
    """The commonest reason why every file differs has an advice of its own."""
    for path, content in source.originals.items():
        source.put(path, content.replace(b"\n", b"\r\n"))

    fault = fault_of(source)

    assert len(fault.evidence) == len(source.originals)
    assert "autocrlf" in fault.advice


def test_foreign_file_of_our_name_is_not_overwritten(source: MadeUpSource) -> None:
    """Upstream may have a header of that name one day."""
    source.put(HOOK, b"// theirs\n")

    fault = fault_of(source)

    assert fault.evidence == (f"{HOOK} is not the file that the patch was made for",)
    assert "is not for that source" in fault.advice


def test_undo_refuses_what_it_does_not_know(source: MadeUpSource) -> None:
    """A patched file that was worked on since is the user's."""
    source.put(LOOP, source.results[LOOP] + b"// mine\n")

    fault = fault_of(source, undo=True)

    assert fault.evidence[0].startswith(LOOP)


@pytest.mark.parametrize("inside", [True, False])
def test_folder_without_the_source_is_refused(source: MadeUpSource, inside: bool) -> None:
    """The folder above a checkout is a likely mistake, and told from a wrong folder."""
    wrong = source.root.parent if inside else source.layout.project

    with pytest.raises(SetupFault) as caught:
        native.run(native.NativeOptions(wrong, undo=False), source.layout, native.Console())

    assert ("Name " in caught.value.advice) == inside


def test_folder_that_does_not_exist_is_refused(source: MadeUpSource) -> None:
    """A typing mistake is not taken for an old source."""
    with pytest.raises(SetupFault, match="is no folder"):
        native.run(native.NativeOptions(source.root / "no", undo=False), source.layout, native.Console())


def test_damaged_patch_writes_nothing(source: MadeUpSource) -> None:
    """A patch whose lines do not lead to the hashes it names is refused as a whole."""
    patch = source.layout.project / native.PATCH
    patch.write_text(patch.read_text().replace("+  worker_cancel_begin();", "+  worker_cancel_beginn();"))

    fault = fault_of(source)

    assert LOOP in fault.what


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("@@ -58,0 +59 @@\n", "@@ -58,1 +59 @@\n"),
        ("@@ -58,0 +59 @@\n", "@@ -58,0 +60 @@\n"),
        ("@@ -58,0 +59 @@\n", "@@ -58,0 +59,2 @@\n"),
        ("@@ -58,0 +59 @@\n", "@@ -58,0 +59 @@\n-a line of theirs\n"),
        ("@@ -58,0 +59 @@\n", "@@ -58,0 +59 @@\n a line of theirs\n"),
        ("Pinned-Commit: ", "Commit: "),
    ],
)
def test_patch_that_does_more_than_add_is_refused(source: MadeUpSource, old: str, new: str) -> None:
    """The form is a promise: no removed line, no context, honest counts."""
    patch = source.layout.project / native.PATCH
    text = patch.read_text()
    assert old in text
    patch.write_text(text.replace(old, new))

    fault = fault_of(source)

    assert "cannot be used" in fault.what


def test_commit_is_told_from_another(tmp_path: Path) -> None:
    """The pinned commit needs no note; another one with the same files has one, as have changes elsewhere."""
    source = made_up_source.make(tmp_path, with_git=True)
    pinned = source.native()
    (source.root / "more").write_text("one")
    made_up_source.git(source.root, "add", "more")
    made_up_source.git(source.root, "commit", "--quiet", "--message", "later", "more")
    (source.root / "more").write_text("two")
    later = source.native()

    assert f"Its commit: {source.commit}" in pinned
    assert "Note:" not in pinned
    assert "the patch was made for commit" in later
    assert "1 other files of the checkout are changed, more among them" in later


def test_only_the_sources_own_checkout_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that it lies in nor one that the environment names."""
    inner = made_up_source.make(tmp_path)
    made_up_source.git(tmp_path, "init", "--quiet")
    made_up_source.git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "around")
    assert "it is no git checkout" in inner.native()

    source = made_up_source.make(tmp_path / "other", with_git=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    assert f"Its commit: {source.commit}" in source.native()


def test_no_program_of_the_users_settings_is_run(tmp_path: Path) -> None:
    """What git would start to watch the files stays for good."""
    source = made_up_source.make(tmp_path, with_git=True)
    watcher = tmp_path / "watcher"
    watcher.write_text(f"#!/bin/sh\ntouch '{tmp_path}/was run'\n")
    watcher.chmod(0o755)
    made_up_source.git(source.root, "config", "core.fsmonitor", str(watcher))

    source.native()

    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize(("move_on", "advice"), [(True, "git checkout "), (False, "git diff -- ")])
def test_advice_fits_the_checkout(tmp_path: Path, move_on: bool, advice: str) -> None:
    """Another commit is to be checked out; files changed by hand in the right one are to be put aside."""
    source = made_up_source.make(tmp_path, with_git=True)
    source.put(LOOP, b"changed\n")
    if move_on:
        made_up_source.git(source.root, "commit", "--quiet", "--all", "--message", "later")

    fault = fault_of(source)

    assert advice in fault.advice


def test_a_missing_file_is_to_be_brought_back(tmp_path: Path) -> None:
    """There is nothing of it to be put aside; a checkout of the same commit would not bring it either."""
    source = made_up_source.make(tmp_path, with_git=True)
    (source.root / LOOP).unlink()
    (source.root / DRAFT).unlink()

    fault = fault_of(source)

    assert fault.evidence == (f"{LOOP} is missing", f"{DRAFT} is missing")
    assert fault.advice.endswith(f"`git checkout -- {LOOP} {DRAFT}`")
    made_up_source.git(source.root, "checkout", "--", LOOP, DRAFT)
    assert "put into 7 files" in source.native()


@pytest.mark.parametrize("path", [LOOP, HOOK])
def test_a_folder_in_a_files_place_is_called_one(source: MadeUpSource, path: str) -> None:
    """Of upstream's files and of ours alike."""
    (source.root / path).unlink(missing_ok=True)
    (source.root / path / "inside").mkdir(parents=True)

    fault = fault_of(source)

    assert fault.evidence == (f"{path} is a folder",)
    assert fault.advice.endswith(f"Put these folders aside, then run the same command again: {path}")


def test_a_second_run_waits_for_the_first(source: MadeUpSource) -> None:
    """What it would see of the first one is neither patched nor as it was; then it finds all of it done."""
    screen = io.StringIO()
    said: list[int] = []
    second = threading.Thread(
        target=lambda: said.append(
            native.run(native.NativeOptions(source.root, undo=False), source.layout, native.Console(screen))
        )
    )
    holder = os.open(source.root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        source.put(LOOP, b"half of it")
        second.start()
        while "Waiting: another `bootstrap native` is at work" not in screen.getvalue():
            assert second.is_alive()
        for path, content in source.results.items():
            source.put(path, content)
    finally:
        os.close(holder)
    second.join()

    assert said == [0]
    assert "is in already" in screen.getvalue()
    assert source.files() == source.results


def test_two_runs_at_once_both_end_well(source: MadeUpSource) -> None:
    """One puts the patch in, the other finds it there."""
    code = (
        "import sys; from pathlib import Path; from bootstrap import native; from bootstrap.layout import Layout\n"
        "root, project, home = map(Path, sys.argv[1:])\n"
        "native.run(native.NativeOptions(root, undo=False), Layout(project=project, home=home), native.Console())"
    )
    folders = (source.root, source.layout.project, source.layout.home)
    command = [sys.executable, "-c", code, *folders]
    for _ in range(5):
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = [run.communicate()[0] for run in runs]

        assert [run.returncode for run in runs] == [0, 0, 0]
        assert sorted("put into 7 files" in words for words in said) == [False, False, True]
        assert sorted("is in already" in words for words in said) == [False, True, True]
        assert source.files() == source.results
        source.native(undo=True)


def test_one_that_never_ends_is_named(source: MadeUpSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a wait without end."""
    monkeypatch.setattr(native, "WAIT_S", 0.0)
    holder = os.open(source.root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        fault = fault_of(source)
    finally:
        os.close(holder)

    assert "Another `bootstrap native` has been at work" in fault.what
    assert fault.advice == "End it, then run the same command again"


def test_git_that_cannot_tell_is_no_obstacle(source: MadeUpSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files decide; why the commit is unknown is said."""
    (source.root / ".git").write_text("gitdir: nowhere")
    broken = source.native()
    monkeypatch.setenv("PATH", str(source.layout.home))
    missing = source.native()

    assert "Its commit: unknown, since git says: fatal: not a git repository" in broken
    assert "Its commit: unknown, since there is no git on this machine" in missing


def test_folder_of_another_name_is_noted(tmp_path: Path) -> None:
    """Upstream's build insists on the folder's name, which is better known before than after."""
    source = made_up_source.make(tmp_path)
    renamed = source.root.rename(tmp_path / "et")
    screen = io.StringIO()

    native.run(native.NativeOptions(renamed, undo=False), source.layout, native.Console(screen))

    assert "only in a folder named executorch" in screen.getvalue()


@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize("path", [LOOP, DRAFT])
def test_unwritable_source_is_a_clear_fault(source: MadeUpSource, path: str, undo: bool) -> None:
    """Which folder it is, instead of a traceback, and all files as they were, wherever among them it is."""
    if undo:
        source.native()
        (source.layout.stamps / "native.json").unlink()
    place = source.root / path
    (place.with_name(f".{place.name}.partial")).mkdir()

    fault = fault_of(source, undo=undo)

    assert f"{place.parent} cannot be written to" in fault.what
    assert "ExecuTorch's source writable" in fault.advice


@pytest.mark.parametrize("arguments", [[], ["--source"], ["--source", "--undo"], ["--source", "x", "--fast"], ["x"]])
def test_wrong_command_lines_are_refused(arguments: list[str]) -> None:
    """What is asked for must be said completely, and nothing else."""
    with pytest.raises(UsageFault, match="--source DIR"):
        native.parse(arguments)


def test_command_ends_with_one_and_an_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line: the exit code of a fault, and what to do."""
    monkeypatch.setenv("MUSE_HOME", str(tmp_path / "home"))

    code = main(["native", f"--source={tmp_path}"])

    assert code == 1
    assert "What to do: Clone ExecuTorch and check out 52b176fd" in capsys.readouterr().out
