"""What the tests use of npm, as locked: the type checker (started with the same Node that made the page's packages)
and axe-core, which looks for faults of accessibility."""

from __future__ import annotations

from pathlib import Path

from bootstrap import node_tool
from bootstrap.children import Runner, folder_size
from bootstrap.console import megabytes
from bootstrap.layout import Layout


class NpmTools:
    """pyright and axe-core below the cache folder."""

    title = "npm test tools"

    def __init__(self, layout: Layout) -> None:
        self._source = layout.lock_files / "test-npm"
        self._target = layout.cache / "test-npm"

    @property
    def pyright(self) -> Path:
        """What Node has to run to check types."""
        return self._target / "node_modules" / "pyright" / "index.js"

    @property
    def axe(self) -> Path:
        """The script to load into a page, which then has `axe.run()`."""
        return self._target / "node_modules" / "axe-core" / "axe.min.js"

    def is_ready(self) -> bool:
        made_from = node_tool.inputs_fingerprint(self._source)
        return node_tool.is_installed(self._target, made_from=made_from) and self.pyright.is_file()

    def make(self, runner: Runner) -> str:
        node_tool.install_locked(
            runner, self._source, self._target, made_from=node_tool.inputs_fingerprint(self._source)
        )
        return megabytes(folder_size(self._target))
