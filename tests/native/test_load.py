"""What the native engine says of itself, and how it fails to load: in words that name what was expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muse.protocol import Error, Loading, Ready
from tests.native.doubles import LEVELS, make_artifact, worker_arguments
from tests.worker.client import WorkerProcess

Start = Callable[..., WorkerProcess]


def failure(*arguments: str) -> Error:
    """Of a worker that cannot load."""
    with WorkerProcess(*arguments) as worker:
        error = worker.wait(Error)
        assert error.fatal
        assert worker.wait_exit() == 3
    return error


def test_ready_says_what_the_program_can_do(native: WorkerProcess, start_native: Start) -> None:
    """What it cannot is false; numbers that its ready line lacks are given or the published artifact's."""
    ready = native.ready()
    supports = ready.supports
    assert ready.patch_level in LEVELS
    assert (ready.engine, ready.model_id, ready.context_length) == ("native", "muse-glimmer-30b", 4096)
    assert (ready.max_sessions, ready.max_named_sessions, ready.max_inflight_requests) == (2, 1, 1)
    assert supports.cancel == (ready.patch_level != "unpatched")
    assert supports.image == (ready.patch_level == "cancel_op")
    assert supports.ids_with_images
    assert (supports.grammar, supports.logprobs, supports.rewind, supports.draft) == (False,) * 4
    assert (ready.bos_token, ready.eos_token, ready.eos_ids) == ("<|begin_of_text|>", "<|end_of_text|>", (501, 503))
    assert "<|patch|>" in ready.special_tokens
    assert "sha256:" in ready.engine_version
    assert ready.draft_tokens == 3
    assert start_native("--dflash_n_draft=2").ready().draft_tokens == 2
    assert start_native("--artifact_mode=autoregressive").ready().draft_tokens is None


@pytest.mark.parametrize(
    ("flags", "manner", "sees"),
    [
        (("--max_sessions=1",), {}, True),
        (("--max_sessions=1",), {"vision": False}, False),
        ((), {"level": "control_pipe"}, False),
        (("--data_path=weights.ptd",), {}, True),
        ((), {"level": "cancel_op", "vision": False}, False),
    ],
)
def test_pictures_only_where_they_work(
    start_native: Start, flags: tuple[str, ...], manner: dict[str, Any], sees: bool
) -> None:
    """Unpatched with several sessions MLX refuses every one of them, so there are none."""
    assert start_native(*flags, **manner).ready().supports.image is sees


def test_the_weights_of_cuda_are_found(tmp_path: Path) -> None:
    """Beside the program, as in the published folder, unless others are named; then pictures work as well."""
    arguments = worker_arguments(tmp_path, echoes=True)
    (tmp_path / "nano-dflash" / "aoti_cuda_blob.ptd").write_bytes(b"FH01")
    with WorkerProcess(*arguments) as worker:
        ready = worker.ready()
        assert (ready.backend, ready.supports.image) == ("CUDA", True)
        assert [(file.part, file.size_bytes) for file in ready.files][1:] == [("weights", 4)]
        assert f"--data_path={tmp_path / 'nano-dflash' / 'aoti_cuda_blob.ptd'}".encode() in worker.stderr
    with WorkerProcess(*arguments, "--worker-arg=--data_path=/other.ptd") as worker:
        assert worker.ready().backend == "CUDA"
        assert b"aoti_cuda_blob" not in worker.stderr


def test_the_program_is_told_the_artifacts_own_tokens(start_native: Start) -> None:
    """Not those of the published one, which are its defaults."""
    worker = start_native(echoes=True)
    assert b"'--bos_id=500', '--eos_id=501'" in worker.stderr


def test_the_published_context_is_the_default(tmp_path: Path) -> None:
    """And a name can be given."""
    arguments = list(worker_arguments(tmp_path))
    place = arguments.index("--context")
    del arguments[place : place + 2]
    with WorkerProcess(*arguments, "--model-id", "mine") as worker:
        ready = worker.ready()
        assert (ready.context_length, ready.model_id) == (131_072, "mine")
        assert any(isinstance(event, Loading) and event.stage == "loading the model" for event in worker.events)


@pytest.mark.parametrize("name", ["model.pte", "tokenizer.json", "chat_template.jinja"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """With the place where it was looked for."""
    arguments = worker_arguments(tmp_path)
    (tmp_path / "nano-dflash" / name).unlink()
    error = failure(*arguments)
    assert error.code == "bad_request"
    assert name in error.message
    assert str(tmp_path / "nano-dflash") in error.message


@pytest.mark.parametrize("content", ["", "{}", '{"added_tokens": [], "model": {"vocab": {"a": 0}}}', "[1]"])
def test_a_wrong_tokenizer_is_named(tmp_path: Path, content: str) -> None:
    """No traceback, but what is wrong with which file."""
    arguments = worker_arguments(tmp_path)
    (tmp_path / "nano-dflash" / "tokenizer.json").write_text(content)
    error = failure(*arguments)
    assert error.code == "bad_request"
    assert "tokenizer.json" in error.message


def test_the_program_file_itself_can_be_given(tmp_path: Path) -> None:
    """Also when there are several in the folder, which alone would be ambiguous."""
    arguments = worker_arguments(tmp_path)
    artifact = tmp_path / "nano-dflash"
    (artifact / "model.pte").rename(artifact / "a.pte")
    (artifact / "b.pte").touch()
    assert "several programs (a.pte, b.pte)" in failure(*arguments).message
    index = arguments.index(str(artifact))
    with WorkerProcess(*arguments[:index], str(artifact / "a.pte"), *arguments[index + 1 :]) as worker:
        assert isinstance(worker.ready(), Ready)


@pytest.mark.parametrize(
    ("flag", "words"),
    [("--no_such=1", "no_such"), ("--bos_id=1", "is set by this program"), ("--nowarm_resume", "is set by this"),
     ("max_sessions", "is no flag")],
)  # fmt: skip
def test_a_bad_flag_is_named(tmp_path: Path, flag: str, words: str) -> None:
    """By the program itself, whose last words are shown, or before it is started."""
    assert words in failure(*worker_arguments(tmp_path, flag)).message


@pytest.mark.parametrize(
    ("first_line", "words"),
    [
        ("hello", "it is not JSON"),
        ('{"ready": false}', "it is no ready line"),
        ('{"ready": true, "max_sessions": "2", "max_named_sessions": 1}', "max_sessions is no count"),
        ('{"ready": true, "multiplexed": true}', "a later protocol"),
    ],
)
def test_another_program_is_not_driven(tmp_path: Path, first_line: str, words: str) -> None:
    """What its first line says decides."""
    assert words in failure(*worker_arguments(tmp_path, first_line=first_line)).message


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    """Missing, or no program."""
    arguments = list(worker_arguments(tmp_path))
    program = Path(arguments[arguments.index("--worker-bin") + 1])
    program.chmod(0o644)
    assert str(program) in failure(*arguments).message
    program.unlink()
    assert "there is no native worker" in failure(*arguments).message


def test_the_command_line_needs_both_files(tmp_path: Path) -> None:
    """The model and the program."""
    with WorkerProcess("--engine", "native", "--model", str(make_artifact(tmp_path))) as worker:
        assert worker.wait_exit() == 2
