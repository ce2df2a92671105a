"""`bootstrap native --source DIR`: gets a checkout of ExecuTorch ready for a worker that can be cancelled.

Applies `patches/executorch-muse-cancel.patch` to the user's checkout, all of it or nothing, and says how upstream
builds the worker; it builds nothing and fetches nothing. What counts is the content of the files that the patch
touches; the commit only makes the advice better. The new contents are all laid beside the files before the first of
them is replaced. A killed run leaves whole files, patched or not, and the next one goes on from there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap import checkout
from bootstrap.console import Console
from bootstrap.faults import SetupFault, UsageFault
from bootstrap.insertions import FileChange, FileState, InsertionPatch, read_patch
from bootstrap.layout import Layout, unwritable
from bootstrap.stamps import read_stamp, write_stamp

USAGE = "python3 -m bootstrap native --source DIR [--undo]"
PATCH = Path("patches") / "executorch-muse-cancel.patch"
WORKER = "cmake-out/examples/models/muse-glimmer/muse_glimmer_worker"
# What every version of the patch has in the files that it touches.
MARKS = (b"[playground ", b"Muse Glimmer Playground")
POLL_S = 0.1
# Most of a run is git, which is asked twice.
WAIT_S = 2 * checkout.ANSWER_WITHIN_S + 30.0
# CMake's presets: of ExecuTorch itself, and of the worker.
PRESETS = {"darwin": ("mlx-release", "muse-glimmer-mlx"), "linux": ("llm-release-cuda", "muse-glimmer-cuda")}


@dataclass(frozen=True)
class NativeOptions:
    """The command line: where ExecuTorch's source is, and whether the patch is to be taken out again."""

    source: Path
    undo: bool


def parse(arguments: Sequence[str]) -> NativeOptions:
    """Raises UsageFault on anything that is not understood."""
    source, undo, waiting = "", False, list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--undo":
            undo = True
        elif argument == "--source" and waiting and not waiting[0].startswith("--"):
            source = waiting.pop(0)
        elif argument == "--source":
            raise UsageFault(f"--source needs a folder.\n\n{USAGE}")
        elif argument.startswith("--source="):
            source = argument.partition("=")[2]
        else:
            raise UsageFault(f"Not understood: {argument}\n\n{USAGE}")
    if not source:
        raise UsageFault(f"Where is ExecuTorch's source?\n\n{USAGE}")
    folder = Path(source).expanduser()
    return NativeOptions(source=Path(os.path.abspath(folder)), undo=undo)  # noqa: PTH100 - keeps the folder's own name


def run(options: NativeOptions, layout: Layout, console: Console) -> int:
    """Patch the checkout, or take the patch out; 0 when it is as asked. Raises SetupFault with nothing written."""
    patch = read_patch(layout.project / PATCH)
    with _alone(options.source, console):
        return _run_alone(options, layout, console, patch)


def _run_alone(options: NativeOptions, layout: Layout, console: Console, patch: InsertionPatch) -> int:
    found = checkout.look_at(options.source)
    states = _states(options.source, patch)
    _refuse_conflicts(options.source, patch, states, found)
    console.line(f"ExecuTorch's source: {options.source}")
    console.line(f"Its commit: {found.commit or f'unknown, since {found.unknown_why}'}")
    _clear_left_overs(options.source, patch)
    if options.undo:
        _take_out(options.source, states, console)
        _forget(layout, options.source)
        return 0
    _put_in(options.source, states, console)
    _note(layout, options.source, found, patch)
    _advise(options.source, found, patch, console)
    return 0


@contextlib.contextmanager
def _alone(source: Path, console: Console) -> Iterator[None]:
    """Hold the source against other runs of this command: of two at once each would take the other's half-written files
    for somebody's work, or clear them away. The lock is on the folder itself, so that it leaves nothing behind, and is
    free as soon as its holder is gone, however that ended."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield  # whatever is wrong with it is told by those who look at it
        return
    try:
        _lock(descriptor, source, console)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, source: Path, console: Console) -> None:
    until: float | None = None
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if until is None:
                until = now + WAIT_S
                console.line(f"Waiting: another `bootstrap native` is at work in {source}.")
            if now > until:
                raise SetupFault(
                    f"Another `bootstrap native` has been at work in {source} for {WAIT_S:.0f} s; nothing was written.",
                    advice="End it, then run the same command again",
                ) from None
            time.sleep(POLL_S)
        except OSError as fault:
            console.line(
                f"Note: {source} cannot be locked ({fault.strerror}), so do not run this command twice at once."
            )
            return
        else:
            return


def summary(layout: Layout) -> str:
    """One line about the checkout that was patched last, for the report; empty when there was none."""
    noted = read_stamp(_stamp(layout))
    source = noted.get("source")
    if not isinstance(source, str):
        return ""
    patch = read_patch(layout.project / PATCH)
    if noted.get("patch_sha256") != patch.sha256:
        return f"{source}, patched by another version of this project"
    if set(_states(Path(source), patch).values()) != {FileState.PATCHED}:
        return f"{source}, changed since it was patched"
    return f"{source}, patched, commit {noted.get('commit') or 'unknown'}"


def _states(source: Path, patch: InsertionPatch) -> dict[FileChange, FileState]:
    if not source.is_dir():
        raise SetupFault(f"{source} is no folder.", advice="Name the folder that ExecuTorch's source was cloned into")
    states = {change: _state(source, change) for change in patch.changes}
    originals = [state for change, state in states.items() if not change.is_new_file]
    if all(state is FileState.MISSING for state in originals):
        inside = source / "executorch"
        advice = f"Name {inside} instead" if inside.is_dir() else f"Clone ExecuTorch and check out {patch.commit}"
        raise SetupFault(
            f"{source} does not hold the source of ExecuTorch with its Muse Glimmer worker.", advice=advice
        )
    return states


def _state(source: Path, change: FileChange) -> FileState:
    path = source / change.path
    return FileState.FOLDER if path.is_dir() else change.state_of(_content(path), MARKS)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        raise SetupFault(
            f"{path} cannot be read ({fault.strerror}).", advice="Make that file readable for you"
        ) from fault


def _refuse_conflicts(
    source: Path, patch: InsertionPatch, states: dict[FileChange, FileState], found: checkout.Checkout
) -> None:
    fitting = (FileState.UNPATCHED, FileState.PATCHED)
    conflicts = {change: state for change, state in states.items() if state not in fitting}
    if not conflicts:
        return
    files = " ".join(change.path for change in conflicts if not change.is_new_file)
    ours = " ".join(change.path for change in patch.changes if change.is_new_file)
    if FileState.OTHER_VERSION in conflicts.values():
        advice = (
            "Take out what is there: by `native --undo` of the version of this project that put it in, or by putting "
            f"upstream's files back ({files or 'they are unchanged'}) and deleting {ours}"
        )
    elif FileState.FOLDER in conflicts.values():
        folders = " ".join(change.path for change, state in conflicts.items() if state is FileState.FOLDER)
        advice = f"Files are expected there. Put these folders aside, then run the same command again: {folders}"
    elif any(change.is_new_file for change in conflicts):
        advice = f"Upstream has files of these names by now ({ours}), so the patch is not for that source"
    elif FileState.LINE_ENDS in conflicts.values():
        advice = "Clone it again with `git -c core.autocrlf=false clone`: the line ends were changed when it was cloned"
    elif set(conflicts.values()) == {FileState.MISSING} and found.commit == patch.commit:
        advice = f"Files were deleted after they were checked out. Bring them back: `git checkout -- {files}`"
    elif found.commit and found.commit != patch.commit:
        advice = f"Check out the commit that the patch is for: `git checkout {patch.commit}`"
    elif found.commit:
        advice = f"Those files were changed after they were checked out. See `git diff -- {files}`, and put it aside"
    else:
        advice = f"Use ExecuTorch's source of commit {patch.commit}"
    raise SetupFault(
        f"{source} does not fit the patch; nothing was written.",
        advice=advice,
        evidence=[f"{change.path} {state.value}" for change, state in conflicts.items()],
    )


def _put_in(source: Path, states: dict[FileChange, FileState], console: Console) -> None:
    waiting = [change for change, state in states.items() if state is FileState.UNPATCHED]
    contents = {
        change.path: change.applied_to(b"" if change.is_new_file else (source / change.path).read_bytes())
        for change in waiting
    }
    _replace({source / path: content for path, content in contents.items()})
    if not waiting:
        console.line("The patch is in already.")
    elif len(waiting) < len(states):
        console.line(f"The patch was in only in part; put into the other {len(waiting)} of {len(states)} files.")
    else:
        console.line(f"The patch was put into {len(waiting)} files.")


def _take_out(source: Path, states: dict[FileChange, FileState], console: Console) -> None:
    patched = [change for change, state in states.items() if state is FileState.PATCHED]
    paths = {change: source / change.path for change in patched}
    _replace({path: change.removed_from(path.read_bytes()) for change, path in paths.items() if not change.is_new_file})
    # The new files go last: what is still patched includes them.
    for change, path in paths.items():
        if change.is_new_file:
            try:
                path.unlink()
            except OSError as fault:
                raise _unwritable(path, fault) from fault
    console.line(f"The patch was taken out of {len(patched)} files." if patched else "The patch is not in.")


def _replace(contents: dict[Path, bytes]) -> None:
    """Replace files, each at once, none before all new contents are written. What links point to is replaced."""
    targets = {path.resolve(): content for path, content in contents.items()}
    laid = {_partial(target): target for target in targets}
    try:
        for partial, target in laid.items():
            _write(partial, targets[target], target)
        for partial, target in laid.items():
            partial.replace(target)
    except OSError as fault:
        raise _unwritable(Path(fault.filename or next(iter(laid))), fault) from fault
    finally:
        for partial in laid:
            with contextlib.suppress(OSError):
                partial.unlink()


def _write(path: Path, content: bytes, like: Path) -> None:
    path.write_bytes(content)
    if like.exists():
        shutil.copymode(like, path)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def _clear_left_overs(source: Path, patch: InsertionPatch) -> None:
    """Remove what a killed run had laid beside the files."""
    for change in patch.changes:
        with contextlib.suppress(OSError):
            _partial((source / change.path).resolve()).unlink()


def _unwritable(path: Path, fault: OSError) -> SetupFault:
    return SetupFault(
        f"{path.parent} cannot be written to ({fault.strerror or fault}).",
        advice="Make ExecuTorch's source writable for you, then run the same command again",
    )


def _advise(source: Path, found: checkout.Checkout, patch: InsertionPatch, console: Console) -> None:
    if found.commit and found.commit != patch.commit:
        console.line(
            f"Note: the patch was made for commit {patch.commit}. All files that it touches are the same in yours; "
            "what else has changed was never tried with it."
        )
    others = set(found.changed) - {change.path for change in patch.changes}
    if others:
        console.line(f"Note: {len(others)} other files of the checkout are changed, {min(others)} among them.")
    if source.name != "executorch":
        console.line("Note: ExecuTorch builds only in a folder named executorch; rename this one first.")
    runtime, worker = PRESETS.get(sys.platform, PRESETS["linux"])
    console.line()
    console.line("What is next, by upstream's own guide (examples/models/muse-glimmer/README.md there):")
    console.line("  1. Set up what its guide to building from source asks for, submodules included.")
    console.line(f"  2. Build and install ExecuTorch:  cmake --workflow --preset {runtime}")
    console.line("  3. In examples/models/muse-glimmer, build the worker (target muse_glimmer_worker):")
    console.line(f"       cmake --workflow --preset {worker}")
    console.line(f"The worker is then {source / WORKER};")
    console.line("start it with: python3 -m bootstrap run --engine native --worker-bin FILE --model ARTIFACT_FOLDER")


def _stamp(layout: Layout) -> Path:
    return layout.stamps / "native.json"


def _note(layout: Layout, source: Path, found: checkout.Checkout, patch: InsertionPatch) -> None:
    try:
        write_stamp(_stamp(layout), {"source": str(source), "commit": found.commit, "patch_sha256": patch.sha256})
    except OSError as fault:
        raise unwritable(layout.stamps, fault) from fault


def _forget(layout: Layout, source: Path) -> None:
    if read_stamp(_stamp(layout)).get("source") == str(source):
        try:
            _stamp(layout).unlink()
        except OSError as fault:
            raise unwritable(layout.stamps, fault) from fault
