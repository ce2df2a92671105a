"""What is noted of a conversation, and when nothing is known of it."""

from __future__ import annotations

import attrs
import pytest

from muse.worker.engines.native.prompt import Prompt
from muse.worker.engines.native.sessions import Held, Plan, foretell, settle
from muse.worker.engines.native.wire import Terminal

PROMPT = Prompt(ids=[5, 1, 2], segment_tokens=(2,), places=())
END = Terminal(
    prompt_tokens=3, completion_tokens=2, finish_reason="stop", reused_prompt_tokens=0, prefilled_prompt_tokens=3,
    ids=(7, 8), prefill_ms=0, decode_ms=0, total_ms=0, prefill_tok_s=0, decode_tok_s=0, vision_encoder_ms=None,
    cancelled=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("end", "resident"),
    [
        (END, [5, 1, 2, 7, 8]),
        (None, None),
        (attrs.evolve(END, ids=None), None),
        (attrs.evolve(END, prompt_tokens=4), None),
    ],
)
def test_only_what_is_certain_is_noted(end: Terminal | None, resident: list[int] | None) -> None:
    """Where the program read another prompt than ours, its ids follow something else."""
    held = Held()
    settle(Plan(name="s", held=held, reason="new", reused=0), PROMPT, end)
    assert held.ids == resident


@pytest.mark.parametrize(
    ("resident", "reason", "reused"),
    [
        ([], "new", 0),
        ([5, 1], "exact_prefix", 2),
        ([5, 1, 2], "equal", 0),
        ([5, 1, 2, 7], "mismatch", 0),
        ([5, 2], "mismatch", 0),
    ],
)
def test_upstreams_rule_is_foretold(resident: list[int], reason: str, reused: int) -> None:
    """contracts/worker-protocol.md section 7."""
    assert foretell(resident, PROMPT) == (reason, reused)
