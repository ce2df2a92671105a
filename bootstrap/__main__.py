"""Start of `python3 -m bootstrap`, and of `python3 <project>/bootstrap` from any folder."""

from __future__ import annotations

import os
import sys

OLDEST_PYTHON = (3, 9)


def refusal() -> str:
    """Say why this interpreter or system cannot even start the set-up, or return an empty string."""
    if sys.version_info < OLDEST_PYTHON:
        return (
            f"Python 3.9 or newer is needed to start the set-up; this is {sys.version.split()[0]} ({sys.executable})."
        )
    if os.name != "posix":
        return "The playground runs on macOS and Linux. On Windows, use it inside WSL."
    return ""


def fill_closed_streams() -> None:
    """Put the null device where a standard stream is closed (`>&-`): else the next file that is opened gets its number,
    and what a tool prints lands in it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    fill_closed_streams()
    reason = refusal()
    if reason:
        sys.stderr.write(reason + "\n")
        sys.exit(2)
    if not __package__:
        # The folder itself was named on the command line, so the project folder is not on the module path yet.
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    from bootstrap.cli import main

    sys.exit(main(sys.argv[1:]))
