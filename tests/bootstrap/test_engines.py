"""Engines with an environment of their own: set up when asked for, apart from the server's."""

from __future__ import annotations

import pytest

from bootstrap.environment import Environment
from tests.bootstrap import parts
from tests.bootstrap.mini_project import MiniProject

pytestmark = pytest.mark.thorough


def with_engine(project: MiniProject) -> MiniProject:
    """A lock for an engine, and a stand-in for pytest that says how it was called."""
    project.write_lock("executorch", project.tiny_wheel("executorch", "1.5"))
    project.write_lock("executorch-test", project.tiny_wheel("tiny_exporter"))
    caller = b"import sys\nprint('pytest', sys.argv[1:], sys.prefix)\n"
    project.write_lock("test", parts.make_wheel(project.wheels, "pytest", "1.0", {"pytest.py": caller}))
    return project


def test_an_engine_gets_an_environment_of_its_own(finished: MiniProject) -> None:
    """With the server's packages and its own; the server's environment stays as it is, and nothing is made twice."""
    project = with_engine(finished)
    code, output = project.run("setup", "--engine", "executorch")
    assert code == 0, output
    engine = Environment(project.layout.engine("executorch")).packages()
    assert {"tiny-run", "executorch"} <= engine.keys()
    assert "executorch" not in Environment(project.layout.venv).packages()
    assert "tiny-exporter" not in engine
    assert project.run("setup", "--engine=executorch") == (0, "Everything is set up.\n")
    assert "ExecuTorch             ready, version 1.5\n" in project.run("doctor")[1]
    project.write_lock("executorch", project.tiny_wheel("executorch", "1.6"))
    assert "ExecuTorch: engine: missing or outdated. To repair it: python3 -m" in project.run("doctor")[1]


def test_a_server_without_that_engine_needs_none_of_it(finished: MiniProject) -> None:
    """`run` makes it only where the engine is asked for, with an artifact's folder or the program in it."""
    project = with_engine(finished)
    project.run("run", "--engine", "scripted")
    assert not project.layout.engine("executorch").exists()
    program = project.layout.project / "model.pte"
    program.touch()
    code, output = project.run("run", "--engine", "executorch", "--model", str(program))
    assert code == 7, output
    assert "ExecuTorch: engine" in output
    assert Environment(project.layout.engine("executorch")).is_sound()


@pytest.mark.parametrize("model", [[], ["--model", "/no/such/folder"], ["--model="]])
def test_an_engine_without_an_artifact_is_not_set_up(finished: MiniProject, model: list[str]) -> None:
    """A gigabyte is not fetched for a mistake in the command line."""
    project = with_engine(finished)
    code, output = project.run("run", "--engine", "executorch", *model)
    assert code == 2, output
    assert "the folder of a .pte artifact" in output or "/no/such/folder" in output
    assert not project.layout.engine("executorch").exists()


def test_the_tests_of_an_engine_run_in_its_environment(finished: MiniProject) -> None:
    """They and no others, with what is needed to make their programs."""
    project = with_engine(finished)
    code, output = project.run("test", "--engines", "executorch", "-x")
    assert code == 0, output
    last = output.splitlines()[-1]
    assert "'--dist', 'loadfile', 'tests/engines/executorch', '-x'] " in last
    assert last.endswith(str(project.layout.engine("executorch")))
    assert "tiny-exporter" in Environment(project.layout.engine("executorch")).packages()
    assert "ruff check" not in output
