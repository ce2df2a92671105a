"""`muse bench ttft`: what does our server add to the time to the first token?

A chat of about 4,000 tokens whose prompt is in the cache, sent again and again, so that the engine itself has next to
nothing to do. The baseline is a direct client of the engine's own inner server, as in `tax`, in turns with requests
through HTTP. The little that the engine evaluates takes 40 to 100 ms on two cores and differs by more than what is
looked for, so each time is counted without it, as the engine reports it. What is added is the difference of a pair.
Budgets: 5 ms (p50), 10 ms (p99).
"""

from __future__ import annotations

import json
from typing import Any, Final

import trio

from muse.bench.client import Connection, data_of
from muse.bench.server import BenchServer
from muse.bench.table import percentile, table
from muse.bench.tax import inner_socket

BUDGET_P50_MS: Final = 5.0
BUDGET_P99_MS: Final = 10.0
CHAT_TOKENS: Final = 4000
MOST_NEW_TOKENS: Final = 8
_TURNS: Final = 8
_WORDS: Final = "a lighthouse on a rock "  # five tokens
_SESSION: Final = "ttft"
_MOST_TOKENS: Final = 4

Messages = list[dict[str, str]]


def _conversation() -> Messages:
    part = _WORDS * (CHAT_TOKENS // _TURNS // 5)
    said: Messages = []
    for turn in range(_TURNS):
        said.append({"role": "user", "content": f"{turn}. Tell me about {part}."})
        said.append({"role": "assistant", "content": "It stands in the sea."})
    return [*said, {"role": "user", "content": "And what else?"}]


async def _served(server: BenchServer, messages: Messages) -> tuple[float, int, str]:
    """Seconds until the first text without the engine's for the prompt, how many tokens of the prompt were evaluated,
    and the reply's id."""
    body = {
        "messages": messages,
        "max_tokens": _MOST_TOKENS,
        "stream": True,
        "session_id": _SESSION,
        "temperature": 0,
        "chat_template_kwargs": {"return_reasoning": True},
    }
    first, reply_id, metrics = 0.0, "", dict[str, Any]()
    async with Connection(port=server.port) as connection:
        started = trio.current_time()
        async with connection.stream("/v1/chat/completions", body) as lines:
            async for line in lines:
                chunk = data_of(line) or {}
                delta: dict[str, Any] = chunk["choices"][0]["delta"] if chunk.get("choices") else {}
                if not first and (delta.get("content") or delta.get("reasoning_content")):
                    first = trio.current_time() - started
                metrics = chunk.get("muse_metrics", metrics)
                reply_id = chunk.get("id", reply_id)
    return (_without_prefill(first, metrics["prefill_ms"]), metrics["prefilled_prompt_tokens"], reply_id)


async def _direct(socket_path: str, prompt: str) -> tuple[float, int]:
    """As above."""
    body = {"prompt": prompt, "n_predict": _MOST_TOKENS, "stream": True, "cache_prompt": True, "temperature": 0}
    first, timings = 0.0, dict[str, Any]()
    async with Connection(unix_path=socket_path) as connection:
        started = trio.current_time()
        async with connection.stream("/completion", body) as lines:
            async for line in lines:
                piece: dict[str, Any] = data_of(line) or {}
                if not first and piece.get("content"):
                    first = trio.current_time() - started
                timings = piece.get("timings", timings)
    return _without_prefill(first, timings["prompt_ms"]), timings["prompt_n"]


def _without_prefill(first_s: float, prefill_ms: float) -> float:
    if not first_s:
        raise RuntimeError("no text came")
    return first_s - prefill_ms / 1000


async def _prompt_of(server: BenchServer, reply_id: str) -> str:
    """The text of a reply's prompt, control tokens included."""
    async with Connection(port=server.port) as connection:
        _, answer = await connection.request("GET", f"/api/replies/{reply_id}/prompt")
    return "".join(segment["text"] for segment in json.loads(answer)["segments"])


def report(served_s: list[float], direct_s: list[float]) -> tuple[str, bool]:
    """The table of paired times, and whether the budgets hold."""
    added_s = [ours - theirs for ours, theirs in zip(served_s, direct_s, strict=True)]
    rows = [
        [name, *(f"{percentile(times, share) * 1000:.1f}" for share in (0.1, 0.5, 0.9, 0.99))]
        for name, times in (("direct, inner socket", direct_s), ("through HTTP", served_s), ("added", added_s))
    ]
    p50_ms, p99_ms = percentile(added_s, 0.5) * 1000, percentile(added_s, 0.99) * 1000
    fine = p50_ms <= BUDGET_P50_MS and p99_ms <= BUDGET_P99_MS
    text = table(["time to first token without prefill, ms", "p10", "p50", "p90", "p99"], rows)
    text += (
        f"\n{len(added_s)} pairs, a chat of {CHAT_TOKENS} tokens in the cache; budget of what is added "
        f"p50 {BUDGET_P50_MS:.0f} ms, p99 {BUDGET_P99_MS:.0f} ms: {'holds' if fine else 'BROKEN'}"
    )
    return text, fine


async def measure_ttft(server: BenchServer, *, rounds: int) -> tuple[str, bool]:
    """The table, and whether the budgets hold. Raises RuntimeError when the chat did not stay in the cache."""
    socket_path = inner_socket(server.home)
    conversation = _conversation()
    *_, reply_id = await _served(server, conversation)
    prompt = await _prompt_of(server, reply_id)
    for _ in range(3):  # fills the cache, and warms both ways up
        await _served(server, conversation)
        await _direct(socket_path, prompt)
    served: list[float] = []
    direct: list[float] = []
    for number in range(rounds):
        # Alternate which goes first, as in `tax`.
        for way in ("served", "direct") if number % 2 else ("direct", "served"):
            if way == "served":
                first, evaluated, _ = await _served(server, conversation)
                served.append(first)
            else:
                first, evaluated = await _direct(socket_path, prompt)
                direct.append(first)
            if evaluated > MOST_NEW_TOKENS:
                raise RuntimeError(f"{way}: {evaluated} tokens of the prompt were evaluated, so the cache was missed")
    return report(served, direct)
