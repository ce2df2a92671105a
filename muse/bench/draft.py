"""`muse bench draft`: does a draft pay, and are the answers the same?

Two servers with the same model, one with the draft (kept whatever it costs), one without; the same questions in turns,
greedily. Speed is tokens by the engine's own time for them. Identical text is what decides the outcome: the draft may
only change the speed. A model with near ties can differ without a fault, since guesses are checked several at a time.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, Final

import attrs

from muse.bench.client import Connection
from muse.bench.server import BenchServer, bench_server
from muse.bench.table import table

QUESTIONS: Final = ("Tell me a long story.", "Write some code.", "Count to sixty.", "Plan my day.", "Make a list.")


@attrs.frozen(kw_only=True)
class Round:
    """What one server said to all questions of a round. proposed, accepted: 0 without a draft."""

    texts: tuple[str, ...]
    tokens: int
    decode_ms: float
    proposed: int
    accepted: int

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.decode_ms * 1000


async def _ask(server: BenchServer, tokens: int) -> Round:
    texts: list[str] = []
    receipts: list[dict[str, Any]] = []
    for question in QUESTIONS:
        body = {
            "messages": [{"role": "user", "content": question}],
            "max_tokens": tokens,
            "temperature": 0,
            "chat_template_kwargs": {"return_reasoning": True},
        }
        async with Connection(port=server.port) as connection:
            status, content = await connection.request("POST", "/v1/chat/completions", body)
        answer: dict[str, Any] = json.loads(content)
        if status != 200:
            raise RuntimeError(f"a question was answered {status}: {answer['error']['message']}")
        message = answer["choices"][0]["message"]
        texts.append(f"{message.get('reasoning_content') or ''}\n{message['content'] or ''}")
        receipts.append(answer["muse_metrics"])
    return Round(
        texts=tuple(texts),
        tokens=sum(receipt["completion_tokens"] for receipt in receipts),
        decode_ms=sum(receipt["decode_ms"] for receipt in receipts),
        proposed=sum(receipt["draft_proposed"] or 0 for receipt in receipts),
        accepted=sum(receipt["draft_accepted"] or 0 for receipt in receipts),
    )


def _difference(with_draft: Round, without: Round) -> str | None:
    """Where the answers part, in words; None: nowhere."""
    for question, one, other in zip(QUESTIONS, with_draft.texts, without.texts, strict=True):
        if one != other:
            same = next(
                (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            return (
                f"{question!r}: the answers part after {same} characters ({one[same:][:30]!r}, {other[same:][:30]!r})"
            )
    return None


async def measure_draft(model: Path, draft: Path, *, rounds: int, tokens: int) -> tuple[str, bool]:
    """The table, and whether the answers are the same with the draft and without."""
    arguments = ["--model", str(model)]
    pairs: list[tuple[Round, Round]] = []
    async with (
        bench_server([*arguments, "--draft", str(draft), "--keep-draft"]) as drafting,
        bench_server(arguments) as plain,
    ):
        await _ask(drafting, tokens)  # warm-up of both, discarded
        await _ask(plain, tokens)
        for number in range(rounds):
            # Alternate which goes first: a machine that warms up or slows down must not favour one.
            if number % 2:
                without, with_draft = await _ask(plain, tokens), await _ask(drafting, tokens)
            else:
                with_draft, without = await _ask(drafting, tokens), await _ask(plain, tokens)
            pairs.append((with_draft, without))
    return report(pairs)


def report(pairs: list[tuple[Round, Round]]) -> tuple[str, bool]:
    """The table of the rounds with the draft and without, and whether the answers are the same."""
    rows: list[list[str]] = []
    for name, answers in (("without a draft", [b for _, b in pairs]), ("with the draft", [a for a, _ in pairs])):
        rates = [answer.rate for answer in answers]
        rows.append([name, f"{statistics.median(rates):.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}"])
    ratio = statistics.median(a.rate / b.rate for a, b in pairs)
    proposed, accepted = sum(a.proposed for a, _ in pairs), sum(a.accepted for a, _ in pairs)
    share = f"{accepted / proposed:.0%}" if proposed else "none"
    difference = next((found for pair in pairs if (found := _difference(*pair)) is not None), None)
    lines = [
        table(["decode, tokens/s", "median", "min", "max"], rows),
        f"ratio {ratio:.2f} (median of {len(pairs)} pairs of {len(QUESTIONS)} answers, {pairs[0][0].tokens} tokens)",
        f"accepted {accepted} of {proposed} guesses ({share})",
        "answers identical" if difference is None else f"answers NOT identical: {difference}",
    ]
    return "\n".join(lines), difference is None
