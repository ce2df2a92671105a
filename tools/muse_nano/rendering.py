"""Messages to prompt text by the model's own chat template, and answers to the text that the model generates.

Text of a client is told from the template's own, as in the product: the first can never become a special token.
Here it is marked by two private characters while the template runs, which is good enough for texts of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from tools.muse_nano.script import Answer, Call, Dialogue, JsonObject
from tools.muse_nano.tokens import BOS, EOM, EOT, MESSAGE, START, encode

TEMPLATE: Final = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
DATE: Final = "2026-11-29"
"""What the template writes as the date of today, unless a dialogue has its own."""

_OPEN, _CLOSE = "\ue000", "\ue001"

Segment = tuple[str, bool]
"""A text, and whether its special tokens are meant."""


def _to_json(value: Any, **_options: Any) -> str:
    return _OPEN + json.dumps(_plain(value), ensure_ascii=False) + _CLOSE


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(_OPEN, "").replace(_CLOSE, "")
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _compile(source: str) -> Any:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    return environment.from_string(source)


_COMPILED: Final = _compile(TEMPLATE)


def _marked(message: JsonObject) -> JsonObject:
    def mark(text: str) -> str:
        return _OPEN + text + _CLOSE if text else text

    marked = dict(message)
    content = message.get("content")
    if isinstance(content, str):
        marked["content"] = mark(content)
    elif content is not None:
        marked["content"] = [part | ({"text": mark(part["text"])} if "text" in part else {}) for part in content]
    if "reasoning_content" in message:
        marked["reasoning_content"] = mark(message["reasoning_content"])
    return marked


def render(
    messages: Sequence[JsonObject],
    *,
    tools: Sequence[JsonObject] = (),
    options: Mapping[str, str] | None = None,
    generation: bool = True,
) -> list[Segment]:
    """The prompt in segments, neighbours of one kind joined."""
    variables = {"current_date": DATE, **(options or {})}
    text: str = _COMPILED.render(
        messages=[_marked(message) for message in messages],
        tools=list(tools) or None,
        bos_token=BOS,
        add_generation_prompt=generation,
        **variables,
    )
    segments: list[Segment] = []
    for index, piece in enumerate(text.replace(_OPEN, _CLOSE).split(_CLOSE)):
        if piece:
            segments.append((piece, index % 2 == 0))
    return segments


def plain_text(segments: Sequence[Segment]) -> str:
    """The prompt as one text, as any other renderer gives it."""
    return "".join(text for text, _ in segments)


def to_ids(tokenizer: Tokenizer, segments: Sequence[Segment], *, joined: bool = False) -> list[int]:
    """Ids of a prompt, each segment cut on its own. joined: cut as one text instead, which differs by a merge here and
    there, and where a client spelled a special token."""
    if joined:
        return encode(tokenizer, plain_text(segments), special=True)
    return [token for text, special in segments for token in encode(tokenizer, text, special=special)]


def block(calls: Sequence[Call]) -> str:
    """An ATEM block with its invocations."""
    return "<atem:function_calls>\n" + "".join(map(_invocation, calls)) + "</atem:function_calls>"


def _invocation(call: Call) -> str:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in call.arguments.items()}
    lines = "".join(f'<atem:parameter name="{key}">{value}</atem:parameter>\n' for key, value in values.items())
    return f'<atem:invoke name="{call.name}">\n{lines}</atem:invoke>\n'


def generated_text(answer: Answer) -> str:
    """What the model writes behind the generation prompt, the end of the turn included."""
    bodies = [("self", text) for text in answer.reasoning]
    bodies += [(calls[0].name, block(calls)) for calls in answer.calls]
    if answer.content is not None:
        bodies.append(("user", answer.content))
    return f"{EOM}{START}assistant".join(f" to={whom}{MESSAGE}{body}" for whom, body in bodies) + EOT


def as_message(answer: Answer, *, reasoning: bool, first_call: int = 1) -> JsonObject:
    """The answer as clients send it back. reasoning: echo that, too. first_call: number of the first call's id."""
    message: JsonObject = {"role": "assistant", "content": answer.content}
    if reasoning and answer.reasoning:
        message["reasoning_content"] = "\n\n".join(answer.reasoning)
    calls = [call for body in answer.calls for call in body]
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call-{first_call + n}",
                "type": "function",
                "function": {"name": call.name, "arguments": dict(call.arguments)},
            }
            for n, call in enumerate(calls)
        ]
    return message


@attrs.frozen(kw_only=True)
class RenderedTurn:
    """A turn of a dialogue. prompt: everything before the answer, older answers with their exact text. answer: the
    generated text with the end of the turn."""

    prompt: tuple[Segment, ...]
    answer: str
    images: tuple[str, ...]


def rendered_turns(dialogue: Dialogue) -> list[RenderedTurn]:
    """The dialogue as it goes in one session: each prompt is the one before, its answer as generated, and the rest."""
    turns: list[RenderedTurn] = []
    history: list[Segment] = []
    images: tuple[str, ...] = ()
    for turn in dialogue.turns:
        if turns:
            history += [(turns[-1].answer, True), *delta(turn.messages)]
        else:
            history = render(turn.messages, tools=dialogue.tools, options=dialogue.options)
        images += turn.images
        turns.append(RenderedTurn(prompt=tuple(history), answer=generated_text(turn.answer), images=images))
    return turns


def delta(messages: Sequence[JsonObject], *, generation: bool = True) -> list[Segment]:
    """Segments of messages alone, without what the template puts in front of them."""
    system = {"role": "system", "content": ""}
    front = render([system], generation=False)
    whole = render([system, *messages], generation=generation)
    (first, special), rest = whole[0], whole[1:]
    cut = first[len(front[0][0]) :]
    return [(cut, special), *rest] if cut else rest
