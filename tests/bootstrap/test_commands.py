"""The smaller parts of the command line: options of `test`, the report, the screen, stamps, and who owns a port."""

from __future__ import annotations

import errno
import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap import checks, ports
from bootstrap.children import tool_environment
from bootstrap.cli import main
from bootstrap.console import Console, megabytes, plain
from bootstrap.faults import UsageFault
from bootstrap.layout import layout_from
from bootstrap.processes import identity_from_ps
from bootstrap.stamps import fingerprint, read_stamp, write_stamp
from tests.bootstrap.mini_project import MiniProject
from tests.server_process import PROJECT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_test_options_are_taken_out() -> None:
    """Our own options are ours, everything else is pytest's, in order."""
    options = checks.parse(["-k", "name", "--full", "tests/unit", "-x"])

    assert options.marks == ""
    assert options.pytest_arguments == ("-k", "name", "tests/unit", "-x")


def test_each_amount_of_tests_has_its_option() -> None:
    """Every mark that pyproject.toml leaves out by itself runs with one of them."""
    assert checks.parse([]).marks is None
    assert checks.parse(["--thorough"]).marks == "not slow"


@pytest.mark.parametrize("engines", ["mlx", "all", "mlx,executorch"])
def test_engines_that_are_not_there_yet_are_said_so(engines: str) -> None:
    """A known engine without an environment is a clear refusal, not a run without it."""
    with pytest.raises(UsageFault, match="not there yet"):
        checks.parse([f"--engines={engines}"])


def test_engines_with_an_environment_are_taken() -> None:
    """Each once; without the option the ordinary tests run."""
    assert checks.parse(["--engines", "executorch,executorch", "-x"]).engines == ("executorch",)
    assert checks.parse(["-x"]).engines == ()


@pytest.mark.parametrize("arguments", [["--engines", "toaster"], ["--engines", "mlx,toaster"], ["--engines"]])
def test_unknown_engines_are_refused(arguments: list[str]) -> None:
    """An engine nobody knows is a mistake in the command line."""
    with pytest.raises(UsageFault, match="executorch"):
        checks.parse(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["setup", "--fast"],
        ["setup", "--engine"],
        ["setup", "--engine", "llamacpp"],
        ["doctor", "now"],
        ["test", "--engines", "x"],
    ],
)
def test_wrong_command_lines_end_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and a message on stderr, as every command-line tool does."""
    code = main(arguments)

    assert code == 2
    assert capsys.readouterr().err


def test_doctor_tells_ready_from_broken(finished: MiniProject) -> None:
    """0 when the server can start, 1 with the stage's name when it cannot; it repairs nothing."""
    healthy, _ = finished.run("doctor")
    model = next(finished.layout.models.iterdir())
    status = model.stat()
    model.write_bytes(bytes(status.st_size))
    os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))

    broken, output = finished.run("doctor")

    assert healthy == 0
    assert broken == 1
    assert "Built-in model         broken: the file's content has changed" in output
    assert "Not ready: Built-in model." in output


def test_doctor_works_where_nothing_is_set_up(bare: MiniProject) -> None:
    """It reports every stage as missing and writes nothing."""
    code, output = bare.run("doctor")

    assert code == 1
    assert output.count("missing or outdated") == 6
    assert "ExecuTorch             not installed" in output
    assert "python3 -m bootstrap setup --engine executorch" in output
    assert not bare.layout.home.exists()


def test_port_owner_is_found() -> None:
    """A listening socket of this process is told by its pid."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        free, owner = ports.is_free(port), ports.owner_of(port)

    assert not free
    assert owner.startswith(f"process {os.getpid()} (")
    assert ports.is_free(port)


def test_log_gets_whole_lines() -> None:
    """Without a terminal a stage is two lines, without control characters."""
    stream = io.StringIO()
    console = Console(stream)

    console.begin(1, 4, "Python packages")
    console.tick(lambda: "too soon to be shown")
    console.end("31 MB")

    first, second = stream.getvalue().splitlines()
    assert first == "[1/4] Python packages ..."
    assert second.startswith("[1/4] Python packages ... 31 MB, ")


def test_terminal_line_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a stage keeps one line, never longer than the window."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("bootstrap.console.REWRITE_EVERY_S", 0.0)
    stream = Terminal()
    console = Console(stream)

    console.begin(1, 4, "Python packages")
    console.tick(lambda: "x" * 100)
    console.end("31 MB")

    text = stream.getvalue()
    assert text.count("\n") == 1
    assert all(len(part.removeprefix("\x1b[K")) < 40 for part in text.rstrip("\n").split("\r"))


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-", ">/dev/full"])
def test_a_set_up_without_its_streams_goes_on(streams: str) -> None:
    """Closed, or on a full disk: nobody reads it, which is no fault of the set-up's."""
    command = ["bash", "-c", f'"$@" {streams}', "bash", sys.executable, "-m", "bootstrap", "help"]
    assert subprocess.run(command, cwd=PROJECT, timeout=60).returncode == 0


def test_no_ps_is_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without /proc on a machine that has no ps, or no process to give for it."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "run", refuse)
    assert identity_from_ps(os.getpid()) is None


def test_closed_pipe_does_not_end_a_set_up() -> None:
    """`setup | head` goes on when head is gone."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    console = Console(Closed())

    console.line("one")
    console.begin(1, 1, "two")
    console.end("three")


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0.0 MB"), (340_000, "0.3 MB"), (31_400_000, "31 MB"), (2_345_000_000, "2.3 GB")]
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    """Decimal megabytes with as many digits as matter."""
    assert megabytes(size) == text


def test_tool_output_cannot_steer_the_terminal() -> None:
    """Control characters of a tool's output never reach the screen."""
    assert "\x1b" not in plain("\x1b[31mred\x07\r\n")


def test_fingerprint_sees_every_difference(tmp_path: Path) -> None:
    """Order, borders between inputs, kinds, and content all count."""
    file, gone = tmp_path / "a", tmp_path / "b"
    file.write_text("a")

    seen = {
        fingerprint(*inputs)
        for inputs in (("ab",), ("a", "b"), ("b", "a"), (b"ab",), (file,), (gone,), ("a",), ("",), ())
    }

    assert len(seen) == 9


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_unreadable_stamps_count_as_none(tmp_path: Path, content: bytes) -> None:
    """A stamp that was damaged makes its stage run again, nothing worse."""
    path = tmp_path / "stamp.json"
    path.write_bytes(content)
    before = read_stamp(path)

    write_stamp(path, {"a": 1})

    assert before == {}
    assert read_stamp(path) == {"a": 1}


def test_home_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default, relative and ~ forms of MUSE_HOME."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")

    homes = [
        str(layout_from({"MUSE_HOME": value}, project=Path("/p")).home) for value in ("", "here", "~/muse", "/a/../b")
    ]

    assert homes == ["/p/.runtime", f"{tmp_path}/here", "/home/someone/muse", "/b"]


def test_tools_do_not_see_settings_that_mislead_them(finished: MiniProject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's PIP_TARGET or PYTHONPATH would put packages elsewhere; an index of theirs must stay."""
    for name in ("PIP_TARGET", "PYTHONPATH", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "somewhere")

    env = tool_environment(finished.layout)

    assert "PIP_TARGET" not in env
    assert "PYTHONPATH" not in env
    assert env["PIP_INDEX_URL"] == "somewhere"
    assert env["PIP_USER"] == "0"


def test_pipe_that_closes_early_leaves_no_complaint(bare: MiniProject) -> None:
    """`bootstrap doctor | head -1` prints no traceback at exit."""
    with bare.start("doctor") as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        child.stdout.close()
        child.wait()

    assert first.startswith("Muse Glimmer Playground")
    assert child.returncode == 1
