"""What the output of a failed tool means, in words for the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bootstrap.children import Finished
from bootstrap.faults import SetupFault

CHECK_NETWORK = "Check the internet connection (and proxy settings), then run the same command again"
MAKE_ROOM = "Make room, or set MUSE_HOME to a folder on another disk, then run the same command again"
FOREIGN_BYTES = (
    "Something between this machine and the package index changes files (a proxy, a broken mirror, a damaged cache); "
    "try another network"
)


@dataclass(frozen=True)
class Meaning:
    """A pattern in a tool's output, and what it says: what failed, and what the user can do."""

    pattern: str
    what: str
    advice: str


def explain(finished: Finished, tool: str, meanings: Sequence[Meaning]) -> SetupFault:
    """The failure as a fault; the first meaning whose pattern is found wins."""
    output = "\n".join(finished.lines)
    for meaning in meanings:
        if re.search(meaning.pattern, output):
            return SetupFault(f"{tool} failed: {meaning.what}", advice=meaning.advice, evidence=finished.evidence())
    reason = f"was ended by signal {-finished.code}" if finished.code < 0 else f"failed with exit code {finished.code}"
    return SetupFault(f"{tool} {reason}.", advice="See the log for the whole story", evidence=finished.evidence())
