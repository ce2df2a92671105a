"""The page's third-party files: npm packages as locked, the listed ones copied to `web_dist/vendor/`."""

from __future__ import annotations

import shutil
from pathlib import Path

from bootstrap import node_tool, vendor
from bootstrap.children import Runner
from bootstrap.console import megabytes
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout, unwritable
from bootstrap.stamps import fingerprint, read_stamp, write_stamp

STAMP = ".stamp.json"


class PagePackages:
    """`web_dist/vendor/`, made from package-lock.json and vendor.json; its stamp lies in it and moves with it.

    A dot folder beside it holds the next version until it is complete; the server serves no dot files.
    """

    title = "Page packages"

    def __init__(self, layout: Layout) -> None:
        self._page = layout.page
        self._target = layout.page / "vendor"
        self._packages = layout.cache / "page"

    def is_ready(self) -> bool:
        stamp = read_stamp(self._target / STAMP)
        try:
            if stamp.get("made_from") != self._made_from():
                return False
            return all((self._target / to).stat().st_size == size for to, size in stamp["files"].items())
        except (SetupFault, OSError, KeyError):
            return False

    def make(self, runner: Runner) -> str:
        made_from = self._made_from()
        wanted = vendor.read_list(self._page / "vendor.json")
        packages = node_tool.inputs_fingerprint(self._page)
        if not node_tool.is_installed(self._packages, made_from=packages):
            node_tool.install_locked(runner, self._page, self._packages, made_from=packages)
        fresh, old = self._page / ".vendor.new", self._page / ".vendor.old"
        try:
            _remove(fresh)
            fresh.mkdir()
            sizes = vendor.copy_all(wanted, self._packages / "node_modules", fresh)
            write_stamp(fresh / STAMP, {"made_from": made_from, "files": sizes})
            _remove(old)
            if self._target.exists():
                self._target.rename(old)
            fresh.rename(self._target)
            _remove(old)
        except OSError as fault:
            raise unwritable(self._target, fault) from fault
        return f"{len(sizes)} files, {megabytes(sum(sizes.values()))}"

    def _made_from(self) -> str:
        list_file = self._page / "vendor.json"
        if not list_file.is_file():
            raise SetupFault(
                f"{list_file} is missing.", advice="The project folder is incomplete: clone or unpack it again"
            )
        return fingerprint(vendor.FORMAT, node_tool.inputs_fingerprint(self._page), list_file)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
