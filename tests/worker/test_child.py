"""How the end of a native program is told: by what its log says of it, in either form of log."""

from __future__ import annotations

import sys

import pytest

from muse.worker.child import Child

LLAMA = ("0.00.007.676 E load: tensor 'a' not found", "0.00.007.694 E load: failed", "0.00.008.370 I ended")
EXECUTORCH = (
    "I 00:00:00.000012 executorch:engine.cpp:10] loading",
    "E 00:00:00.000123 executorch:data.cpp:12] Cannot open pos_embed.bin",
    "I 00:00:00.000124 executorch:engine.cpp:11] giving up",
    "E 00:00:00.000200 executorch:engine.cpp:99] failed to create engine",
)


def ended(*lines: str, status: int = 1) -> tuple[Child, int]:
    """A program that wrote this log and ended."""
    text = "".join(line + "\n" for line in lines)
    child = Child([sys.executable, "-c", f"import sys; sys.stderr.write({text!r}); sys.exit({status})"])
    with child._process:  # closes its pipes
        return child, child.wait_end()


@pytest.mark.parametrize(
    ("lines", "errors", "loading", "later"),
    [
        (EXECUTORCH, 2, "Cannot open pos_embed.bin; failed to create engine", "failed to create engine"),
        (LLAMA, 2, "load: tensor 'a' not found; load: failed", "ended"),
        ((*LLAMA[:2], "GGML_ASSERT(x) failed"), 2, "load: tensor 'a' not found; load: failed; GGML_ASSERT(x) failed",
         "GGML_ASSERT(x) failed"),
        (("ERROR: unknown command line flag 'x'",), 0, *["ERROR: unknown command line flag 'x'"] * 2),
        (tuple(f"E 00:00:01.0 executorch:a.cpp:1] {n}" for n in (1, 2, 3, 4, 4)), 4, "2; 3; 4", "4"),
    ],
    ids=["executorch", "llama.cpp", "assertion", "flag", "many"],
)  # fmt: skip
def test_last_words(lines: tuple[str, ...], errors: int, loading: str, later: str) -> None:
    """A failed load has all its errors, the reason first; later on older errors belong to older requests."""
    child, status = ended(*lines)
    assert len(child.errors()) == errors
    told = "the engine's process ended with status 1; its last words: "
    assert child.epitaph(status, while_loading=True) == told + loading
    assert child.epitaph(status) == told + later


def test_a_silent_end_has_no_last_words() -> None:
    """And what it was is still said."""
    child, status = ended(status=3)
    assert child.epitaph(status, while_loading=True) == "the engine's process ended with status 3"
