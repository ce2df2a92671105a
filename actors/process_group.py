"""Signals to process groups of ours, by the rules of Linux and macOS alike."""

from __future__ import annotations

import os


def signal_group(leader: int, number: int) -> bool:
    """Signal every process of the group that `leader` leads. False: nobody is left to be signalled.

    A group without a living process is answered ESRCH. On macOS a group that holds only zombies is answered EPERM; all
    members of our groups are ours, so here it means nothing else.
    """
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
