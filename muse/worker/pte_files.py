"""The files of a Muse Glimmer artifact: its program, and beside it the tokenizer and the chat template of the model
(contracts/pte-contract.md section 2). For both engines that run such programs. Faults are EngineFault `bad_request`,
fatal, with what was expected and where.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from muse.worker.engines.base import EngineFault
from muse.worker.hf_tokenizer import JsonTokenizer

_PROGRAM: Final = "model.pte"


def program_at(path: Path) -> Path:
    """The program: the file itself, or of a folder `model.pte` or the only `.pte` file."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise artifact_fault(f"there is no artifact at {path}: name its folder, or the .pte file in it")
    found = sorted(path.glob("*.pte"))
    if path / _PROGRAM in found:
        check_file(path / _PROGRAM, "the program", "fetch the artifact again")
        return path / _PROGRAM
    found = [file for file in found if file.is_file()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise artifact_fault(f"there is no program in {path}: a file {_PROGRAM} was expected")
    names = ", ".join(file.name for file in found)
    raise artifact_fault(f"{path} has several programs ({names}): name the file, or call the one to be used {_PROGRAM}")


def tokenizer_beside(program: Path) -> tuple[Path, JsonTokenizer]:
    """The model's tokenizer, and its file."""
    path = _beside(program, "tokenizer.json", "tokenizer")
    return path, JsonTokenizer(path)


def template_beside(program: Path) -> str:
    """The model's chat template."""
    path = _beside(program, "chat_template.jinja", "chat template")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as fault:
        raise artifact_fault(f"{path} cannot be read: {fault.strerror}") from fault
    except UnicodeDecodeError as fault:
        raise artifact_fault(f"{path} is no text in UTF-8") from fault


def artifact_fault(message: str) -> EngineFault:
    """What is wrong with the artifact: the load has failed."""
    return EngineFault("bad_request", message, fatal=True)


def check_file(path: Path, what: str, advice: str) -> None:
    """See that a file is there and can be read. Raises EngineFault `bad_request`."""
    if path.is_dir():
        raise artifact_fault(f"{path} is a folder, and a file was expected there: {what}. Put it aside, then {advice}")
    if path.is_file():
        return
    if os.path.lexists(path):
        raise artifact_fault(f"{path} is no file, or a link to none, and a file was expected there: {what}; {advice}")
    raise artifact_fault(f"{path} is missing: {what}; {advice}")


def _beside(program: Path, name: str, what: str) -> Path:
    path = program.parent / name
    check_file(path, f"the model's {what}", "fetch it from the repository of the model's weights")
    return path
