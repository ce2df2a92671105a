"""Finding a Python: what is asked, what is refused and why, and what the user can choose."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bootstrap import interpreters
from bootstrap.faults import SetupFault
from bootstrap.interpreters import Interpreter, find_interpreter, probe

GOOD: dict[str, Any] = {
    "version": [3, 12, 1],
    "implementation": "CPython",
    "bits": 64,
    "machine": "arm64",
    "free_threaded": False,
    "venv": True,
    "ensurepip": True,
    "pip": True,
}


def fake_python(folder: Path, name: str, **told: Any) -> Path:
    """A program that answers the probe as told, whatever it is asked."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{json.dumps({**GOOD, **told})}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place where Pythons are looked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.delenv(interpreters.CHOICE_VARIABLE, raising=False)
    monkeypatch.setattr(interpreters, "candidates", lambda home: map(str, sorted(folder.iterdir())))
    return folder


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"version": [3, 10, 14]}, "too old"),
        ({"version": [3, 15, 0]}, "newer than"),
        ({"implementation": "PyPy"}, "not CPython"),
        ({"bits": 32}, "32 bits"),
        ({"free_threaded": True}, "free-threaded"),
    ],
)
def test_unfit_pythons_are_refused_with_the_reason(only: Path, told: dict[str, Any], reason: str) -> None:
    """Each kind of unfit Python is passed over, and the report can say why."""
    fake_python(only, "python3", **told)

    found, refused = find_interpreter(only)

    assert found is None
    assert len(refused) == 1
    assert reason in refused[0]


@pytest.mark.parametrize("version", [[3, 11, 0], [3, 12, 9], [3, 13, 0], [3, 14, 2]])
def test_every_locked_version_is_taken(only: Path, version: list[int]) -> None:
    """The range is the one that the lock files are valid for."""
    fake_python(only, "python3", version=version)

    found, refused = find_interpreter(only)

    assert found is not None
    assert refused == []


def test_a_python_that_can_make_environments_is_preferred(only: Path) -> None:
    """One without ensurepip is taken only when there is no other, then rather one with pip."""
    fake_python(only, "1-none", ensurepip=False, pip=False)
    fake_python(only, "2-pip", ensurepip=False)
    without, _ = find_interpreter(only)
    fake_python(only, "3-whole")
    whole, _ = find_interpreter(only)

    assert without is not None
    assert Path(without.path).name == "2-pip"
    assert whole is not None
    assert Path(whole.path).name == "3-whole"


def test_what_is_no_python_is_passed_over(tmp_path: Path) -> None:
    """Shims that fail, programs that print something else, and files that are no programs."""
    for name, text in {
        "fails": "#!/bin/sh\nexit 1\n",
        "chats": "#!/bin/sh\necho hello\n",
        "lists": "#!/bin/sh\necho '[]'",
    }.items():
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        assert probe(str(path)) is None
    (tmp_path / "data").write_bytes(b"\x7fELF broken")
    (tmp_path / "data").chmod(0o755)

    assert probe(str(tmp_path / "data")) is None
    assert probe(str(tmp_path / "missing")) is None


def test_this_python_tells_the_truth() -> None:
    """The probe works on a real interpreter."""
    found = probe(sys.executable)

    assert isinstance(found, Interpreter)
    assert found.version == sys.version_info[:3]
    assert found.objection == ""


def test_the_chosen_python_is_taken_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MUSE_PYTHON is taken at its word: a bad choice is a fault, never silently replaced."""
    good, old = fake_python(tmp_path, "good"), fake_python(tmp_path, "old", version=[3, 9, 6])

    monkeypatch.setenv(interpreters.CHOICE_VARIABLE, str(good))
    found, _ = find_interpreter(tmp_path)
    monkeypatch.setenv(interpreters.CHOICE_VARIABLE, str(old))
    with pytest.raises(SetupFault, match="too old"):
        find_interpreter(tmp_path)
    monkeypatch.setenv(interpreters.CHOICE_VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(SetupFault, match="no working Python"):
        find_interpreter(tmp_path)

    assert found is not None
    assert found.path == str(good)
