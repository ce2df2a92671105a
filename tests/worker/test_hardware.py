"""The name of the processor, as Linux tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muse.worker import hardware


def test_this_machine_has_a_name() -> None:
    """One line, as it is shown."""
    name = hardware.processor_name()
    assert name
    assert name == " ".join(name.split())


def test_without_a_name_it_is_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ARM machines tell none, and the file may be out of reach."""
    monkeypatch.setattr(hardware.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(hardware.sys, "platform", "linux")
    monkeypatch.setattr(Path, "read_text", lambda *_arguments, **_options: "processor\t: 0\nCPU part\t: 0xd0c\n")
    assert hardware.processor_name() == "aarch64"

    def unreadable(*_arguments: object, **_options: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert hardware.processor_name() == "aarch64"
