"""The dialogues that the test model muse-nano knows by heart (tests/data/muse-nano), as data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from muse.api.message import Message
from muse.api.tools import Tool, ToolCall
from muse.protocol import IdsSegment, ImageSegment, Segment, TextSegment
from tests.picture_files import segment_of

FOLDER: Final = Path(__file__).resolve().parents[1] / "data" / "muse-nano"
MODEL: Final = FOLDER / "muse-nano-F16.gguf"
DRAFT: Final = FOLDER / "dflash-muse-nano-F16.gguf"
MMPROJ: Final = FOLDER / "mmproj-muse-nano-F16.gguf"
IMAGES: Final = FOLDER / "images"
PATCH: Final = "<|patch|>"
"""Where the template wants a picture."""
WINDOW: Final = 32
"""Tokens that its sliding layers see."""

_CONTENT: Final[dict[str, Any]] = json.loads((FOLDER / "dialogues.json").read_text(encoding="utf-8"))
DATE: Final[str] = _CONTENT["current_date"]
END_OF_TURN: Final[int] = _CONTENT["end_of_turn"]["id"]
END: Final = TextSegment(text=_CONTENT["end_of_turn"]["text"], special=True)
"""The same as a segment."""
DIALOGUES: Final[dict[str, dict[str, Any]]] = {dialogue["name"]: dialogue for dialogue in _CONTENT["dialogues"]}
TEXT_DIALOGUES: Final = tuple(name for name, content in DIALOGUES.items() if not content["turns"][0]["images"])
PLAIN_DIALOGUES: Final = tuple(name for name in TEXT_DIALOGUES if not DIALOGUES[name]["tools"])
"""Those of which a message is no more than a text."""
TOOL_DIALOGUES: Final = tuple(name for name in TEXT_DIALOGUES if DIALOGUES[name]["tools"])
IMAGE_DIALOGUES: Final = tuple(name for name, content in DIALOGUES.items() if content["turns"][0]["images"])
LONG_DIALOGUES: Final = tuple(name for name in TEXT_DIALOGUES if len(DIALOGUES[name]["turns"]) > 1)


def turns(name: str) -> list[dict[str, Any]]:
    """The turns of a dialogue."""
    return DIALOGUES[name]["turns"]


def prompt_ids(turn: dict[str, Any]) -> tuple[int, ...]:
    """The whole prompt of a turn."""
    return tuple(turn["prompt_ids"])


def answer_ids(turn: dict[str, Any]) -> tuple[int, ...]:
    """What is to be answered, without the end of the turn."""
    return tuple(turn["answer"]["ids"])


def as_ids(*parts: tuple[int, ...]) -> tuple[Segment, ...]:
    """A prompt of known ids."""
    return (IdsSegment(ids=tuple(token for part in parts for token in part)),)


def stored_segments(turn: dict[str, Any]) -> tuple[Segment, ...]:
    """The prompt of a turn as text."""
    return tuple(TextSegment(text=part["text"], special=part["special"]) for part in turn["prompt_segments"])


def pictures_of(turn: dict[str, Any]) -> list[ImageSegment]:
    """The pictures that a turn brings."""
    return [segment_of((IMAGES / name).read_bytes()) for name in turn["images"]]


def with_pictures(segments: Iterable[Segment], pictures: Iterable[ImageSegment]) -> tuple[Segment, ...]:
    """A prompt as text with its pictures in their places."""
    left = iter(pictures)
    found: list[Segment] = []
    for segment in segments:
        if not isinstance(segment, TextSegment) or not segment.special:
            found.append(segment)
            continue
        for number, text in enumerate(segment.text.split(PATCH)):
            found += [next(left)] if number else []
            found += [TextSegment(text=text, special=True)] if text else []
    return tuple(found)


def question_segments(name: str) -> tuple[Segment, ...]:
    """The first turn of a dialogue without the system message, as text and pictures."""
    system, *rest = stored_segments(turns(name)[0])
    assert isinstance(system, TextSegment)
    _, start, question = system.text.rpartition("<|start|>")
    return with_pictures((TextSegment(text=start + question, special=True), *rest), pictures_of(turns(name)[0]))


def question_ids(name: str) -> tuple[int, ...]:
    """The first turn of a dialogue without the system message: from the user's message on."""
    ids = prompt_ids(turns(name)[0])
    return ids[ids.index(END_OF_TURN) + 1 :]


def as_messages(bodies: list[dict[str, Any]]) -> list[Message]:
    """Messages of the file, whose arguments of calls are values, as those of the product, where they are text."""
    return [
        Message(
            role=body["role"],
            content=body["content"] or "",
            name=body.get("name"),
            tool_call_id=body.get("tool_call_id"),
            tool_calls=tuple(
                ToolCall(
                    id=call["id"], name=call["function"]["name"], arguments=json.dumps(call["function"]["arguments"])
                )
                for call in body.get("tool_calls", ())
            ),
        )
        for body in bodies
    ]


def as_tools(bodies: list[dict[str, Any]]) -> tuple[Tool, ...]:
    """Tools of the file."""
    return tuple(
        Tool(
            name=body["function"]["name"],
            description=body["function"]["description"],
            parameters=json.dumps(body["function"]["parameters"]),
        )
        for body in bodies
    )
