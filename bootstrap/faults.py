"""What can end a set-up early, as values; `cli.py` alone turns them into words on the screen and an exit code."""

from __future__ import annotations

from collections.abc import Sequence


class SetupFault(Exception):
    """A stage cannot be finished.

    `what` says in one sentence what failed, `advice` what the user can do about it, `evidence` are the last useful
    lines of the tool that failed (may be empty). The stage's name is added by whoever runs the stages.
    """

    def __init__(self, what: str, *, advice: str, evidence: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.evidence = tuple(evidence)


class StageFailed(Exception):
    """Stage `number` of `total`, named `title`, ended with `fault`."""

    def __init__(self, number: int, total: int, title: str, fault: SetupFault) -> None:
        super().__init__(title)
        self.number = number
        self.total = total
        self.title = title
        self.fault = fault


class Stopped(BaseException):
    """The user or the system asked the set-up to end (Ctrl-C, SIGTERM, a closed terminal).

    No Exception, so that no error handling on the way takes it for a failure.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class UsageFault(Exception):
    """The command line asks for something that does not exist; the message says what does."""
