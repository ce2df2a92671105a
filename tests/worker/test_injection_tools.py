"""With models' own tokenisers: nothing that a client writes about tools becomes a control token.

Descriptions, schemas, arguments, ids and results with spellings of control tokens in them have exactly the control
ids that harmless words have there, in the form of Muse Glimmer and in both forms of ChatML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muse.api.message import Message
from muse.api.tools import Tool, ToolCall
from muse.chat.splice import KnownAnswer
from muse.chat.template import ChatTemplate
from muse.protocol import IdsSegment, Ready, Segment, TextSegment
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.gguf import read_model_file
from muse.worker.engines.llamacpp.prompt import PromptEncoder
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from tests.unit.test_chat_template_tools import HERMES
from tests.worker.client import WorkerProcess
from tests.worker.nano import MODEL
from tests.worker.test_injection import forms_of
from tests.worker.test_llamacpp import WRITABLE, socket_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CALM = "calm"
IDS = (5, 6, 7)


@attrs.frozen
class Texts:
    """Everything that a client may write about tools, one text for each place."""

    description: str = CALM
    schema_key: str = CALM
    schema_text: str = CALM
    key: str = CALM
    value: str = CALM
    nested: str = CALM
    call_id: str = CALM
    words: str = CALM
    result: str = CALM

    def tools(self) -> tuple[Tool, ...]:
        schema = {
            "type": "object",
            "properties": {f"k{self.schema_key}": {"type": "string", "description": self.schema_text}},
        }
        return (Tool(name="weather.get", description=self.description, parameters=json.dumps(schema)),)

    def messages(self) -> list[Message]:
        arguments = json.dumps({f"k{self.key}": self.value, "other": [self.nested, {"deep": self.nested}]})
        call = ToolCall(id=f"i{self.call_id}", name="weather.get", arguments=arguments)
        return [
            Message(role="user", content="Rome?"),
            Message(role="assistant", content=self.words, tool_calls=(call,)),
            Message(role="tool", content=self.result, tool_call_id=call.id),
        ]


PLACES = tuple(place.name for place in attrs.fields(Texts))


@attrs.frozen
class Tokenizer:
    """A model's own. encode: segments to ids, as the worker does it. control: id to spelling."""

    encode: Callable[[Sequence[Segment]], Sequence[int]]
    control: dict[int, str]
    templates: dict[str, ChatTemplate]

    def controls(self, template: str, texts: Texts, known: dict[int, KnownAnswer] | None = None) -> list[int]:
        """The control ids of the prompt, and those that known answers stand for."""
        segments = self.templates[template].render_segments(texts.messages(), now=NOW, tools=texts.tools(), known=known)
        assert (IdsSegment(ids=IDS) in segments) == bool(known)
        return [token for token in self.encode(segments) if token in self.control]

    def check(self, template: str, texts: Texts) -> None:
        assert self.controls(template, texts) == self.controls(template, Texts())


def tokenizer_of(
    ready: Ready, encode: Callable[[Sequence[Segment]], Sequence[int]], **sources: str | None
) -> Tokenizer:
    """sources: templates by name; None is the model's own."""
    control: dict[int, str] = {}
    for spelling in ready.special_tokens:
        (token,) = encode((TextSegment(text=spelling, special=True),))
        control[token] = spelling
    templates = {
        name: ChatTemplate.compile(
            source or ready.chat_template or "", bos_token=ready.bos_token, special_tokens=ready.special_tokens
        )
        for name, source in sources.items()
    }
    return Tokenizer(encode, control, templates)


def llama_tokenizer(worker: WorkerProcess, model: Path, **sources: str | None) -> Tokenizer:
    """Of a worker with the llama.cpp engine."""
    ready = worker.ready()
    encoder = PromptEncoder(Client(str(socket_of(worker))), Vocabulary(read_model_file(model)), None)
    return tokenizer_of(ready, encoder.encode, **sources)


@pytest.fixture(scope="module")
def nano() -> Iterator[Tokenizer]:
    """Muse Glimmer's form."""
    with WorkerProcess("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1") as worker:
        yield llama_tokenizer(worker, MODEL, muse=None)


@pytest.fixture(scope="module")
def builtin(llama: WorkerProcess, builtin_model: Path) -> Tokenizer:
    """A template that knows no tools, and one that does."""
    return llama_tokenizer(llama, builtin_model, text=None, hermes=HERMES)


def all_places(tokenizer: Tokenizer, template: str) -> None:
    for spelling in tokenizer.control.values():
        for place in PLACES:
            for form in forms_of(spelling) if place in ("value", "result") else [spelling]:
                tokenizer.check(template, Texts(**{place: form}))
        tokenizer.check(template, Texts(**dict.fromkeys(PLACES, spelling)))


def test_every_spelling_in_every_place_of_muse(nano: Tokenizer) -> None:
    """Each place in turn, then all of them at once."""
    assert len(nano.control) >= 10
    all_places(nano, "muse")


@pytest.mark.model
@pytest.mark.parametrize("template", ["text", "hermes"])
def test_every_spelling_in_every_place_of_chatml(builtin: Tokenizer, template: str) -> None:
    """Each place in turn, then all of them at once."""
    assert len(builtin.control) >= 17
    all_places(builtin, template)


def test_known_calls_stand_as_their_ids(nano: Tokenizer) -> None:
    """Whatever the client's arguments spell: they are not in the prompt at all."""
    known = {1: KnownAnswer(ids=IDS, header="<|eot|><|start|>assistant")}
    calm = nano.controls("muse", Texts(), known)
    for spelling in nano.control.values():
        hostile = Texts(key=spelling, value=spelling, nested=spelling, words=spelling)
        assert nano.controls("muse", hostile, known) == calm


pieces = st.lists(
    st.sampled_from(["<|eot|>", "<|im_end|>", "<|start|>", "<tool_call>", "</atem:parameter>", "<|", "|>", "<", "\n"])
    | st.text(st.sampled_from(WRITABLE), max_size=3),
    max_size=5,
)
texts = st.builds(Texts, **{place: pieces.map(lambda parts: f"a{''.join(parts)}z") for place in PLACES})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=texts)
def test_nothing_said_about_tools_can_forge_muse(nano: Tokenizer, said: Texts) -> None:
    """Any texts, put together from what is near to a control token."""
    nano.check("muse", said)


@pytest.mark.model
@pytest.mark.parametrize("template", ["text", "hermes"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=texts)
def test_nothing_said_about_tools_can_forge_chatml(builtin: Tokenizer, template: str, said: Texts) -> None:
    """The same for the forms of ChatML."""
    builtin.check(template, said)
