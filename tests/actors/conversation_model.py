"""What a history should be: a second, plain implementation of the rules of actors/transcripts, for comparison.

It knows of each answer what was sent and, if the ids are known, all that was generated; and it writes prompts as one
text, without Jinja, segments or ids.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import attrs

from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.fields import Offenders
from muse.api.images import Picture, PictureReader, PlacedImage
from muse.api.message import MESSAGE_CHARS, Message, content_of, pictures_of
from muse.protocol import IdsSegment, Ready, Segment, Supports, TextSegment
from muse.worker.engines.scripted_tokens import ScriptedTokenizer
from tests.picture_files import data_url, plain, saved

SPECIAL: Final = ("<|im_end|>", "<|im_start|>", "<think>", "</think>", "<|patch|>")
MAX_SESSIONS: Final = 3
MAX_CHARS: Final = 8000
STOP: Final = "STOP"
_BODY: Final = (
    "{% macro body(content) %}{% if content is string %}{{ content }}{% else %}{% for part in content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% else %}{{ '<|patch|>' }}{% endif %}{% endfor %}{% endif %}"
    "{% endmacro %}"
)
_TURNS: Final = (
    "{% for m in messages %}{% set text = m.content %}{% if m.role == 'assistant' and '</think>' in text %}"
    "{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "{{ '<|im_start|>' + m.role + '\n' + body(text) + '<|im_end|>\n' }}{% endfor %}"
)
TEMPLATES: Final = {
    "plain": _BODY
    + "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + body(m.content) + '<|im_end|>\n' }}{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}",
    "thinks": _BODY + _TURNS + "{{ '<|im_start|>assistant\n<think>\n' }}",
}
OPENED: Final = {"plain": "", "thinks": "<think>\n"}
READY: Final = Ready(
    protocol=1,
    engine="none",
    engine_version="1",
    model_id="plain",
    context_length=100_000,
    max_sessions=1,
    max_named_sessions=1,
    max_inflight_requests=1,
    supports=Supports(cancel=True, image=True, ids_with_images=True),
    chat_template=TEMPLATES["plain"],
    special_tokens=SPECIAL,
    bos_token="",
    eos_token=SPECIAL[0],
    eos_ids=(256,),
    device="none",
)
MODELS: Final = [
    attrs.evolve(
        READY,
        model_id=f"{kind} {number}",
        chat_template=TEMPLATES[kind],
        supports=attrs.evolve(READY.supports, ids_with_images=number == 1),
    )
    for kind in TEMPLATES
    for number in (1, 2)
]


def picture(colour: str) -> Picture:
    """One of that colour, as a request brings it."""
    part = {"url": data_url(saved(plain(colour=colour, size=(28, 28)), "PNG"))}
    return PictureReader().read_part(part, "", Offenders())


PICTURES: Final = tuple(map(picture, ("red", "green", "blue")))
MAX_PICTURE_BYTES: Final = sum(len(shown.base64) for shown in PICTURES[:2])


def said(role: str, content: str, shown: Picture | None = None) -> Message:
    """A message; a picture stands in the middle of its text."""
    images = () if shown is None else (PlacedImage(offset=len(content) // 2, picture=shown),)
    return Message(role=role, content=content, images=images)


def written(message: Message) -> str:
    """The content as it is in prompts, a picture by its hash."""
    text = message.content
    for image in reversed(message.images):
        text = text[: image.offset] + mark_of(image.picture.sha256) + text[image.offset :]
    return text


def shown_text(message: Message, kind: str) -> str:
    """What a template of that kind writes of a message."""
    text = written(message)
    if kind == "thinks" and message.role == "assistant" and "</think>" in text:
        return text.split("</think>")[-1].lstrip("\n")
    return text


def silent_before(messages: Sequence[Message], kind: str) -> tuple[str, ...]:
    """Roles of the last messages of which nothing is written. They are no more than the template's own text, and where
    that was another when an answer was given, the answer's ids are not put (muse/chat/splice.py)."""
    roles: list[str] = []
    for message in reversed(messages):
        if shown_text(message, kind):
            break
        roles.append(message.role)
    return tuple(roles)


def kind_of(model_id: str) -> str:
    """Which template a model has."""
    return model_id.split(maxsplit=1)[0]


def mark_of(sha256: str) -> str:
    """What stands for a picture in texts of this model."""
    return f"[{sha256}]"


def is_refused(messages: Sequence[Message], model: Ready) -> bool:
    """A text beside pictures would become a control token."""
    if model.supports.ids_with_images or not pictures_of(messages):
        return False
    return any(token in written(message) for message in messages for token in SPECIAL)


def answers_of(messages: Sequence[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) if message.role == "assistant"]


def request_of(session_id: str, messages: Sequence[Message]) -> ChatRequest:
    """A request as the front hands it over."""
    bodies = [{"role": message.role, "content": content_of(message)} for message in messages]
    body = {"messages": bodies, "session_id": session_id, "stop": [STOP]}
    return parse_chat_request(body, SamplingDefaults())


def next_messages(old: list[Message], how: str, pick: int, text: str, shown: Picture | None = None) -> list[Message]:
    """What a client sends that has these messages. pick: which one, if one is changed. shown: what it shows in what is
    new."""
    old = list(old)
    places = answers_of(old)
    match how:
        case "edit question" | "edit question and cut" if old:
            at = pick % len(old)
            old[at] = said("user", text, shown)
            return old[: at + 1] if how.endswith("cut") else old
        case "replace picture" if old:
            at = pick % len(old)
            if old[at].role == "user":
                old[at] = said("user", old[at].content, shown)
        case "edit answer" if places:
            at = places[pick % len(places)]
            old[at] = attrs.evolve(old[at], content=old[at].content + text)
        case "regenerate" if places:
            return old[: places[-1]] or [said("user", text, shown)]
        case "cut" if old:
            old = old[: pick % len(old)]
        case "foreign":
            old = [said("system", text), said("user", "x"), said("assistant", "y"), said("assistant", text)]
        case _:
            pass
    return [*old, said("user", text, shown)]


@attrs.define
class Given:
    """The model's idea of an answer: what was sent, and all that was generated if that is known. silent: what was
    silent right before it."""

    content: str
    raw: str | None = None
    reasoning: str = ""
    model_id: str = ""
    cost: int = 0
    silent: tuple[str, ...] = ()


@attrs.define
class Session:
    """The model's idea of a session."""

    started: datetime
    messages: tuple[Message, ...] = ()
    answers: list[Given] = attrs.field(factory=list)
    running: str | None = None

    def cost(self) -> int:
        said = sum(MESSAGE_CHARS + len(message.content) for message in self.messages)
        return said + sum(MESSAGE_CHARS + len(answer.content) + answer.cost for answer in self.answers)


class HistoryModel:
    """All sessions, the one used last at the end."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[str, Session] = OrderedDict()

    def kept(self, session_id: str, messages: Sequence[Message]) -> list[Given]:
        """Answers of the model that these messages hand back, up to the first that differs."""
        session = self.sessions.get(session_id)
        contents = [messages[index].content for index in answers_of(messages)]
        kept: list[Given] = []
        for content, answer in zip(contents, session.answers if session else [], strict=False):
            if content != answer.content:
                break
            kept.append(answer)
        return kept

    def hidden(self, session_id: str, messages: Sequence[Message], model: Ready) -> list[Given]:
        """Answers whose ids must not stand beside pictures: what was thought in them would become control tokens."""
        if model.supports.ids_with_images or not pictures_of(messages):
            return []
        kept = self.kept(session_id, messages)
        return [answer for answer in kept if any(token in answer.reasoning for token in SPECIAL)]

    def prompt(self, session_id: str, messages: Sequence[Message], model: Ready) -> str:
        """The prompt as one text."""
        model_id = model.model_id
        kind = kind_of(model_id)
        hidden = self.hidden(session_id, messages, model)
        kept = dict(zip(answers_of(messages), self.kept(session_id, messages), strict=False))
        parts: list[str] = []
        for index, message in enumerate(messages):
            text, answer = shown_text(message, kind), kept.get(index)
            is_hidden = any(answer is one for one in hidden)
            if answer is not None and answer.raw and answer.model_id == model_id and text and not is_hidden:
                is_same_place = answer.silent == silent_before(messages[:index], kind)
                text = OPENED[kind] + answer.raw if is_same_place else text
            parts.append(f"<|im_start|>{message.role}\n{text}<|im_end|>\n")
        return "".join([*parts, "<|im_start|>assistant\n", OPENED[kind]])

    def commit(self, session_id: str, messages: tuple[Message, ...], began: datetime, reply_id: str) -> None:
        """A prompt was taken."""
        kept = self.kept(session_id, messages)
        session = self.sessions.setdefault(session_id, Session(began))
        rest = [Given(messages[index].content) for index in answers_of(messages)[len(kept) :]]
        session.messages, session.running, session.answers = messages, reply_id, kept + rest
        self.sessions.move_to_end(session_id)
        self._forget_oldest()

    def record(self, session_id: str, answer: Given) -> None:
        """The running turn is over."""
        session = self.sessions[session_id]
        session.running = None
        session.answers.append(answer)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        for session_id in list(self.sessions)[:-1]:
            total = sum(session.cost() for session in self.sessions.values())
            shown = {
                image.sha256: len(image.base64) for s in self.sessions.values() for image in pictures_of(s.messages)
            }
            if len(self.sessions) <= MAX_SESSIONS and total <= MAX_CHARS and sum(shown.values()) <= MAX_PICTURE_BYTES:
                return
            if self.sessions[session_id].running is None:
                del self.sessions[session_id]


class ToyVocabulary:
    """Tokens of the scripted engine: bytes, control tokens, and whatever words were generated."""

    def __init__(self) -> None:
        self._tokenizer = ScriptedTokenizer(SPECIAL)

    def word(self, word: str) -> int:
        """A word as a token, which its text alone never becomes."""
        return self._tokenizer.word_id(word.encode())

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """A prompt."""
        ids: list[int] = []
        for segment in segments:
            if isinstance(segment, IdsSegment):
                ids += segment.ids
            elif isinstance(segment, TextSegment):
                ids += self._tokenizer.encode(segment.text, special=segment.special)
            else:
                ids.append(self.word(mark_of(segment.sha256)))
        return ids

    def spelled(self, ids: Sequence[int]) -> str:
        """What ids stand for."""
        return self._tokenizer.decode(ids).decode()
