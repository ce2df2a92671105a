"""What we give, we take back: any answer can be sent with the next request, and is known to be the same.

Answers are made of what a model may write, good and broken, in every form; they go through the parser, the reply's log
and the body or the stream's chunks to a client, which hands them back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.reply import Reply
from actors.sessions import answer as answer_module
from actors.sessions.answer import Answer
from actors.transcripts.messages import CommitTurn, RecordedTurn, RecordTurn
from actors.transcripts.sessions import Histories
from muse.api.chat_request import SamplingDefaults, parse_chat_request
from muse.api.metrics import MuseMetrics
from muse.api.responses import ChunkEncoder, completion_body
from muse.chat.channel_types import ChannelParser
from muse.chat.channels import PlainParser
from muse.chat.forced_call import ForcedCallParser
from muse.chat.harmony import HarmonyParser
from muse.chat.hermes import HermesParser
from muse.chat.template import ChatTemplate
from muse.chat.think_tags import ThinkTagParser
from muse.protocol import Tokens
from muse.strict_json import decode_json
from tests.actors.conversation_model import READY
from tests.unit.parser_runs import TOOLS, marked
from tests.unit.test_chat_template_tools import HERMES, MUSE

NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)
TEMPLATES: Final = (ChatTemplate.compile(HERMES), ChatTemplate.compile(MUSE), ChatTemplate.fallback())
PARSERS: Final[dict[str, Callable[[], ChannelParser]]] = {
    "atem": lambda: HarmonyParser(TOOLS),
    "hermes": lambda: HermesParser(ThinkTagParser(opened=False), TOOLS, header="<|im_start|>assistant\n"),
    "forced": lambda: ForcedCallParser(tuple(tool.name for tool in TOOLS)),
    "plain": PlainParser,
}
names = st.sampled_from([*(tool.name for tool in TOOLS), "zz", "", "get"])
deep = st.integers(50, 70).map(lambda depth: "[" * depth + "]" * depth)
numbers = st.sampled_from(["1e999", "-0", "1.50", "9" * 64, "9" * 65, "12345678901234567890", "NaN", "+7", ".5"])
texts = st.text(st.characters(exclude_categories=()), max_size=12)
odd = st.sampled_from(["\ud83d", "\u2028", "\x00", "</atem:parameter>", "</tool_call>", '"', "\\", "é", "True", "null"])
values = st.one_of(texts, odd, numbers, deep, st.just("[" * 40 + "1" + "]" * 40))
json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | texts, st.lists, max_leaves=4)
# Also what constrained decoding may write and `muse.strict_json` refuses.
leaves = (st.none() | st.booleans() | st.integers() | texts).map(json.dumps) | st.sampled_from(
    [
        *("96e012995466444", "-1e999", "9" * 65, "-" + "9" * 5_000, "-0", "1.50", '"\\ud83d"', '"\\u00e9\\/"'),
        *("[" * depth + "{}" + "]" * depth for depth in (63, 65, 2_000)),
        '{"a":' * 1_500 + "0" + "}" * 1_500,
    ]
)
quoted = texts.map(json.dumps) | st.sampled_from(['"\\ud83d"', '"a"', '"a"'])


def objects_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text of objects; names may be there twice."""
    members = st.lists(st.tuples(quoted, values), max_size=3)
    return members.map(lambda found: f"{{{','.join(f'{name}:{value}' for name, value in found)}}}")


objects = objects_of(
    st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3).map(lambda found: f"[{','.join(found)}]") | objects_of(inner),
        max_leaves=5,
    )
)


@st.composite
def atem_turns(draw: st.DrawFn) -> str:
    """Messages of Muse Glimmer: thoughts, words, blocks of calls."""
    turn = ""
    for recipient in draw(st.lists(st.sampled_from(["self", "user", "f", "g"]), min_size=1, max_size=4)):
        body = draw(texts)
        if recipient in ("f", "g"):
            calls = "".join(
                f'<atem:invoke name="{draw(names)}">\n'
                + "".join(
                    f'<atem:parameter name="{draw(st.sampled_from(["s", "n", "a", "x", "b", "u", draw(texts)]))}">'
                    f"{draw(values)}</atem:parameter>\n"
                    for _ in range(draw(st.integers(0, 3)))
                )
                + "</atem:invoke>\n"
                for _ in range(draw(st.integers(1, 3)))
            )
            body += f"<atem:function_calls>\n{calls}</atem:function_calls>"
        turn += f"{'<|start|>assistant' if turn else ''} to={recipient}<|message|>{body}<|eom|>"
    return turn


@st.composite
def json_turns(draw: st.DrawFn) -> str:
    """Thoughts, words and calls of a ChatML model; a forced call is one of these objects."""
    turn = draw(st.sampled_from(["", "<think>hm</think>"]))
    for _ in range(draw(st.integers(1, 4))):
        arguments = draw(
            st.dictionaries(texts, json_values, max_size=3).map(json.dumps)
            | st.sampled_from(["null", '""', "{}", '{"a": 1e999}', '{"a": ' + "[" * 63 + "]" * 63 + "}"])
        )
        call = f'{{"name": {json.dumps(draw(names))}, "arguments": {arguments}}}'
        turn += draw(
            st.sampled_from([f"<tool_call>{call}</tool_call>", call, draw(texts), f"{draw(texts)}<tool_call>{call}"])
        )
    return turn


def answer_to(parser: ChannelParser, turn: str, cut: int, *, is_constrained: bool = False) -> Reply:
    """The answer that becomes of a turn; its text comes in two events for each part. is_constrained: nothing in it is a
    control token, whatever it spells."""
    reply = Reply("r", "s")
    answer = Answer(reply=reply, model=READY, parts=(), parser=parser, stops=(), max_thinking_tokens=None)
    for text, kind in [(turn, "text")] if is_constrained else marked(turn):
        for piece in (text[:cut], text[cut:]) if kind == "text" else (text,):
            answer.take(Tokens(request_id="r", ids=(1,), text=piece, control=kind == "control"))
    answer.flush(is_cut=False)
    return reply


def by_body(reply: Reply) -> dict[str, Any]:
    """The message of the whole body, as a client reads it."""
    metrics = MuseMetrics(prompt_tokens=1, completion_tokens=1, finish_reason="stop")
    body = completion_body(
        reply_id="r",
        model="m",
        created=1,
        text=reply.text("answer"),
        reasoning=reply.text("reasoning"),
        calls=reply.calls,
        metrics=metrics,
    )
    return json.loads(json.dumps(body))["choices"][0]["message"]


def by_stream(reply: Reply) -> dict[str, Any]:
    """The message that a client puts together of the chunks."""
    encoder = ChunkEncoder(reply_id="r", model="m", created=1)
    message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": ""}
    position = 0
    while position < reply.end:
        for piece in reply.read(position):
            position = piece.end
            if piece.call is not None:
                chunk = encoder.tool_call(*piece.call)
            else:
                chunk = encoder.content(piece.text) if piece.channel == "answer" else encoder.reasoning(piece.text)
            delta = json.loads(chunk)["choices"][0]["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key, "")
            if "tool_calls" in delta:
                message.setdefault("tool_calls", []).extend(delta["tool_calls"])
    return message


def check_round_trip(reply: Reply) -> None:
    """Its ids stand in the next prompt, in a session that recorded it."""
    histories = Histories()
    question = {"role": "user", "content": "q"}
    asked = parse_chat_request({"messages": [question]}, SamplingDefaults()).messages
    histories.commit(CommitTurn(session_id="s", messages=asked, started=NOW, reply_id="r"))
    given = RecordedTurn(
        content=reply.text("answer"), reasoning=reply.text("reasoning"), tool_calls=reply.calls, ids=(1,), reply_id="r"
    )
    histories.record(RecordTurn(session_id="s", reply_id="r", turn=given))
    results = [{"role": "tool", "tool_call_id": call.id, "content": "x"} for call in reply.calls]
    for message in (by_body(reply), by_stream(reply)):
        body = decode_json(json.dumps({"messages": [question, message, *results]}).encode())
        messages = parse_chat_request(body, SamplingDefaults()).messages
        assert list(histories.known_answers("s", messages, "")) == [1]


@settings(deadline=None)
@given(st.sampled_from(["atem", "plain"]), atem_turns(), st.integers(0, 40))
def test_answers_of_muse_glimmer_come_back(form: str, turn: str, cut: int) -> None:
    """Thoughts, words and calls in its own language."""
    check_round_trip(answer_to(PARSERS[form](), turn, cut))


@settings(deadline=None)
@given(st.sampled_from(["hermes", "forced", "plain"]), json_turns(), st.integers(0, 40))
def test_answers_with_calls_in_json_come_back(form: str, turn: str, cut: int) -> None:
    """Of a model's own accord and forced."""
    check_round_trip(answer_to(PARSERS[form](), turn, cut))


@settings(deadline=None)
@given(objects, st.integers(0, 40))
@example('{"n":96e012995466444}', 5)
@example('{"a":1,"a":2}', 5)
def test_forced_calls_come_back_letter_by_letter(arguments: str, cut: int) -> None:
    """Whatever constrained decoding wrote; in the session it is the same answer, and in a prompt it can be written."""
    turn = f'{{"name":"g","arguments":{arguments}}}'
    reply = answer_to(PARSERS["forced"](), turn, cut, is_constrained=True)
    assert [(call.name, call.arguments) for call in reply.calls] == [("g", arguments)]
    check_round_trip(reply)
    messages = [
        {"role": "user", "content": "q"},
        by_stream(reply),
        *({"role": "tool", "tool_call_id": call.id, "content": "x"} for call in reply.calls),
    ]
    parsed = parse_chat_request({"messages": messages}, SamplingDefaults()).messages
    assert parsed[1].tool_calls == reply.calls
    for template in TEMPLATES:
        template.render_segments(parsed, now=NOW)


def test_the_most_calls_of_an_answer_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer has more of them than are taken."""

    def reply_of(count: int) -> Reply:
        return answer_to(PARSERS["hermes"](), '<tool_call>{"name": "g"}</tool_call>' * count, 0)

    check_round_trip(reply_of(2_000))
    monkeypatch.setattr(answer_module, "MAX_CALLS", 5)
    assert len(reply_of(9).calls) == 5
