"""The stages of a set-up in their order, and what they have in common."""

from __future__ import annotations

from typing import Protocol

from bootstrap.children import Runner
from bootstrap.layout import Layout
from bootstrap.stages.model import BuiltInModel
from bootstrap.stages.npm_tools import NpmTools
from bootstrap.stages.page import PagePackages
from bootstrap.stages.python import PythonEnvironment, PythonPackages

ENGINES: dict[str, str] = {"executorch": "ExecuTorch"}
"""Engines with an environment of their own, and how they are called. The built-in engine needs none."""


class Stage(Protocol):
    """One step of a set-up."""

    @property
    def title(self) -> str:
        """Two or three words for the progress line."""
        ...

    def is_ready(self) -> bool:
        """Whether the result is there and matches its inputs; cheap, offline, writes nothing."""
        ...

    def make(self, runner: Runner) -> str:
        """Make the result and leave a stamp; returns its size in words. Raises SetupFault."""
        ...


def stages_for_run(layout: Layout, engine: str = "") -> list[Stage]:
    """What `run` needs. engine: one that has an environment of its own, which is needed then as well."""
    stages: list[Stage] = [
        PythonEnvironment(layout.venv),
        PythonPackages(layout, layout.venv, ("run",), "Python packages"),
        PagePackages(layout),
        BuiltInModel(layout),
    ]
    return stages + (stages_for_engine(layout, engine) if engine else [])


def stages_for_test(layout: Layout, engine: str = "") -> list[Stage]:
    """What `test` needs: everything that `run` needs, and the tools."""
    tools: list[Stage] = [PythonPackages(layout, layout.venv, ("run", "test"), "Test packages"), NpmTools(layout)]
    return [*stages_for_run(layout), *tools, *(stages_for_engine(layout, engine, tests=True) if engine else [])]


def stages_for_engine(layout: Layout, engine: str, *, tests: bool = False) -> list[Stage]:
    """The engine's own environment. tests: with what its tests need."""
    path, name = layout.engine(engine), ENGINES[engine]
    order = ("run", engine)
    stages: list[Stage] = [
        PythonEnvironment(path, f"{name} environment"),
        PythonPackages(layout, path, order[:1], f"{name}: server"),
        PythonPackages(layout, path, order, f"{name}: engine"),
    ]
    if tests:
        stages.append(PythonPackages(layout, path, (*order, "test"), f"{name}: tests"))
        stages.append(PythonPackages(layout, path, (*order, "test", f"{engine}-test"), f"{name}: exporter"))
    return stages
