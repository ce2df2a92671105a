"""Where everything lies: the project's own files, and the one folder that set-up and server write into.

Nothing outside the home folder (`.runtime/`, or `$MUSE_HOME`) is written, with one exception: the page's third-party
files go to `web_dist/vendor/`, since the page is served from there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bootstrap.faults import SetupFault

PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Layout:
    """Paths of one project folder with one home folder; touches no disk until `prepare`."""

    project: Path
    home: Path

    @property
    def lock_files(self) -> Path:
        """The folder of the hash-pinned requirement files."""
        return self.project / "bootstrap" / "locks"

    @property
    def page(self) -> Path:
        return self.project / "web_dist"

    @property
    def venv(self) -> Path:
        return self.home / "venv"

    @property
    def venv_python(self) -> Path:
        return self.venv / "bin" / "python"

    def engine(self, name: str) -> Path:
        """The environment of an engine that has one of its own."""
        return self.home / "engines" / name

    @property
    def models(self) -> Path:
        return self.home / "models"

    @property
    def cache(self) -> Path:
        """Things that can be made again at the price of a download; safe to delete while nothing is set up."""
        return self.home / "cache"

    @property
    def scratch(self) -> Path:
        """The temporary folder of the tools that set-up runs; emptied at each set-up."""
        return self.cache / "tmp"

    @property
    def stamps(self) -> Path:
        return self.home / "stamps"

    @property
    def setup_lock(self) -> Path:
        return self.home / "locks" / "setup.lock"

    @property
    def log(self) -> Path:
        return self.home / "logs" / "setup.log"

    def left_overs(self) -> list[Path]:
        """What killed set-ups left behind: folders beside the ones that they were to replace."""
        named = [self.home / "venv.new", self.home / "venv.old", self.page / ".vendor.new", self.page / ".vendor.old"]
        engines = [path for end in ("new", "old") for path in sorted((self.home / "engines").glob(f"*.{end}"))]
        return [path for path in (*named, *engines, *sorted(self.cache.glob("*.new"))) if path.exists()]

    def prepare(self) -> None:
        """Make the folders and prove that they can be written to; raises SetupFault with the owner's name if not."""
        folders = (self.home, self.models, self.cache, self.stamps, self.setup_lock.parent, self.log.parent)
        for folder in folders:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                probe = folder / f".probe-{os.getpid()}"
                probe.touch()
                probe.unlink()
            except OSError as fault:
                raise unwritable(folder, fault) from fault

    def shown(self, path: Path) -> str:
        """A path as people like to read it: relative to the project where it lies inside."""
        try:
            return str(path.relative_to(self.project))
        except ValueError:
            return str(path)


def layout_from(environ: Mapping[str, str], project: Path | None = None) -> Layout:
    """The layout that the environment asks for; `MUSE_HOME` may be relative to the current folder or start with ~."""
    base = project or PROJECT
    wanted = environ.get("MUSE_HOME", "")
    home = Path(wanted).expanduser() if wanted else base / ".runtime"
    return Layout(project=base, home=Path(os.path.abspath(home)))  # noqa: PTH100 - keeps symlinks as the user wrote them


def unwritable(path: Path, fault: OSError) -> SetupFault:
    """Turn a failed write under `path` into a fault that says whose folder it is and what to do."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    owner = _owner_of(existing)
    return SetupFault(
        f"{path} cannot be written to ({fault.strerror or fault}); {existing} belongs to {owner}.",
        advice="Make that folder writable for you (a set-up made with sudo leaves folders of root behind), "
        "or set MUSE_HOME to a folder of yours on a disk with room.",
    )


def _owner_of(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, OSError):
        return "somebody unknown"
