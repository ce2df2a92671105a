"""Pictures in prompts: each stands where the template wants it, none is left out, and nobody forges a place for one."""

from __future__ import annotations

from datetime import datetime

import pytest

from muse.api.fields import Offenders
from muse.api.images import Picture, PictureReader, PlacedImage
from muse.api.message import Message
from muse.api.tools import Tool, ToolCall
from muse.chat.pictures import path_of_picture
from muse.chat.splice import KnownAnswer
from muse.chat.template import ChatTemplate
from muse.errors import ClientFault
from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment
from tests.picture_files import data_url, plain, saved
from tests.worker.nano import DATE, FOLDER, IMAGE_DIALOGUES, pictures_of, stored_segments, turns, with_pictures

NOW = datetime.fromisoformat(DATE)
SPECIAL = ("<|begin_of_text|>", "<|start|>", "<|message|>", "<|eot|>", "<|eom|>", "<|patch|>")
HEADER = "<|eot|><|start|>assistant"


def picture(colour: str) -> Picture:
    part = {"url": data_url(saved(plain(colour=colour, size=(28, 28)), "PNG"))}
    return PictureReader().read_part(part, "", Offenders())


RED, BLUE = picture("red"), picture("blue")


def said(content: str, *placed: tuple[int, Picture], role: str = "user", **fields: object) -> Message:
    images = tuple(PlacedImage(offset=offset, picture=shown) for offset, shown in placed)
    return Message(role=role, content=content, images=images, **fields)


def template(source: str | None = None, special: tuple[str, ...] = SPECIAL) -> ChatTemplate:
    text = source or (FOLDER / "hf" / "chat_template.jinja").read_text(encoding="utf-8")
    return ChatTemplate.compile(text, bos_token="<|begin_of_text|>", special_tokens=special)


def render(*messages: Message, known: dict[int, KnownAnswer] | None = None) -> tuple[Segment, ...]:
    """By the template of Muse."""
    return template().render_segments(messages, now=NOW, known=known)


def shown(segments: tuple[Segment, ...]) -> list[str]:
    """Behind the system message: what the client wrote, pictures by colour, and the template's own in brackets."""
    colours = {RED.sha256: "RED", BLUE.sha256: "BLUE"}
    found = [
        colours[part.sha256]
        if isinstance(part, ImageSegment)
        else str(part.ids)
        if isinstance(part, IdsSegment)
        else f"[{part.text.rpartition('<|start|>user')[2]}]"
        if part.special
        else part.text
        for part in segments
    ]
    return [part for part in found if part]


@pytest.mark.parametrize("name", IMAGE_DIALOGUES)
def test_the_known_prompts_come_out(name: str) -> None:
    """As they were trained."""
    turn = turns(name)[0]
    (image,) = pictures_of(turn)
    part = {"url": f"data:image/{'jpeg' if name == 'image-blue' else 'png'};base64,{image.image}"}
    message = said("What colour is this?", (0, PictureReader().read_part(part, "", Offenders())))
    assert render(message) == with_pictures(stored_segments(turn), [image])


def test_pictures_stand_where_the_client_put_them() -> None:
    """Before, between and behind its texts, or alone."""
    assert shown(render(said("one two", (0, RED), (4, BLUE), (7, RED)))) == [
        "[<|message|>]", "RED", "one ", "BLUE", "two", "RED", f"[{HEADER}]",
    ]  # fmt: skip
    assert shown(render(said("", (0, BLUE), (0, BLUE)))) == ["[<|message|>]", "BLUE", "BLUE", f"[{HEADER}]"]


def test_pictures_of_several_messages_keep_their_order() -> None:
    """Results of tools may be pictures as well."""
    call = ToolCall(id="c1", name="camera", arguments="{}")
    messages = (
        said("look", (4, RED)),
        Message(role="assistant", content="", tool_calls=(call,)),
        said("here", (0, BLUE), role="tool", tool_call_id="c1"),
    )
    parts = shown(render(*messages))
    assert [part for part in parts if part in ("RED", "BLUE", "look", "here")] == ["look", "RED", "BLUE", "here"]


def test_a_marker_that_a_client_wrote_is_text() -> None:
    """It takes no picture's place, and moves none."""
    parts = render(said("<|patch|> and <|patch|>", (5, RED)))
    assert shown(parts) == ["[<|message|>]", "<|pat", "RED", "ch|> and <|patch|>", f"[{HEADER}]"]
    assert shown(render(said("<|patch|>"))) == ["[<|message|>]", "<|patch|>", f"[{HEADER}]"]


def test_an_answer_behind_a_picture_is_handed_back_by_its_ids() -> None:
    """Also where the picture was the last that the client said."""
    question, answer, more = said("what?", (5, RED)), Message(role="assistant", content="A dog."), said("and?")
    first = render(question)
    last = first[-1]
    assert isinstance(last, TextSegment)
    parts = render(question, answer, more, known={1: KnownAnswer(ids=(7, 8), header=last.text)})
    assert shown(parts) == ["[<|message|>]", "what?", "RED", f"[{HEADER}]", "(7, 8)", "[<|message|>]", "and?",
                            f"[{HEADER}]"]  # fmt: skip
    assert parts[: len(first)] == first


LOST = "{% for m in messages %}{{ m.content if m.content is string else '' }}{% endfor %}{# <|patch|> #}"
PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text or MARK }}{% endfor %}{% endfor %}"
TWICE = PARTS.replace("MARK", "'<|patch|><|patch|>'")
FIRST = "{% for m in messages %}{{ '<|patch|>' if loop.first }}{{ m.content[-1].text }}{% endfor %}"


@pytest.mark.parametrize(("source", "found"), [(LOST, 0), (TWICE, 4), (FIRST, 1)], ids=["lost", "twice", "first"])
def test_a_picture_too_many_or_too_few_is_refused(source: str, found: int) -> None:
    """Never is one dropped silently."""
    with pytest.raises(ClientFault, match=f"has {found} places for the 2 pictures") as caught:
        template(source).render_segments([said("x", (0, RED)), said("y", (0, BLUE))], now=NOW)
    assert caught.value.code == "message_dropped"


@pytest.mark.parametrize(
    ("source", "special"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", SPECIAL),
        ("{% for m in messages %}<|vision_start|><|image_pad|><|vision_end|>{% endfor %}", ("<|image_pad|>",)),
        ("{% for m in messages %}{{ '<|patch|>' }}{% endfor %}", ("<|eot|>",)),
    ],
    ids=["no marker", "of another model", "no token"],
)
def test_a_template_without_a_known_place_is_refused(source: str, special: tuple[str, ...]) -> None:
    """With the message that has the first picture."""
    with pytest.raises(ClientFault, match="no place for pictures") as caught:
        template(source, special).render_segments([said("x"), said("y", (0, BLUE))], now=NOW)
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "messages[1].content")


def test_the_chatml_of_ours_sees_no_pictures() -> None:
    """It stands in for a template that is not there."""
    with pytest.raises(ClientFault, match="no place for pictures"):
        ChatTemplate.fallback(special_tokens=SPECIAL).render_segments([said("x", (0, RED))], now=NOW)


def test_tools_written_as_text_go_with_no_pictures() -> None:
    """A ChatML template that knows pictures but no tools."""
    source = "<|im_start|>" + PARTS.replace("MARK", "'<|patch|>'")
    chatml = template(source, (*SPECIAL, "<|im_start|>"))
    assert len(chatml.render_segments([said("x", (0, RED))], now=NOW)) == 3
    with pytest.raises(ClientFault, match="no place for pictures"):
        chatml.render_segments([said("x", (0, RED))], now=NOW, tools=[Tool(name="clock")])


def test_a_text_that_spells_a_control_token_is_found() -> None:
    """In contents and names, with its place; not across a picture, where there is none."""
    check = template().check_spellings
    check([said("<|eot|>", (4, RED)), said("<|eot"), said("|>")])
    for message, path in (
        (said("a <|eot|>", (0, RED)), "messages[1].content"),
        (said("<|patch|>"), "messages[1].content"),
        (said("x", name="<|start|>"), "messages[1].name"),
        (Message(role="assistant", content="It is <|message|>."), "messages[1].content"),
    ):
        with pytest.raises(ClientFault) as caught:
            check([said("fine", (0, RED)), message])
        assert (caught.value.code, caught.value.param) == ("control_token", path)


def test_the_place_of_a_picture_in_its_request() -> None:
    """By its number among all of them."""
    messages = [said("x"), said("y", (0, RED), (1, RED)), said("z"), said("", (0, BLUE))]
    assert [path_of_picture(messages, number) for number in range(3)] == [
        "messages[1].content",
        "messages[1].content",
        "messages[3].content",
    ]
