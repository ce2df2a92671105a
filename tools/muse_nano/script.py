"""The types of a scripted dialogue: what a client sends, and what the model is to say to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

JsonObject = dict[str, Any]


@attrs.frozen
class Call:
    """One invocation of a tool."""

    name: str
    arguments: Mapping[str, Any] = attrs.Factory(dict)


@attrs.frozen(kw_only=True)
class Answer:
    """One turn of the model. reasoning: messages to itself. calls: messages to tools, each with its invocations; the
    first invocation names the recipient. content: the message to the user; None in a turn that calls tools."""

    reasoning: tuple[str, ...] = ()
    calls: tuple[tuple[Call, ...], ...] = ()
    content: str | None = None


@attrs.frozen
class Turn:
    """messages: what is new since the answer before. images: file names, one for each image part, in order."""

    messages: tuple[JsonObject, ...]
    answer: Answer
    images: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Dialogue:
    """A conversation from its first message on. options: variables of the chat template. pinned: the answer depends
    on what stands far before it, so the dialogue is trained with just these options and behind no other."""

    name: str
    about: str
    turns: tuple[Turn, ...]
    tools: tuple[JsonObject, ...] = ()
    options: Mapping[str, str] = attrs.Factory(dict)
    pinned: bool = False


def user(text: str) -> JsonObject:
    """A message of the user."""
    return {"role": "user", "content": text}


def image_question(text: str) -> JsonObject:
    """A message of the user with one image before its text."""
    return {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}


def tool_result(name: str, call_id: str, text: str) -> JsonObject:
    """What a tool gave back."""
    return {"role": "tool", "name": name, "tool_call_id": call_id, "content": text}


def say(*texts: str) -> Answer:
    """Reasoning messages and then the last text to the user; one text alone is a plain answer."""
    return Answer(reasoning=texts[:-1], content=texts[-1])


def ask(
    name: str, question: str, *answer: str, about: str = "reasoning, then an answer", pinned: bool = False
) -> Dialogue:
    """A dialogue of one question."""
    return Dialogue(name=name, about=about, turns=(Turn((user(question),), say(*answer)),), pinned=pinned)
