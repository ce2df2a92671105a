"""What crosses to the rendering process and back says the same as a rendering in one process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import attrs
import msgspec
import pytest

from muse.api.images import Picture, PlacedImage
from muse.api.message import Message
from muse.api.template_options import TemplateOptions
from muse.api.tools import Tool, ToolCall
from muse.chat import render_wire
from muse.chat.pictures import MARKER
from muse.chat.render_job import JOBS
from muse.chat.render_wire import decode_parts, encode_request, encode_template
from muse.chat.splice import KnownAnswer, PromptPart
from muse.chat.template import ChatTemplate
from muse.errors import ClientFault, EnvironmentFault
from muse.protocol import IdsSegment, ImageSegment, Ready, TextSegment
from tests.actors.conversation_model import READY

SOURCE = (
    "{{ '<|start|>' }}{{ strftime_now('%Y-%m-%d %H:%M %Z %z') }} {{ effort }} {{ seed }}"
    "{% if tools %}{% for t in tools %}{{ t.function.name }}{{ t.function.parameters | tojson }}{% endfor %}{% endif %}"
    "{% for m in messages %}{{ '<|start|>' + m.role }}{{ m.name }}{{ '<|message|>' }}"
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{{ '<|patch|>' if p.type == 'image' else p.text }}{% endfor %}{% endif %}"
    "{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
    "{{ m.tool_call_id }}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
TOKENS = ("<|start|>", "<|message|>", "<|end|>", MARKER)
MODEL = attrs.evolve(READY, chat_template=SOURCE, special_tokens=TOKENS)
RED, BLUE = (Picture(base64=colour * 20, sha256=colour * 64, kind="jpeg", width=30, height=40) for colour in ("a", "b"))
MESSAGES = (
    Message(role="system", content="Be brief. <|end|>"),
    Message(
        role="user",
        content="two: and again",
        name="Zoë",
        images=(
            PlacedImage(offset=5, picture=RED),
            PlacedImage(offset=9, picture=BLUE),
            PlacedImage(offset=14, picture=RED),
        ),
    ),
    Message(role="assistant", content="An answer \U0001f600"),
    Message(role="user", content="go on"),
    Message(
        role="assistant", content="", tool_calls=(ToolCall(id="c1", name="f", arguments='{"a":[1,null,"<|end|>"]}'),)
    ),
    Message(role="tool", content="result", tool_call_id="c1"),
    Message(role="user", content="?"),
)
TOOLS = (Tool(name="f", description="does", parameters='{"type":"object","properties":{"a":{"type":"array"}}}'),)
OPTIONS = TemplateOptions(values=(("effort", "high"), ("seed", 10**30)))
KNOWN = {
    2: KnownAnswer(
        ids=(7, 8, 9), header="<|end|><|start|>assistant", reasoning="thought", spelled="<|message|>An answer"
    )
}
NOWS = (
    datetime(2026, 3, 1, 12, tzinfo=UTC),
    datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=-3, minutes=-30), "NST")),
)


def over_the_wire(
    model: Ready, messages: tuple[Message, ...], now: datetime, known: dict[int, KnownAnswer], *, ids_with_images: bool
) -> tuple[PromptPart, ...]:
    payload = encode_request(
        encode_template(model), messages, now, OPTIONS, TOOLS, known, ids_with_images=ids_with_images
    )
    assert RED.base64.encode() not in payload
    return decode_parts(JOBS["render"](payload), messages, known)


@pytest.mark.parametrize("piece_chars", [render_wire.PIECE_CHARS, 16, 1])
@pytest.mark.parametrize("now", NOWS)
def test_nothing_is_lost_on_the_way(now: datetime, piece_chars: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images, exact ids, tools, calls, huge numbers, the date with its zone, and the origin of every text; also where
    everything is long, and is encoded and decoded in pieces."""
    monkeypatch.setattr(render_wire, "PIECE_CHARS", piece_chars)
    parts = over_the_wire(MODEL, MESSAGES, now, KNOWN, ids_with_images=True)
    template = ChatTemplate.compile(SOURCE, eos_token=MODEL.eos_token, special_tokens=TOKENS)
    assert parts == template.render_parts(MESSAGES, now, OPTIONS, TOOLS, KNOWN)
    images = [part.segment for part in parts if isinstance(part.segment, ImageSegment)]
    assert [image.image for image in images] == [RED.base64, BLUE.base64, RED.base64]
    assert [part.segment.ids for part in parts if isinstance(part.segment, IdsSegment)] == [(7, 8, 9)]


def test_no_piece_of_a_long_conversation_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is long in it: a content, a call, a tool, a thought, the number of messages; on both ways."""
    monkeypatch.setattr(render_wire, "PIECE_CHARS", 500)
    long = "я" * 5000
    call = ToolCall(id="c", name="f", arguments=long)
    messages = [Message(role="user", content=long), Message(role="assistant", content="", tool_calls=(call,))]
    messages += [Message(role="user", content="x")] * 5000
    request = render_wire._Request(
        template=b"",
        messages=render_wire._wired(messages),
        tools=(Tool(name="f", description=long, parameters=long),),
        options="",
        reasoning_effort=None,
        now="",
        zone_name="",
        known=[render_wire._Known(1, "", long)],
        ids_with_images=True,
    )
    pieces = list(render_wire._pieces(request))
    assert msgspec.msgpack.decode(b"".join(pieces), type=render_wire._Request) == request
    assert max(map(len, pieces)) < 1100
    parts = [PromptPart(segment=TextSegment(text=text, special=False)) for text in (long, *["x"] * 5000)]
    batches = list(render_wire._batches(parts))
    assert max(sum(len(part.text) for part in batch) for batch in batches) < 1000
    assert max(map(len, batches)) <= render_wire._BATCH


def test_where_images_make_one_text_nothing_may_spell_a_token() -> None:
    """A message is refused, and the ids of an answer whose thoughts spell one are not used."""
    with pytest.raises(ClientFault) as caught:
        over_the_wire(MODEL, MESSAGES, NOWS[0], KNOWN, ids_with_images=False)
    assert (caught.value.code, caught.value.param) == ("control_token", "messages[0].content")
    spelling = {2: attrs.evolve(KNOWN[2], reasoning="<|end|>")}
    for known, is_used in ((KNOWN, True), (spelling, False)):
        parts = over_the_wire(MODEL, MESSAGES[1:4], NOWS[0], {1: known[2]}, ids_with_images=False)
        assert any(isinstance(part.segment, IdsSegment) for part in parts) is is_used


def test_a_template_that_is_no_text_is_refused() -> None:
    """Half of a surrogate pair in the model file, and one that the template makes."""
    with pytest.raises(EnvironmentFault) as caught:
        encode_template(attrs.evolve(MODEL, chat_template="\ud800"))
    assert caught.value.code == "template_invalid"
    model = attrs.evolve(MODEL, chat_template=SOURCE + "{{ '\\ud800' }}")
    with pytest.raises(EnvironmentFault) as caught:
        over_the_wire(model, MESSAGES, NOWS[0], {}, ids_with_images=True)
    assert caught.value.code == "template_unsupported"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\xc1",
        b"\x90\x90",
        b"\x91\x91\x94\x02\x00\xa0\x63",  # ids of a message that has none
        b"\x91\x91\x94\x03\x00\xa0\x63",  # an image that is not there
        b"\x91\x91\x95\x00\x00\xa1a\x00\xc3",  # a text without its end
    ],
)
def test_what_no_job_writes_is_an_error(answer: bytes) -> None:
    """The process ran a stranger's program."""
    with pytest.raises((ValueError, LookupError)):
        decode_parts(answer, MESSAGES, KNOWN)
