"""`muse bench warm`: what does a further turn of a long chat cost until its first token?

A chat of about 4,000 tokens. *cold*: its next turn on a session that the model knows nothing of. *warm*: the
same turn on the session that had all turns before. *edited*: the last question replaced by another. *after
another*: a further turn, with a request without a session in between. Time is that until the first text
arrives at the client. Budgets: 0.05 of cold, 0.1 for the edit.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import trio

from muse.bench.client import Connection, data_of
from muse.bench.server import BenchServer
from muse.bench.table import table

BUDGETS = {"warm": 0.05, "edited": 0.1, "after another": 0.05}
CHAT_TOKENS = 4000
_TURNS = 8
_WORDS = "a lighthouse on a rock "  # five tokens


class _Chat:
    """A conversation on one session, as the page holds it."""

    def __init__(self, server: BenchServer, session_id: str | None) -> None:
        self._server = server
        self._session_id = session_id
        self.messages: list[dict[str, str]] = []

    async def ask(self, question: str) -> tuple[float, dict[str, Any]]:
        """Ask, keep the answer; seconds until the first text, and the receipt."""
        self.messages.append({"role": "user", "content": question})
        body: dict[str, Any] = {"messages": self.messages, "max_tokens": 8, "stream": True}
        if self._session_id is not None:
            body["session_id"] = self._session_id
        text, first = "", 0.0
        receipt: dict[str, Any] = {}
        async with Connection(port=self._server.port) as connection:
            started = trio.current_time()
            async with connection.stream("/v1/chat/completions", body) as lines:
                async for line in lines:
                    chunk = data_of(line)
                    if chunk is None:
                        continue
                    piece = chunk["choices"][0]["delta"].get("content") if chunk["choices"] else None
                    if piece and not first:
                        first = trio.current_time() - started
                    text += piece or ""
                    receipt = chunk.get("muse_metrics", receipt)
        if not first:
            raise RuntimeError(f"no text came: {json.dumps(receipt)}")
        self.messages.append({"role": "assistant", "content": text})
        return first, receipt


async def _one_round(server: BenchServer, number: int) -> dict[str, tuple[float, dict[str, Any]]]:
    part = f"{number}. Tell me about {_WORDS * (CHAT_TOKENS // _TURNS // 5)}."
    chat = _Chat(server, f"warm-{number}")
    for _ in range(_TURNS):
        await chat.ask(part)
    cold = _Chat(server, f"cold-{number}")
    cold.messages = list(chat.messages)
    found = {"cold": await cold.ask("And what else?")}
    found["warm"] = await chat.ask("And what else?")
    del chat.messages[-2:]
    found["edited"] = await chat.ask("And why is that so?")
    await _Chat(server, None).ask("Something quite different.")
    found["after another"] = await chat.ask("And then?")
    return found


async def measure_warm(server: BenchServer, *, rounds: int) -> tuple[str, bool]:
    """The table, and whether the budgets hold."""
    results = [await _one_round(server, number) for number in range(rounds)]
    cold = statistics.median(result["cold"][0] for result in results)
    rows: list[list[str]] = []
    fine = True
    for kind in results[0]:
        seconds = statistics.median(result[kind][0] for result in results)
        receipt = results[-1][kind][1]
        ratio, budget = seconds / cold, BUDGETS.get(kind)
        fine &= budget is None or ratio <= budget
        rows.append(
            [
                kind,
                f"{seconds * 1000:.0f}",
                f"{ratio:.3f}",
                "" if budget is None else f"{budget:.2f}",
                str(receipt["session_reset_reason"]),
                str(receipt["reused_prompt_tokens"]),
                str(receipt["prefilled_prompt_tokens"]),
            ]
        )
    heads = ["turn", "first text, ms", "of cold", "budget", "reason", "reused", "read"]
    return f"{table(heads, rows)}\nmedian of {rounds} chats: {'holds' if fine else 'BROKEN'}", fine
