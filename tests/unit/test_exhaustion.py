"""Refusals of the system are told apart from bugs."""

from __future__ import annotations

import errno

import pytest

from muse.exhaustion import is_exhaustion, reason_of


@pytest.mark.parametrize(
    "fault",
    [
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        *(OSError(number, "x") for number in (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT)),
        MemoryError(),
        RuntimeError("can't start new thread"),
    ],
    ids=repr,
)
def test_refusals(fault: BaseException) -> None:
    """Each has words, too."""
    assert is_exhaustion(fault)
    assert reason_of(fault)


@pytest.mark.parametrize(
    "fault",
    [
        FileNotFoundError(errno.ENOENT, "x"),
        PermissionError(errno.EACCES, "x"),
        RuntimeError("set changed"),
        ValueError(),
    ],
    ids=repr,
)
def test_other_faults(fault: BaseException) -> None:
    """They will come again."""
    assert not is_exhaustion(fault)


def test_the_interpreters_words_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are all that tells a refused thread from another RuntimeError: asked of this interpreter itself."""
    import threading

    # Address space for a stack of this size is never to be had.
    before = threading.stack_size(1 << 46)
    try:
        with pytest.raises(RuntimeError) as caught:
            threading.Thread(target=int).start()
    finally:
        threading.stack_size(before)
    assert is_exhaustion(caught.value)
