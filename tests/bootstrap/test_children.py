"""Tools of a set-up: begun when the lock knows them, not before, and named when they cannot be."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bootstrap.children import Runner
from bootstrap.faults import SetupFault

# Far longer than a tool takes to begin where nothing holds it back.
BEGINS_WITHIN_S = 1.0


class Killed(BaseException):
    """The end of a set-up."""


def test_a_tool_does_not_begin_before_the_lock_knows_it(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a set-up that is killed in this moment would leave it behind as a stranger that holds the lock."""
    begun = tmp_path / "begun"
    argv = [sys.executable, "-c", f"open({str(begun)!r}, 'w').close()"]

    def die(_lock: object, _pid: int) -> None:
        end = time.monotonic() + BEGINS_WITHIN_S
        while time.monotonic() < end:
            assert not begun.exists()
            time.sleep(0.01)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("bootstrap.setup_lock.SetupLock.tool_started", die)
        with pytest.raises(Killed):
            runner.run(argv)
    assert not begun.exists()
    assert runner.run(argv).code == 0
    assert begun.exists()


@pytest.mark.parametrize("name", ["no-such-tool", "/no/such/tool"])
def test_a_tool_that_is_not_there_is_named(runner: Runner, name: str) -> None:
    """Not as a failure of Python, which starts it."""
    with pytest.raises(SetupFault, match=f"{name} cannot be started"):
        runner.run([name])


def test_a_tool_gets_its_arguments_and_its_exit_code_is_told(runner: Runner) -> None:
    """Word for word; a death by a signal is a negative number."""
    shown = runner.run([sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "-c", "a b", "--", ""])
    assert (shown.code, shown.lines) == (3, ("['-c', 'a b', '--', '']",))
    killed = runner.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    assert killed.code == -9
