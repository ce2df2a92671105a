"""What the native engine says of itself, and how it fails to load: in words that name what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muse.protocol import Error, Loading, Ready
from tests.native.doubles import LEVELS, make_artifact, worker_arguments
from tests.native.pte_file import program_with
from tests.worker.client import WorkerProcess

pytestmark = pytest.mark.thorough

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
    assert start_native("--artifact_mode=autoregressive", solo=True).ready().draft_tokens is None


@pytest.mark.parametrize(
    ("flags", "manner", "sees"),
    [
        (("--max_sessions=1",), {}, True),
        (("--max_sessions=1",), {"vision": False}, False),
        ((), {"level": "control_pipe"}, False),
        ((f"--data_path={__file__}",), {}, True),
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
    with WorkerProcess(*arguments, f"--worker-arg=--data_path={__file__}") as worker:
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


def test_the_artifacts_own_context_is_used(tmp_path: Path) -> None:
    """As its file tells; what is asked for beyond that is refused before any prompt is."""
    arguments = list(worker_arguments(tmp_path, context=2048))
    (tmp_path / "nano-dflash" / "model.pte").write_bytes(program_with({"get_max_seq_len": 2048}))
    place = arguments.index("--context")
    for asked, expected in (([], 2048), (["--context", "512"], 512), (["--context", "2048"], 2048)):
        with WorkerProcess(*arguments[:place], *asked, *arguments[place + 2 :]) as worker:
            assert worker.ready().context_length == expected
    error = failure(*arguments[:place], "--context", "2049", *arguments[place + 2 :])
    assert (error.code, error.message) == (
        "bad_request",
        "a context of 2049 tokens was asked for, and this artifact holds 2048",
    )


@pytest.mark.parametrize("name", ["model.pte", "tokenizer.json", "chat_template.jinja"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """With the place where it was looked for."""
    arguments = worker_arguments(tmp_path)
    (tmp_path / "nano-dflash" / name).unlink()
    error = failure(*arguments)
    assert error.code == "bad_request"
    assert name in error.message
    assert str(tmp_path / "nano-dflash") in error.message


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("model.pte", "fetch the artifact again"),
        ("tokenizer.json", "fetch it from the repository of the model's weights"),
        ("chat_template.jinja", "fetch it from the repository of the model's weights"),
    ],
)
def test_a_folder_in_a_files_place_is_called_one(tmp_path: Path, name: str, advice: str) -> None:
    """Nothing is missing then, so nobody is sent to look for it."""
    arguments = worker_arguments(tmp_path)
    place = tmp_path / "nano-dflash" / name
    place.unlink()
    place.mkdir()
    error = failure(*arguments)
    assert error.code == "bad_request"
    assert error.message.startswith(f"{place} is a folder, and a file was expected there: ")
    assert error.message.endswith(f"Put it aside, then {advice}")


def test_a_link_to_nothing_is_called_one(tmp_path: Path) -> None:
    """It is there, for whoever looks."""
    arguments = worker_arguments(tmp_path)
    place = tmp_path / "nano-dflash" / "tokenizer.json"
    place.unlink()
    place.symlink_to(tmp_path / "gone.json")
    assert f"{place} is no file, or a link to none" in failure(*arguments).message


def test_a_gap_in_the_tokenizer_is_named(tmp_path: Path) -> None:
    """The program would number its control tokens otherwise than we do."""
    arguments = worker_arguments(tmp_path)
    path = tmp_path / "nano-dflash" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["added_tokens"][-1]["id"] += 88
    path.write_text(json.dumps(content))
    error = failure(*arguments)
    assert error.code == "bad_request"
    assert f"{path} gives '<|reserved_mask|>' the id 599, and is read with it as token 511" in error.message


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            ("Cannot open pos_embed.bin", "failed to create engine"),
            "Cannot open pos_embed.bin; failed to create engine",
        ),
        (
            ("noise", "Tokenizer maps <|patch|> to 510, expected 200092", "engine rejected", "failed to create engine"),
            "words: Tokenizer maps <|patch|> to 510, expected 200092; engine rejected; failed to create engine",
        ),
        (("the same", "the same"), "its last words: the same"),
    ],
)
def test_a_failed_load_says_why(tmp_path: Path, log: tuple[str, ...], words: str) -> None:
    """Its last line only says that it failed; the reason stands before it."""
    error = failure(*worker_arguments(tmp_path, log=log))
    assert error.message.endswith(words)
    assert error.message.startswith(
        "the native worker cannot load this model: the engine's process ended with status 1"
    )


@pytest.mark.parametrize("solo", [False, True])
def test_the_kind_is_the_programs_word(tmp_path: Path, solo: bool) -> None:
    """Whatever the folder is called: by its name alone it would be unknown, or the other one."""
    for name in ("artifact", "nano-solo" if not solo else "nano-dflash-2"):
        folder = make_artifact(tmp_path, name)
        arguments = list(worker_arguments(tmp_path, solo=solo))
        arguments[arguments.index("--model") + 1] = str(folder)
        with WorkerProcess(*arguments) as worker:
            assert worker.ready().draft_tokens == (None if solo else 3)


def test_where_the_log_is_silent_the_folders_name_counts(start_native: Start) -> None:
    """As with a build that logs nothing."""
    assert start_native(silent=True).ready().draft_tokens == 3


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
     ("max_sessions", "is no flag"), ("--help", "print something and end"), ("--version", "print something and end"),
     ("--artifact_mode=foo", "is auto, autoregressive, dflash, not 'foo'"), ("--max_image_bytes=0", "at least 1"),
     ("--max_image_bytes=-1", "look at the values of --worker-arg"), ("--max_sessions=two", "illegal value 'two'"),
     ("--data_path=/no/blob.ptd", "/no/blob.ptd is missing"), ("--pos_embed_path=/tmp", "/tmp is a folder")],
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
    assert f"{program} is missing: the native worker" in failure(*arguments).message
    program.mkdir()
    assert f"{program} is a folder, and a file was expected there" in failure(*arguments).message


def test_the_command_line_needs_both_files(tmp_path: Path) -> None:
    """The model and the program."""
    with WorkerProcess("--engine", "native", "--model", str(make_artifact(tmp_path))) as worker:
        assert worker.wait_exit() == 2
