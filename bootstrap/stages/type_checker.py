"""The type checker for `test`: one locked npm package, started with the same Node that made the page's packages."""

from __future__ import annotations

from pathlib import Path

from bootstrap import node_tool
from bootstrap.children import Runner, folder_size
from bootstrap.console import megabytes
from bootstrap.layout import Layout


class TypeChecker:
    """pyright below the cache folder."""

    title = "Type checker"

    def __init__(self, layout: Layout) -> None:
        self._source = layout.lock_files / "typecheck"
        self._target = layout.cache / "typecheck"

    @property
    def script(self) -> Path:
        """What Node has to run."""
        return self._target / "node_modules" / "pyright" / "index.js"

    def is_ready(self) -> bool:
        made_from = node_tool.inputs_fingerprint(self._source)
        return node_tool.is_installed(self._target, made_from=made_from) and self.script.is_file()

    def make(self, runner: Runner) -> str:
        node_tool.install_locked(
            runner, self._source, self._target, made_from=node_tool.inputs_fingerprint(self._source)
        )
        return megabytes(folder_size(self._target))
