"""The rules that all errors follow."""

from __future__ import annotations

import pytest

from actors.front.answers import fault_answer
from muse.errors import RETRY_AFTER_S, ClientFault, EnvironmentFault, InternalFault, MuseError, Unavailable, WorkerFault
from muse.isolated.faults import decode_fault, encode_fault

KINDS = (MuseError, ClientFault, Unavailable, WorkerFault, InternalFault, EnvironmentFault)


def retry_after(fault: MuseError) -> int | None:
    header = dict(fault_answer(fault).headers).get(b"retry-after")
    return None if header is None else int(header)


@pytest.mark.parametrize("kind", KINDS)
def test_every_429_and_503_says_when_to_try_again(kind: type[MuseError]) -> None:
    """Whoever raised it, and whatever he knew; other errors only where it was said."""
    for status in (429, 503):
        assert retry_after(kind("x", "X.", status=status)) == RETRY_AFTER_S
        assert retry_after(kind("x", "X.", status=status, retry_after_s=0)) == 0
        assert retry_after(kind("x", "X.", status=status, retry_after_s=7).without_frames()) == 7
    for status in (400, 404, 500, 502):
        assert retry_after(kind("x", "X.", status=status)) is None
    assert retry_after(Unavailable("x", "X.")) == RETRY_AFTER_S


def test_an_error_from_an_isolated_process_says_it_too() -> None:
    assert retry_after(decode_fault(encode_fault(Unavailable("x", "X.")))) == RETRY_AFTER_S
