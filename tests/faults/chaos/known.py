"""What the clients ask, and how an answer is told to be right.

muse-nano knows its dialogues by heart, so the right answer is known to the last byte; of other models only its form.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, Final, Protocol

import attrs
import jsonschema

from tests.faults.chaos.reading import Said, Wrong
from tests.picture_files import data_url
from tests.worker.nano import DATE, DIALOGUES, IMAGE_DIALOGUES, IMAGES, PLAIN_DIALOGUES, TOOL_DIALOGUES

SCHEMAS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "object",
        "properties": {
            "animal": {"enum": ["fox", "owl", "hen"]},
            "legs": {"type": "integer", "minimum": 0, "maximum": 9},
            "wild": {"type": "boolean"},
        },
        "required": ["animal", "legs", "wild"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"enum": ["apple", "stone", "river", "Grüße", "🎉"]}, "minItems": 12, "maxItems": 24},
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 24}, "tags": {"$ref": "#/$defs/tags"}},
        "required": ["name", "tags"],
        "additionalProperties": False,
        "$defs": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 4}},
    },
    {"type": "string", "pattern": "^[a-f]{60}$"},
)
"""Each has an end, whatever the model makes of it, within MOST_TOKENS."""
TIMER: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "set_timer",
        "description": "Start a timer",
        "parameters": {
            "type": "object",
            "properties": {
                "minutes": {"type": "integer", "minimum": 1, "maximum": 60},
                "sound": {"enum": ["bell", "horn"]},
                "note": {"type": "string", "maxLength": 20},
            },
            "required": ["minutes", "sound", "note"],
            "additionalProperties": False,
        },
    },
}
MOST_TOKENS: Final = 400


class Want(Protocol):
    """What an answer has to be. Both raise Wrong. `check_start`: of an answer that was cut."""

    def check(self, said: Said) -> None: ...

    def check_start(self, said: Said) -> None: ...


@attrs.frozen(kw_only=True)
class ByHeart:
    """A memorised answer. is_shown: the reasoning was asked for."""

    reasoning: str
    answer: str
    calls: tuple[tuple[str, Any], ...]
    tokens: int

    @classmethod
    def of(cls, turn: Mapping[str, Any]) -> ByHeart:
        """The answer of a turn of tests/data/muse-nano/dialogues.json."""
        message = turn["answer"]["message"]
        return cls(
            reasoning="\n\n".join(turn["answer"]["reasoning"]),
            answer=message["content"] or "",
            calls=tuple((c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())),
            tokens=len(turn["answer"]["ids"]),
        )

    def check(self, said: Said) -> None:
        assert said.metrics is not None
        tokens = said.metrics["completion_tokens"] + said.metrics["earlier_tokens"]
        came = (said.reasoning, said.answer, tuple(said.called), said.finish, tokens)
        finish = "tool_calls" if self.calls else "stop"
        expected = (self.reasoning, self.answer, self.calls, finish, self.tokens)
        if came != expected:
            raise Wrong(f"expected {expected}, came {came}")

    def check_start(self, said: Said) -> None:
        count = len(said.called)
        is_start = self.reasoning.startswith(said.reasoning) and self.answer.startswith(said.answer)
        if not is_start or tuple(said.called) != self.calls[:count]:
            raise Wrong(f"no beginning of {attrs.astuple(self)}: {said.text()}")
        if said.answer and said.reasoning != self.reasoning:
            raise Wrong(f"reasoning is missing: {said.text()}")


@attrs.frozen
class Form:
    """An answer in JSON that follows a schema."""

    schema: Mapping[str, Any]

    def check(self, said: Said) -> None:
        if said.finish != "stop" or said.reasoning or said.calls:
            raise Wrong(f"no structured output: {said}")
        _check_schema(said.answer, self.schema)

    def check_start(self, said: Said) -> None:
        if said.reasoning or said.calls:
            raise Wrong(f"no structured output: {said}")


@attrs.frozen
class ForcedCall:
    """One call of this tool, and nothing else."""

    tool: Mapping[str, Any]

    def check(self, said: Said) -> None:
        function = self.tool["function"]
        if [name for name, _ in said.called] != [function["name"]] or said.answer or said.finish != "tool_calls":
            raise Wrong(f"not one call: {said}")
        _check_schema(said.calls[0]["function"]["arguments"], function["parameters"])

    def check_start(self, said: Said) -> None:
        if said.answer or said.calls:
            raise Wrong(f"text before a forced call: {said}")


class Free:
    """Any answer that has an end."""

    def check(self, said: Said) -> None:
        if said.finish not in ("stop", "length"):
            raise Wrong(f"finish reason {said.finish}")

    def check_start(self, said: Said) -> None:
        pass


@attrs.frozen(kw_only=True)
class Question:
    """fields: of the request, all but messages. messages: new ones of this turn. is_thinking: reasoning comes first."""

    fields: Mapping[str, Any]
    messages: tuple[dict[str, Any], ...]
    want: Want
    is_thinking: bool = False

    def body(self, before: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """The request, behind the conversation so far."""
        return {**self.fields, "messages": [*before, *self.messages], **fields}


class Nano:
    """Questions that muse-nano knows the answers of."""

    has_images = True
    has_tools = True

    def __init__(self) -> None:
        self._plain = [name for name in PLAIN_DIALOGUES if len(DIALOGUES[name]["turns"]) == 1]
        self._long = [name for name in PLAIN_DIALOGUES if len(DIALOGUES[name]["turns"]) > 1]

    def plain(self, chance: random.Random) -> Question:
        """One turn."""
        return self._questions(chance.choice(self._plain))[0]

    def long(self, chance: random.Random) -> Question:
        """One turn with an answer of some length."""
        return self._questions(chance.choice(("story", "count", "code", "compare", "table", "german")))[0]

    def thinking(self, chance: random.Random) -> Question:
        """One turn with a longer thought."""
        return self._questions(chance.choice(("story", "compare", "plan", "needle-far-1")))[0]

    def dialogue(self, chance: random.Random) -> list[Question]:
        """Several turns."""
        return self._questions(chance.choice(self._long))

    def tools(self, chance: random.Random) -> list[Question]:
        """Tool calls, and mostly a turn with their results."""
        return self._questions(chance.choice(TOOL_DIALOGUES))

    def image(self, chance: random.Random) -> Question:
        """A question about an image."""
        return self._questions(chance.choice(IMAGE_DIALOGUES))[0]

    def constrained(self, **fields: Any) -> dict[str, Any]:
        """A request whose answer is held to a form."""
        (question,) = self._questions("json")
        return {**question.body([]), "max_tokens": MOST_TOKENS, **fields}

    def _questions(self, name: str) -> list[Question]:
        dialogue = DIALOGUES[name]
        options = {**dialogue["options"], "current_date": DATE, "return_reasoning": True}
        fields: dict[str, Any] = {"temperature": 0, "chat_template_kwargs": options}
        if dialogue["tools"]:
            fields["tools"] = dialogue["tools"]
        return [
            Question(
                fields=fields,
                messages=tuple(_with_images(message, turn["images"]) for message in turn["messages"]),
                want=ByHeart.of(turn),
                is_thinking=bool(turn["answer"]["reasoning"]),
            )
            for turn in dialogue["turns"]
        ]


class AnyModel:
    """Questions to a model of which only the form of its answers is known."""

    has_images = False
    has_tools = False
    _questions = ("Name three colours.", "Tell me a story about the sea.", "What is a prime number?", "Why?")

    def plain(self, chance: random.Random) -> Question:
        """One turn."""
        return self._asked(chance, max_tokens=chance.choice((8, 32, 64)))

    def long(self, chance: random.Random) -> Question:
        """One turn with an answer of some length."""
        return self._asked(chance, max_tokens=128)

    def dialogue(self, chance: random.Random) -> list[Question]:
        """Several turns."""
        return [self._asked(chance, max_tokens=32) for _ in range(3)]

    def constrained(self, **fields: Any) -> dict[str, Any]:
        """A request whose answer is held to a form."""
        return {"messages": [{"role": "user", "content": "Make one up."}], "max_tokens": MOST_TOKENS, **fields}

    def _asked(self, chance: random.Random, **fields: Any) -> Question:
        message = {"role": "user", "content": chance.choice(self._questions)}
        return Question(fields={"temperature": 0, **fields}, messages=(message,), want=Free())


def _with_images(message: dict[str, Any], files: list[str]) -> dict[str, Any]:
    if not isinstance(message["content"], list):
        return message
    urls = (data_url((IMAGES / file).read_bytes(), "jpeg" if file.endswith("jpg") else "png") for file in files)
    parts = [
        {"type": "image_url", "image_url": {"url": next(urls)}} if part["type"] == "image" else part
        for part in message["content"]
    ]
    return {**message, "content": parts}


def _check_schema(text: str, schema: Mapping[str, Any]) -> None:
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError) as fault:
        raise Wrong(f"not by its schema: {text!r}: {fault}") from None
