"""Ten times as much of anything that can be repeated costs about ten times the work, never its square.

Measured is the processor time of this thread, without the collector: what other programs do does not count. The things
are long, so that copying what there is so far shows already with 10,000 of them.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any, Final

import pytest
import trio

from actors.front.reply_stream import StreamOptions, reply_events
from actors.reply import Finished, Reply
from actors.sessions.answer import Answer
from actors.sessions.generated import Generated
from actors.supervisor.lines import LineSplitter
from actors.transcripts.messages import CommitTurn, RecordedTurn, RecordTurn
from actors.transcripts.sessions import Histories
from muse.api.fields import Offenders
from muse.api.message import Message, parse_messages
from muse.api.metrics import MuseMetrics
from muse.api.tools import Tool, ToolCall
from muse.chat.allowed_values import SchemaReader
from muse.chat.channel_types import ChannelParser, TextKind
from muse.chat.channels import PlainParser
from muse.chat.forced_call import ForcedCallParser
from muse.chat.harmony import HarmonyParser
from muse.chat.hermes import HermesParser
from muse.chat.json_scanner import JsonScanner
from muse.chat.marked_text import SCAFFOLD, MarkedText, from_source, join_marked, scaffold
from muse.chat.origins import content_of
from muse.chat.prose import Prose
from muse.chat.seen_prompt import SeenPrompt
from muse.chat.splice import KnownAnswer, Piece, PromptPart, to_parts
from muse.chat.stop_strings import StopMatcher
from muse.chat.think_tags import ThinkTagParser
from muse.json_text import read_object_text
from muse.protocol import Accepted, TextSegment, Tokens
from tests.actors.conversation_model import READY
from tests.unit.parser_runs import TOOLS, marked

SPACE: Final = " " * 40
WORDS: Final = "word " * 8
TIMES: Final = 10
MOST_GROWTH: Final = 15
NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)
Act = Callable[[], object]
BLOCK: Final = '<atem:function_calls>\n<atem:invoke name="g">\n</atem:invoke>\n</atem:function_calls>'
OPENED: Final = ' to=f<|message|><atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="s">'
CALL: Final = '<tool_call>{"name": "g"}</tool_call>'


def fed(parser: ChannelParser, begin: str, things: Sequence[str]) -> Callable[[int], Act]:
    """A turn that begins somehow, and then repeats."""

    def make(count: int) -> Act:
        chunks: list[tuple[str, TextKind]] = [
            *marked(begin),
            *islice(cycle([p for t in things for p in marked(t)]), count),
        ]
        new = parser.copy()

        def act() -> None:
            for text, kind in chunks:
                new.feed(text, kind)
            new.flush()

        return act

    return make


def mixed(parser: ChannelParser, begin: str, things: Sequence[str]) -> Callable[[int], Act]:
    """The same of a worker that knows no ids."""

    def make(count: int) -> Act:
        new = parser.copy()
        new.feed(begin, "mixed")
        chunks = [*islice(cycle(things), count)]

        def act() -> None:
            for text in chunks:
                new.feed(text, "mixed")
            new.flush()

        return act

    return make


def hermes() -> HermesParser:
    return HermesParser(ThinkTagParser(opened=False), TOOLS, header="<|im_start|>assistant\n")


PARSERS: Final[dict[str, Callable[[int], Act]]] = {
    "plain": fed(PlainParser(), "", [WORDS]),
    "think: white space first": fed(ThinkTagParser(opened=False), "", [SPACE, "\n"]),
    "think: white space in a thought": fed(ThinkTagParser(opened=True), "a", [SPACE, "\n"]),
    "think: begun ends": fed(ThinkTagParser(opened=True), "a", ["</thi", SPACE]),
    "think: white space behind": fed(ThinkTagParser(opened=True), "a</think>", [SPACE]),
    "think: words": fed(ThinkTagParser(opened=True), "", [WORDS, SPACE]),
    "harmony: words": fed(HarmonyParser(), " to=user<|message|>", [WORDS]),
    "harmony: headers": fed(HarmonyParser(), "", ["<|start|>", " ", "assistant"]),
    "harmony: white space in a header": fed(HarmonyParser(), "<|start|>", [SPACE]),
    "harmony: ends": fed(HarmonyParser(), " to=self<|message|>a", ["<|eom|>", "<|eot|>", SPACE]),
    "harmony: other tokens": fed(HarmonyParser(), "", ["<|odd|>"]),
    "harmony: messages": fed(HarmonyParser(), "", ["<|start|>assistant to=self<|message|>a<|eom|>"]),
    "harmony: spelled, begun": mixed(HarmonyParser(), "", ["<", "<|", "<|st"]),
    "harmony: spelled, messages": mixed(HarmonyParser(), "", ["<|start|>", "assistant", "<|message|>", "a"]),
    "atem: calls": fed(HarmonyParser(TOOLS), " to=g<|message|>", [BLOCK]),
    "atem: messages with calls": fed(HarmonyParser(TOOLS), "", [f"<|start|>assistant to=g<|message|>{BLOCK}<|eom|>"]),
    "atem: value": fed(HarmonyParser(TOOLS), OPENED, [WORDS, "<", SPACE]),
    "atem: ends of values": fed(HarmonyParser(TOOLS), OPENED, ["</atem:parameter>", WORDS]),
    "atem: parameters": fed(HarmonyParser(TOOLS), OPENED, ['x</atem:parameter>\n<atem:parameter name="s">']),
    "atem: blocks begun": fed(HarmonyParser(TOOLS), " to=g<|message|>", ["<atem:function_calls>", SPACE]),
    "atem: white space": fed(HarmonyParser(TOOLS), f" to=g<|message|>{BLOCK}", [SPACE]),
    "hermes: calls": fed(hermes(), "a", [CALL]),
    "hermes: calls of unknown tools": fed(hermes(), "a", ['<tool_call>{"name": "z"}</tool_call>']),
    "hermes: string": fed(hermes(), '<tool_call>{"name": "', [WORDS, "</tool_call>", SPACE]),
    "hermes: begun tags": fed(hermes(), "a", ["<tool_", SPACE]),
    "hermes: white space": fed(hermes(), f"a{CALL}", [SPACE, "\n"]),
    "hermes: ends of turns": fed(hermes(), "a", ["<|im_end|>", WORDS]),
    "forced": fed(ForcedCallParser(("g",)), '{"name": "g", "arguments": {"s": "', [WORDS, "</", "\\\\"]),
}


def scanned(count: int) -> Act:
    scanner, text = JsonScanner(), '{"a": ["' + "x" * 90
    return lambda: [scanner.feed(text), *(scanner.feed(piece) for piece in islice(cycle(["[", '"', "\\\\"]), count))]


def stopped(count: int) -> Act:
    matcher = StopMatcher([f"{'a' * (900 + number)}b" for number in range(4)])
    return lambda: [matcher.feed("a") for _ in range(count)]


def white_space(count: int) -> Act:
    prose = Prose()
    return lambda: [*(prose.text(SPACE) for _ in range(count)), prose.text("x"), prose.end()]


def lines(count: int) -> Act:
    splitter = LineSplitter(41 * count)
    return lambda: [splitter.feed(b"word " * 8 if number % 1000 else b"\n") for number in range(count)]


def answered(chunks: Iterable[tuple[str, TextKind]], *, ids: bool = True, **options: Any) -> Callable[[int], Act]:
    """Events of a worker that become a reply."""

    def make(count: int) -> Act:
        parser = options.pop("parser", None) or HarmonyParser(TOOLS)
        answer = Answer(
            reply=Reply("r", None),
            model=READY,
            parts=(),
            parser=parser.copy(),
            stops=("aab",),
            max_thinking_tokens=None,
            **options,
        )
        events = [
            Tokens(request_id="r", ids=(1,) if ids else None, text=text, control=ids and kind == "control")
            for text, kind in islice(cycle(chunks), count)
        ]

        def act() -> None:
            answer.take(Tokens(request_id="r", ids=(1,), text=" to=g", control=False))
            answer.take(Tokens(request_id="r", ids=(1,), text="<|message|>", control=True))
            for event in events:
                answer.take(event)
            answer.repair_call()
            answer.flush(is_cut=True)
            answer.exact_ids(None)
            answer.continue_in(Reply("s", None), stops=(), max_thinking_tokens=None)

        return act

    return make


def read_on(count: int) -> Act:
    """A reader that comes back behind every piece, and one that reads all at once."""
    reply = Reply("r", None)
    reply.accept("m")
    for number in range(count):
        reply.append("answer" if number % 2 else "reasoning", WORDS)
        if not number % 4:
            reply.append_call(ToolCall(id=str(number), name="g", arguments="{}"))
    reply.finish(
        Finished(finish_reason="stop", metrics=MuseMetrics(prompt_tokens=1, completion_tokens=1, finish_reason="stop"))
    )
    options = StreamOptions(include_usage=True, reasoning=True, numbered=True, quiet_s=1)

    async def stream() -> None:
        async for _ in reply_events(reply, options):
            pass

    def act() -> None:
        for position in range(0, reply.end, 400):
            reply.read(position)
        reply.text("answer")
        trio.run(stream)

    return act


def generated(count: int) -> Act:
    kept = Generated()
    events = [Tokens(request_id="r", ids=None if number % 5 else (1,), text=WORDS) for number in range(count)]
    return lambda: [*map(kept.add, events), kept.segments(), kept.ids(), kept.text, kept.copy()]


def conversation(count: int) -> tuple[Message, ...]:
    call = ToolCall(id="c", name="g", arguments='{"a": 1}')
    return tuple(
        Message(role="assistant", content=f"a{number % 7}", tool_calls=(call,))
        if number % 2
        else Message(role="user", content="q")
        for number in range(count)
    )


def history(count: int) -> Act:
    """One long conversation that is edited at its beginning, and then said again."""
    messages = conversation(count)
    histories = Histories()

    def commit(said: tuple[Message, ...]) -> None:
        histories.commit(CommitTurn(session_id="s", messages=said, started=NOW, reply_id="r"))
        histories.record(RecordTurn(session_id="s", reply_id="r", turn=RecordedTurn(content="x", reply_id="r")))
        histories.known_answers("s", said, "m")
        histories.view("s")

    def act() -> None:
        commit(messages)
        commit((messages[0], Message(role="assistant", content="edited"), *messages[2:]))
        commit((messages[0], *messages[3:]))

    return act


def parsed(count: int) -> Act:
    """Calls with their results, and messages."""
    calls = count // 10
    tool_calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "g", "arguments": "{}"}}
        for number in range(calls)
    ]
    results = [{"role": "tool", "tool_call_id": f"c{number}", "content": "x"} for number in reversed(range(calls))]
    said = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": tool_calls},
        *results,
    ]
    return lambda: parse_messages(said, Offenders())


def spliced(count: int) -> Act:
    pieces: list[Piece] = []
    for message in range(count):
        pieces += [Piece(text="<|im_start|>assistant\n", origin=SCAFFOLD), Piece(text="a", origin=content_of(message))]
        pieces.append(Piece(text="<|im_end|>\n", origin=SCAFFOLD))
    known = {message: KnownAnswer(ids=(1,), header="<|im_start|>assistant\n") for message in range(count)}
    return lambda: to_parts(pieces, known, ("<|im_start|>", "<|im_end|>"))


def taken_apart(count: int) -> Act:
    # Two letters each: a text may be taken apart into a million pieces at most (`MAX_PIECES`).
    text = join_marked(piece for number in range(count) for piece in (scaffold("<i>"), from_source("ab", number)))
    assert isinstance(text, MarkedText)
    return lambda: [text.split("<i>"), text.split(), text.replace("<i>", "\n"), list(text.strip()), text[5:-5], text[7]]


def seen(count: int) -> Act:
    parts = tuple(
        PromptPart(segment=TextSegment(text=WORDS, special=False), origin=content_of(0)) for _ in range(count)
    )
    accepted = Accepted(
        request_id="r",
        prompt_tokens=count,
        reused_prompt_tokens=3,
        session_reset_reason="new",
        room=1,
        segment_tokens=(1,) * count,
    )
    prompt = SeenPrompt(
        parts=parts, messages=conversation(1), has_tools=False, begun="", model=READY, accepted=accepted
    )
    return lambda: [prompt.to_dict(), prompt.shares()]


def declared(count: int) -> Act:
    """Properties with branches; read once, however often they are used."""
    properties = {f"p{number}": {"anyOf": [{"type": "string"}, {"enum": [1, 2]}]} for number in range(count // 10)}
    tool = Tool(name="t", parameters=json.dumps({"type": "object", "properties": properties}))

    def act() -> None:
        reader = SchemaReader(tool)
        for name in islice(cycle(properties), count):
            reader.property(name)

    return act


SPOKEN: Final[list[tuple[str, TextKind]]] = [(WORDS, "text")]
BROKEN: Final[list[tuple[str, TextKind]]] = [(BLOCK.replace('"g"', '"z"'), "text"), ("b", "text")]
ALL: Final[dict[str, Callable[[int], Act]]] = {
    **PARSERS,
    "json scanner": scanned,
    "objects as text": lambda count: lambda: read_object_text(f'{{"a":{"[" * count}{"1," * count}1{"]" * count}}}'),
    "stop strings": stopped,
    "white space": white_space,
    "lines": lines,
    "answer: words": answered(SPOKEN),
    "answer: words without ids": answered(SPOKEN, ids=False),
    "answer: calls": answered([(BLOCK, "text")]),
    "answer: broken calls": answered(BROKEN),
    "answer: broken calls that are held": answered(BROKEN, repair=True),
    "answer: thoughts": answered(
        [
            ("a", "text"),
            ("<|eom|>", "control"),
            ("<|start|>", "control"),
            ("assistant to=self", "text"),
            ("<|message|>", "control"),
        ]
    ),
    "reply": read_on,
    "generated": generated,
    "history": history,
    "calls that come back": parsed,
    "ids in a prompt": spliced,
    "marked text": taken_apart,
    "seen prompt": seen,
    "properties of a schema": declared,
}


def cost(make: Callable[[int], Act], count: int) -> float:
    """Seconds of this thread."""
    act = make(count)
    gc.disable()
    try:
        began = time.thread_time()
        act()
        return time.thread_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize("few", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_work_grows_with_the_number_of_things(make: Callable[[int], Act], few: int) -> None:
    """Ten times as many things take less than 15 times as long. A machine that is busy may slow down one measurement,
    not three."""
    tries: list[float] = []
    while len(tries) < 3 and not any(growth < MOST_GROWTH for growth in tries):
        less = cost(make, few)
        tries.append(cost(make, few * TIMES) / max(less, 0.0005))
    assert min(tries) < MOST_GROWTH, tries
