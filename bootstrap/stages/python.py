"""The Python environment and the locked packages in it.

`run` packages come first, `test` packages on top of them in the same environment (the locks share no package), so
that an unfinished test installation never keeps the server from starting.
"""

from __future__ import annotations

from pathlib import Path

from bootstrap import environment
from bootstrap.children import Runner, folder_size
from bootstrap.console import megabytes
from bootstrap.environment import Environment
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout

BELOW = {"run": (), "test": ("run",)}


class PythonEnvironment:
    """A virtual environment with nothing but pip in it."""

    title = "Python environment"

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def is_ready(self) -> bool:
        return Environment(self._layout.venv).is_sound()

    def make(self, runner: Runner) -> str:
        target = self._layout.venv
        environment.recover(target)
        if not self.is_ready():
            fresh = environment.create(runner, _beside(self._layout), {})
            environment.put_in_place(fresh, target)
        return megabytes(folder_size(target))


class PythonPackages:
    """The packages of one lock file, `run` or `test`."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._layout = layout
        self._name = name
        self.title = "Python packages" if name == "run" else "Test packages"

    def is_ready(self) -> bool:
        there = Environment(self._layout.venv)
        # A change of a lock below makes a new environment, without what lay on top of the old one.
        return there.is_sound() and all(there.has(name, self._lock(name)) for name in self._order)

    def make(self, runner: Runner) -> str:
        self._check_locks()
        there = Environment(self._layout.venv)
        before = folder_size(there.path)
        if there.holds_only(*(self._lock(name) for name in BELOW[self._name])):
            there.install(runner, self._name, self._lock(self._name))
        else:
            # Outdated, changed or half installed. The old environment stays in use until the new one is complete.
            locks = {name: self._lock(name) for name in self._order}
            fresh = environment.create(runner, _beside(self._layout), locks)
            before = folder_size(fresh.path)
            for name, lock in locks.items():
                if not fresh.has(name, lock):
                    fresh.install(runner, name, lock)
            there = environment.put_in_place(fresh, self._layout.venv)
        return megabytes(folder_size(there.path) - before)

    @property
    def _order(self) -> tuple[str, ...]:
        return (*BELOW[self._name], self._name)

    def _lock(self, name: str) -> Path:
        return self._layout.lock_files / f"{name}.txt"

    def _check_locks(self) -> None:
        for name in self._order:
            if not self._lock(name).is_file():
                raise SetupFault(
                    f"{self._layout.shown(self._lock(name))} is missing.",
                    advice="The project folder is incomplete: clone or unpack it again.",
                )


def _beside(layout: Layout) -> Path:
    return layout.venv.with_name(layout.venv.name + ".new")
