"""The stages of a set-up in their order, and what they have in common."""

from __future__ import annotations

from typing import Protocol

from bootstrap.children import Runner
from bootstrap.layout import Layout
from bootstrap.stages.model import BuiltInModel
from bootstrap.stages.npm_tools import NpmTools
from bootstrap.stages.page import PagePackages
from bootstrap.stages.python import PythonEnvironment, PythonPackages


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


def stages_for_run(layout: Layout) -> list[Stage]:
    """What `run` needs."""
    return [
        PythonEnvironment(layout),
        PythonPackages(layout, "run"),
        PagePackages(layout),
        BuiltInModel(layout),
    ]


def stages_for_test(layout: Layout) -> list[Stage]:
    """What `test` needs: everything that `run` needs, and the tools."""
    return [*stages_for_run(layout), PythonPackages(layout, "test"), NpmTools(layout)]
