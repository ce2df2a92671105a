"""Artifacts and programs for tests of the native engine: muse-nano's tokenizer and template, and the double."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Final, get_args

from tests.native.double import Level
from tests.worker.nano import FOLDER

PROJECT: Final = Path(__file__).resolve().parents[2]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)


def make_artifact(folder: Path, name: str = "nano-dflash") -> Path:
    """A folder like a published artifact's; its program file is never read by the double."""
    artifact = folder / name
    artifact.mkdir(parents=True)
    (artifact / "model.pte").write_bytes(b"ET12")
    for file in ("tokenizer.json", "chat_template.jinja"):
        shutil.copy(FOLDER / "hf" / file, artifact / file)
    return artifact


def make_program(folder: Path, **manner: Any) -> Path:
    """An executable double that behaves so."""
    program = folder / f"muse_glimmer_worker_{len(list(folder.glob('muse_glimmer_worker_*')))}"
    code = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from tests.native.double import main; main()"
    # By a shell, since a "#!" line takes no path with a space in it.
    program.write_text(
        f"#!/bin/sh\nexport MUSE_DOUBLE={shlex.quote(json.dumps(manner))}\n"
        f'exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n'
    )
    program.chmod(0o755)
    return program


def worker_arguments(folder: Path, *flags: str, context: int = 4096, **manner: Any) -> tuple[str, ...]:
    """Of a worker over a double."""
    artifact = folder / "nano-dflash"
    if not artifact.exists():
        make_artifact(folder)
    return (
        *("--engine", "native", "--model", str(artifact), "--context", str(context)),
        *("--worker-bin", str(make_program(folder, context=context, **manner))),
        *(f"--worker-arg={flag}" for flag in flags),
    )
