"""What `bootstrap test` gives the tools that it calls."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from bootstrap import checks, node_tool
from bootstrap.console import Console
from bootstrap.layout import Layout
from bootstrap.node_tool import Node


def program(path: Path, script: str) -> Path:
    """A program that is this shell script."""
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_tests_find_the_node_of_the_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where it is the set-up's own, since the machine has none: else the page's own tests would be skipped."""
    layout = Layout(project=tmp_path, home=tmp_path / "home")
    own = program(tmp_path / "own node" / "node", "exit 0")
    program(layout.venv_python, 'case "$*" in *pytest*) command -v node;; esac')
    found = Node(node=str(own), npm=(), version="v22", npm_version="10")
    monkeypatch.setattr(node_tool, "find_node", lambda _layout: found)
    options = checks.TestOptions(marks=None, engines=(), pytest_arguments=())
    assert checks.run_checks(layout, options, Console(io.StringIO())) == 0
    assert capfd.readouterr().out == f"{own}\n"
