"""All parsers take anything: no exception, no text lost, no call that was not declared."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Final

import pytest

from muse.chat.atem import AtemParser
from muse.chat.channel_types import ChannelParser, Event, FoundCall, TextKind
from muse.chat.channels import PlainParser
from muse.chat.harmony import HarmonyParser
from muse.chat.hermes import HermesParser
from muse.chat.json_calls import JsonCallParser
from muse.chat.think_tags import ThinkTagParser
from tests.unit.parser_runs import TOOLS, Reader, marked, read, run, shown

HEADER: Final = "<|im_start|>assistant\n"
PARSERS: Final[tuple[Callable[[], ChannelParser], ...]] = (
    PlainParser,
    lambda: ThinkTagParser(opened=False),
    HarmonyParser,
    lambda: HarmonyParser(TOOLS),
    lambda: HermesParser(PlainParser(), TOOLS, header=HEADER),
    lambda: HermesParser(ThinkTagParser(opened=True), TOOLS, header=None),
)
READERS: Final[tuple[Callable[[], Reader], ...]] = (lambda: AtemParser(TOOLS), lambda: JsonCallParser(TOOLS))
BLOCK: Final = (
    '<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="s">é 1</atem:parameter>\n'
    '<atem:parameter name="a">[1, {"k": "v"}]</atem:parameter>\n</atem:invoke>\n<atem:invoke name="g">\n'
    "</atem:invoke>\n</atem:function_calls>"
)
JSON_CALL: Final = '<tool_call>\n{"name": "f", "arguments": {"s": "é \\"1\\"", "a": [1, {}]}}\n</tool_call>'
VALID: Final = (
    BLOCK,
    JSON_CALL,
    f" to=self<|message|>hm<|eom|><|start|>assistant to=f<|message|>{BLOCK}<|eom|><|start|>tool f<|message|>22<|eot|>",
    f"Look: {BLOCK}\n\n{BLOCK} Done.",
    f"<think>\nhm\n</think>\n\nLook:\n{JSON_CALL}\n{JSON_CALL}<|im_end|>",
)
PARTS: Final = (
    *(part for text in VALID for part in re.split(r'(</?[a-z_:]+|<\|[a-z_]+\|>|[">{}:\\\n ])', text) if part),
    *("\\", "\x00", "\ufffd", "'", "NaN", "1e999", "[" * 70, "</", "<atem:", " name=", "x" * 300, "\ud7ff", "🎉"),
)


def mutated(random_: random.Random) -> str:
    """A valid turn with parts cut out, doubled, put elsewhere, replaced or cut off; or mere bytes; or mere parts."""
    choice = random_.random()
    if choice < 0.1:
        return random_.randbytes(random_.randrange(200)).decode("utf-8", "replace")
    if choice < 0.3:
        return "".join(random_.choices(PARTS, k=random_.randrange(60)))
    text = random_.choice(VALID)
    for _ in range(random_.randrange(1, 5)):
        start = random_.randrange(len(text) + 1)
        end = min(len(text), start + random_.choice((0, 1, 5, 40)))
        middle = random_.choice(("", text[start:end] * 2, random_.choice(PARTS), random_.choice(VALID)))
        text = text[:start] + middle + text[end:]
    return text if random_.random() < 0.7 else text[: random_.randrange(len(text) + 1)]


def pieces(text: str, random_: random.Random) -> list[str]:
    """Of one to thirty characters."""
    made: list[str] = []
    while text:
        size = random_.choice((1, 2, 7, 30))
        made.append(text[:size])
        text = text[size:]
    return made


def check_calls(events: list[Event]) -> None:
    """A good call names a declared tool, and its arguments are strict JSON that can be sent."""
    for event in events:
        if isinstance(event, FoundCall):
            assert event.name in {tool.name for tool in TOOLS}
            assert isinstance(json.loads(event.arguments, parse_constant=pytest.fail), dict)
            event.arguments.encode()


def is_cut_out_of(part: str, whole: str) -> bool:
    """All of its characters are there, in their order."""
    rest = iter(whole)
    return all(char in rest for char in part)


def check_reader(new: Callable[[], Reader], text: str, random_: random.Random) -> None:
    """Of one message: the cuts change nothing, and what is no call is all there."""
    events = read(new(), [text])
    assert read(new(), pieces(text, random_)) == events
    check_calls(events)
    if any(isinstance(event, FoundCall) for event in events):
        assert is_cut_out_of(shown(events), text)
    else:
        assert shown(events) == text


def check_parser(new: Callable[[], ChannelParser], text: str, random_: random.Random) -> None:
    """Of a turn: the cuts change nothing, nor does it hurt to do anything at any time."""
    mixed: list[tuple[str, TextKind]] = [(piece, "mixed") for piece in pieces(text, random_)]
    parser = new()
    events = run(parser, [(text, "mixed")])
    assert parser.flush() == []
    assert run(new(), mixed) == events
    check_calls(events)
    parser = new()
    for piece, kind in marked(text):
        action = random_.randrange(40)
        if action == 0:
            parser.flush()
        elif action == 1:
            parser.close_reasoning()
        elif action == 2:
            parser = parser.copy()
        elif action == 3:
            parser.answer_call("f", piece)
        check_calls(parser.feed(piece, kind))
    check_calls(parser.flush())
    assert parser.channel in ("answer", "reasoning")


@pytest.mark.parametrize(
    "seeds",
    [range(5_000), *(pytest.param(range(at, at + 20_000), marks=pytest.mark.slow) for at in range(0, 100_000, 20_000))],
)
def test_any_text_is_read(seeds: range) -> None:
    """Each by one parser of turns and by one of messages, all in turn."""
    for seed in seeds:
        random_ = random.Random(seed)
        text = mutated(random_)
        try:
            check_parser(PARSERS[seed % len(PARSERS)], text, random_)
            check_reader(READERS[seed % len(READERS)], text, random_)
        except Exception as error:
            error.add_note(f"seed {seed}: {text!r}")
            raise
