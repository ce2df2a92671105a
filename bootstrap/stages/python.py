"""The Python environments and the locked packages in them: the server's own, and one for each engine that needs one.

Packages come lock by lock, one on top of the other in the same environment, so that an unfinished test installation
never keeps the server from starting. An engine's environment holds the server's packages as well, since the worker
imports them, and the engine's tests run there whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bootstrap import environment
from bootstrap.children import Runner, folder_size
from bootstrap.console import megabytes
from bootstrap.environment import Environment
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout


class PythonEnvironment:
    """A virtual environment with nothing but pip in it. path: where it lies."""

    def __init__(self, path: Path, title: str = "Python environment") -> None:
        self._path = path
        self.title = title

    def is_ready(self) -> bool:
        return Environment(self._path).is_sound()

    def make(self, runner: Runner) -> str:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        environment.recover(self._path)
        if not self.is_ready():
            fresh = environment.create(runner, _beside(self._path), {})
            environment.put_in_place(fresh, self._path)
        return megabytes(folder_size(self._path))


class PythonPackages:
    """The packages of the last of some locks, each of which goes on top of those before it."""

    def __init__(self, layout: Layout, path: Path, order: Sequence[str], title: str) -> None:
        self._layout = layout
        self._path = path
        self._order = tuple(order)
        self.title = title

    def is_ready(self) -> bool:
        there = Environment(self._path)
        # A change of a lock below makes a new environment, without what lay on top of the old one.
        return there.is_sound() and all(there.has(name, self._lock(name)) for name in self._order)

    def make(self, runner: Runner) -> str:
        self._check_locks()
        there = Environment(self._path)
        before = folder_size(there.path)
        *below, name = self._order
        if there.holds_only(*map(self._lock, below)):
            there.install(runner, name, self._lock(name))
        else:
            # Outdated, changed or half installed. The old environment stays in use until the new one is complete.
            locks = {name: self._lock(name) for name in self._order}
            fresh = environment.create(runner, _beside(self._path), locks)
            before = folder_size(fresh.path)
            for name, lock in locks.items():
                if not fresh.has(name, lock):
                    fresh.install(runner, name, lock)
            there = environment.put_in_place(fresh, self._path)
        return megabytes(folder_size(there.path) - before)

    def _lock(self, name: str) -> Path:
        return self._layout.lock_files / f"{name}.txt"

    def _check_locks(self) -> None:
        for name in self._order:
            if not self._lock(name).is_file():
                raise SetupFault(
                    f"{self._layout.shown(self._lock(name))} is missing.",
                    advice="The project folder is incomplete: clone or unpack it again.",
                )


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".new")
