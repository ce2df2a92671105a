"""The random conversations of test_session_walk.py with muse-nano: thoughts in the ids, and a window that moves on.

What it thinks is in the ids and not in what the client hands back. Its sliding layers have forgotten what left their
window, so an edit far back costs more than what it changes, down to everything; the answers are the same all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs
import pytest

from muse.api.message import Message
from muse.chat.harmony import HarmonyParser
from muse.protocol import Ready
from tests.faults.test_session_walk import Chatter, Walk, shared, walk
from tests.unit.plain_jinja import render_plain
from tests.worker.nano import DIALOGUES, MODEL, PLAIN_DIALOGUES

pytestmark = pytest.mark.thorough

QUESTIONS: Final = tuple(
    DIALOGUES[name]["turns"][0]["messages"][0]["content"]
    for name in PLAIN_DIALOGUES
    if len(DIALOGUES[name]["turns"]) == len(DIALOGUES[name]["turns"][0]["messages"]) == 1
    and not DIALOGUES[name]["options"]
)


def visible(text: str) -> str:
    """What of an answer is for the user."""
    parser = HarmonyParser()
    pieces = [*parser.feed(text, "mixed"), *parser.flush()]
    return "".join(piece[1] for piece in pieces if isinstance(piece, tuple) and piece[0] == "answer")


class NanoWalk(Walk):
    """Questions that it knows the answers of."""

    questions = QUESTIONS
    context = 4096

    def most_tokens(self, how: str) -> int:
        return 250 if how.startswith("cancel") else self.random.choice((7, 20, 250, 250, 250))

    def shown(self, ids: Sequence[int]) -> str:
        return visible(self.spelled(ids))

    def check_inexact(self, held: str, content: str) -> None:
        """Put off its dialogues it babbles, also halves of characters: then only the ids before them are known."""
        assert held.startswith(content) or content.startswith(held)

    def plain(self, model: Ready, messages: Sequence[Message], client: Chatter) -> str:
        """Known answers as they were generated, the thoughts included."""
        answers = iter(client.answers)
        marked: list[Message] = []
        known: dict[str, str] = {}
        for number, message in enumerate(messages):
            ids = next(answers)[1] if message.role == "assistant" else None
            if ids and message.content:
                mark = f"<answer {number}>"
                known[f" to=user<|message|>{mark}"] = self.spelled(ids)
                marked.append(attrs.evolve(message, content=mark))
            else:
                marked.append(message)
        template = model.chat_template
        assert template is not None
        now = datetime.now(UTC)
        text = render_plain(template, marked, now=now, bos_token=model.bos_token, eos_token=model.eos_token)
        for mark, spelled in known.items():
            assert text.count(mark) == 1
            text = text.replace(mark, spelled)
        return text

    def check_reuse(self, before: Sequence[int], prompt: Sequence[int], reused: int, why: str, *, warm: bool) -> None:
        """Nothing beyond what is common, or what another session left; all of it where the conversation only grew."""
        common = shared(before, prompt)
        assert 0 <= reused < len(prompt)
        if not before:
            assert why == "new"
        elif common == len(before) and warm:
            assert why == ("equal" if len(prompt) == common else "exact_prefix")
            assert reused >= min(common, len(prompt) - 1) - 1
        elif common < len(before):
            assert why == "rewound" if reused else "mismatch"


async def test_a_walk_with_a_window(tmp_path: Path) -> None:
    """Always the same steps; the answers are those of cold runs without exception."""
    assert not (await walk(MODEL, tmp_path, steps=40, seed=1, kind=NanoWalk)).doubts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
async def test_long_walks(tmp_path: Path, seed: int) -> None:
    """A thousand steps, in parts that end before a hang is suspected."""
    assert not (await walk(MODEL, tmp_path, steps=50, seed=seed, kind=NanoWalk)).doubts
