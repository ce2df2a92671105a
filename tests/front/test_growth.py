"""Invariant: the work for a request grows with its length, not with its square.

Each case is fed ten times as much; CPU time of this process may grow by less than 15 then. Best of two, because
others use the machine, too.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from actors.front.body_budget import BodyBudget
from actors.transcripts.messages import CommitTurn
from actors.transcripts.sessions import Histories
from muse.api.chat_request import SamplingDefaults, parse_chat_request
from muse.api.fields import Offenders
from muse.api.message import Message, parse_messages
from muse.errors import ClientFault
from muse.protocol import Count, ImageSegment, TextSegment
from muse.protocol_codec import decode_command, encode_command
from muse.sizes import MIB, json_string_bytes
from muse.strict_json import decode_json
from tests.front.harness import running

RATIO = 15
SHORTEST_S = 0.008
"""Below, caches and the clock decide."""
JSON_TYPE = "Content-Type: application/json"


def cost(run: Callable[[], object]) -> float:
    times: list[float] = []
    gc.disable()  # its passes over all objects come by their number, whatever made them
    try:
        for _ in range(2):
            began = time.process_time()
            with suppress(ClientFault):  # refusing is work as well
                run()
            times.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(times)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def call(index: int) -> dict[str, object]:
    return {"id": f"c{index}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def conversation_with_calls(count: int) -> list[dict[str, object]]:
    """Messages of one call each, and the result of it."""
    pairs = ([{"role": "assistant", "tool_calls": [call(0)]}, {"role": "tool", "tool_call_id": "c0", "content": "r"}],)
    return [message for _ in range(count // 2) for message in pairs[0]]


def decode(data: bytes) -> Callable[[], object]:
    return lambda: decode_json(data)


JSON_CASES: dict[str, Callable[[int], bytes]] = {
    "lists": lambda n: b"[" + b"[]," * n + b"1]",
    "objects": lambda n: b"[" + b'{"a":1},' * n + b"1]",
    "keys": lambda n: json.dumps({f"k{i}": i for i in range(n)}).encode(),
    "the same key": lambda n: b"{" + b'"a":1,' * n + b'"a":1}',
    "floats": lambda n: b"[" + b"1.5e3," * n + b"1]",
    "escapes": lambda n: b'"' + rb"\u00e9\"" * n + b'"',
    "surrogates": lambda n: b'["' + rb"\ud83d\ude00" * n + b'", "' + rb"\ud83d" + b'"]',
    "bad constants": lambda n: b"[" + b"NaN," * n + b"1]",
    "open lists": lambda n: b"[" * n,
    "open strings": lambda n: b'"\\"' * n,
    "digits": lambda n: b"1" * n,
}


@pytest.mark.parametrize("name", JSON_CASES)
def test_decoding_json(name: str) -> None:
    """10,000 and 100,000 of each thing."""
    make = JSON_CASES[name]
    assert cost(decode(make(100_000))) < RATIO * max(cost(decode(make(10_000))), SHORTEST_S)


PARSED: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "messages": (30_000, lambda n: {"messages": [user("x")] * n}),
    "parts": (100_000, lambda n: {"messages": [user([{"type": "text", "text": "x"}] * n)]}),
    "refused parts": (100_000, lambda n: {"messages": [user([{"type": "file", "file": {}}] * n)]}),
    "calls and results": (30_000, lambda n: {"messages": conversation_with_calls(n)}),
    "tool_calls": (100_000, lambda n: {"messages": [{"role": "assistant", "tool_calls": [call(i) for i in range(n)]}]}),
    "unknown fields": (100_000, lambda n: {"messages": [user("x")], **{f"f{i}": 1 for i in range(n)}}),
    "fields of a message": (100_000, lambda n: {"messages": [{**user("x"), **{f"f{i}": 1 for i in range(n)}}]}),
    "stops": (100_000, lambda n: {"messages": [user("x")], "stop": ["s"] * n}),
    "tools": (100_000, lambda n: {"messages": [user("x")], "tools": [{"type": "function"}] * n}),
    "template options": (
        100_000,
        lambda n: {"messages": [user("x")], "chat_template_kwargs": {f"k{i}": i for i in range(n)}},
    ),
}


@pytest.mark.parametrize("name", PARSED)
def test_checking_a_request(name: str) -> None:
    """What can be repeated in a body, up to its own limit or 100,000."""
    most, make = PARSED[name]
    small, large = make(most // 10), make(most)
    defaults = SamplingDefaults()
    before = cost(lambda: parse_chat_request(small, defaults))
    assert cost(lambda: parse_chat_request(large, defaults)) < RATIO * max(before, SHORTEST_S)


def test_calls_and_results_of_one_message() -> None:
    """Each result finds its call; checked here as if there were no limit to the calls of a message."""

    def parse(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("muse.api.tool_messages.MAX_CALLS", count)
        results = [{"role": "tool", "tool_call_id": f"c{i}", "content": ""} for i in reversed(range(count))]
        calls = {"role": "assistant", "tool_calls": [call(i) for i in range(count)]}
        assert len(parse_messages([calls, *results], Offenders())) == count + 1

    with pytest.MonkeyPatch.context() as patch:
        before = cost(lambda: parse(1_000, patch))
        assert cost(lambda: parse(10_000, patch)) < RATIO * max(before, SHORTEST_S)


def segments(count: int) -> Count:
    text = TextSegment(text='a "quoted" ж', special=False)
    image = ImageSegment(image="QUJD", sha256="0" * 64)
    return Count(request_id="r", prompt_segments=(text, image) * (count // 2))


def shown_history(count: int) -> None:
    histories = Histories()
    messages = tuple(Message(role=("user", "assistant")[i % 2], content="x") for i in range(count))
    now = datetime.now(UTC)
    histories.commit(CommitTurn(session_id="s", messages=messages, started=now, reply_id="r"))
    histories.known_answers("s", messages, "model")
    histories.view("s")


def filled_budget(count: int) -> None:
    budget = BodyBudget(256 * MIB, 60.0, time.monotonic)
    with budget.share(0) as share:
        for _ in range(count):
            budget.grow(share, 1000)


OTHERS: dict[str, Callable[[int], Callable[[], object]]] = {
    "segments to a line and back": lambda n: lambda: decode_command(encode_command(segments(n))),
    "escapes of a text": lambda n: lambda: json_string_bytes('"\n\x01' * n),
    "messages of a session": lambda n: lambda: shown_history(n),
    "chunks of a body in the budget": lambda n: lambda: filled_budget(n),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_follows(name: str) -> None:
    """10,000 and 100,000 of each thing."""
    make = OTHERS[name]
    assert cost(make(100_000)) < RATIO * max(cost(make(10_000)), SHORTEST_S)


@pytest.mark.parametrize("unit", [b"1\r\n \r\n", b"1;" + b"e" * 100 + b"\r\n \r\n"], ids=["chunks", "extensions"])
async def test_chunks_over_a_socket(unit: bytes) -> None:
    """Each chunk of one byte is an event of its own all the way through."""
    costs: list[float] = []
    async with running() as front:
        for count in (1_000, 10_000):
            async with await front.connect() as client:
                head = client.head("POST", "/size", JSON_TYPE, "Transfer-Encoding: chunked", "Connection: close")
                began = time.process_time()
                await client.send(head + unit * count + b"0\r\n\r\n")
                answer = await client.read_all()
                costs.append(time.process_time() - began)
                assert b'{"size":%d}' % count in answer
    assert costs[1] < RATIO * max(costs[0], 0.01)
