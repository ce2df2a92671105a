"""What a chat template left out of the prompt: found by the origin of its pieces, and refused, never dropped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from muse.api.message import Message
from muse.api.template_options import EFFORT_SETTINGS, EFFORTS, TemplateOptions
from muse.chat.marked_text import DATA, UNKNOWN
from muse.chat.origins import calls_of, content_of, name_of, words_of
from muse.chat.splice import Piece
from muse.errors import ClientFault


def missing_messages(messages: Sequence[Message], pieces: Iterable[Piece]) -> frozenset[int]:
    """Places of the messages that say something, but of which the prompt holds nothing."""
    texts = list(pieces)
    present = {piece.origin for piece in texts}
    return frozenset(
        index
        for index, message in enumerate(messages)
        if message.content.strip()
        and content_of(index) not in present
        and not _is_elsewhere(message.content.strip(), texts)
    )


def wordless_calls(messages: Sequence[Message], pieces: Iterable[Piece]) -> frozenset[int]:
    """Places of the messages whose calls have words beside them that the prompt does not hold as theirs."""
    present = {piece.origin for piece in pieces}
    return frozenset(
        index
        for index, message in enumerate(messages)
        if message.tool_calls and message.content.strip() and content_of(index) not in present
    )


def refuse_missing(messages: Sequence[Message], missing: frozenset[int]) -> None:
    for index in sorted(missing)[:1]:
        raise ClientFault(
            "message_dropped",
            f"The model's chat template leaves out 'messages[{index}]' (role {messages[index].role}) at this place "
            "of the conversation.",
            param=f"messages[{index}]",
        )


def check_names(messages: Sequence[Message], pieces: Sequence[Piece]) -> None:
    present = {piece.origin for piece in pieces}
    for index, message in enumerate(messages):
        if (
            message.name
            and message.role != "tool"
            and name_of(index) not in present
            and not _is_elsewhere(message.name, pieces)
        ):
            raise ClientFault(
                "unsupported_parameter",
                f"The model's chat template has no place for 'messages[{index}].name'.",
                param=f"messages[{index}].name",
            )


def check_calls(messages: Sequence[Message], pieces: Sequence[Piece]) -> None:
    present = {piece.origin for piece in pieces}
    for index, message in enumerate(messages):
        if message.tool_calls and present.isdisjoint((calls_of(index), words_of(index))):
            raise ClientFault(
                "message_dropped",
                f"The model's chat template leaves out the calls of 'messages[{index}]'.",
                param=f"messages[{index}].tool_calls",
            )


def check_effort(
    options: TemplateOptions, values: Mapping[str, object], rendered: str, render: Callable[[str, str], str]
) -> None:
    """Whether the wanted effort is one: Muse Glimmer's template leaves it out where a system message speaks of a
    strength itself (contracts/harmony-format.md section 3). values: those of the settings. render: the conversation
    with another effort; where none makes a difference, the wanted one makes none."""
    for name in EFFORT_SETTINGS:
        wanted = values.get(name)
        if wanted not in EFFORTS:
            continue
        if not any(render(name, other) != rendered for other in EFFORTS if other != wanted):
            param = f"chat_template_kwargs.{name}" if options.reasoning_effort is None else "reasoning_effort"
            raise ClientFault(
                "unsupported_parameter",
                f"'{param}' has no effect on this conversation: the model's chat template leaves it out where a system "
                "message speaks of it. Leave one of them out.",
                param=param,
            )


def _is_elsewhere(text: str, pieces: Iterable[Piece]) -> bool:
    """Whether text that lost its origin on the way is in the prompt all the same."""
    as_json = json.dumps(text, ensure_ascii=False)[1:-1]
    return any(text in piece.text or as_json in piece.text for piece in pieces if piece.origin in (UNKNOWN, DATA))
