"""Texts of one long run, with the real tokeniser of muse-nano: they are counted or refused, and the engine lives."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from muse.protocol import Cancel, Count, Done, Result, TextSegment
from muse.worker.engines.base import CancelToken
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.gguf import read_model_file
from muse.worker.engines.llamacpp.prompt import EncodingCancelled, PromptEncoder
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from muse.worker.json_form import check_answer, grammar_of
from tests.worker.client import WorkerProcess
from tests.worker.nano import MODEL
from tests.worker.test_llamacpp import socket_of

pytestmark = pytest.mark.thorough

KINDS = ("y", "Ab", "e\u0301", "你", "7", "-", "_-", " ", "\n", " \n", "\U0001f389", "y<|eot|>")


@pytest.fixture(scope="module")
def nano() -> Iterator[WorkerProcess]:
    """A worker with muse-nano, ready."""
    with WorkerProcess("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1") as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def server(nano: WorkerProcess) -> Client:
    """Its native server."""
    return Client(str(socket_of(nano)))


def encoder_of(server: Client) -> PromptEncoder:
    return PromptEncoder(server, Vocabulary(read_model_file(MODEL)), None)


def run_of(kind: str, length: int) -> str:
    return (kind * length)[:length]


def plain(text: str) -> tuple[TextSegment, ...]:
    return (TextSegment(text=text, special=False),)


@pytest.mark.parametrize("length", [30_000, pytest.param(300_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS, ids=ascii)
def test_the_ids_spell_the_run(server: Client, kind: str, length: int) -> None:
    """Whole, in words before and behind it, and without a control token."""
    text = f"One, two. {run_of(kind, length)} three!"
    encoder = encoder_of(server)
    ids = encoder.encode(plain(text))
    assert server.call("POST", "/detokenize", {"tokens": ids})["content"] == text
    assert Vocabulary(read_model_file(MODEL)).control.keys().isdisjoint(ids)


def test_ordinary_text_has_the_ids_it_always_had(server: Client) -> None:
    """Those that the server gives for the whole of it."""
    text = "The quick brown fox; it's 1,234 times.\n\n    return [x ** 2]  # 你好，世界。\t-----\n" * 200
    whole = server.call("POST", "/tokenize", {"content": text, "add_special": False, "parse_special": False})
    assert encoder_of(server).encode(plain(text)) == whole["tokens"]


@pytest.mark.parametrize("kind", ["hello ", "y", "\n"], ids=ascii)
def test_three_million_characters_are_too_many_tokens(nano: WorkerProcess, kind: str) -> None:
    """They do not fit, and are not counted to their end."""
    answer = nano.ask(plain(run_of(kind, 3_000_000)), limit=1)
    assert (answer.error.code, answer.error.fatal) == ("context_overflow", False)
    assert answer.error.prompt_tokens is None
    assert nano.ask(plain("hello"), limit=1).done.completion_tokens == 1


def test_a_cancel_ends_the_reading_of_many_texts(server: Client) -> None:
    """Each text costs the tokeniser time, so it gets a part of them at once."""
    cancel = CancelToken()
    cancel.set()
    segments = [TextSegment(text=f"k{number}", special=False) for number in range(600)]
    encoder = encoder_of(server)
    with pytest.raises(EncodingCancelled):
        encoder.encode(segments, cancel)
    joined = [token for segment in segments for token in encoder.encode([segment], cancel)]
    assert joined == encoder_of(server).encode(segments)


def test_a_cancelled_request_of_many_texts_is_done(nano: WorkerProcess) -> None:
    """With nothing given, and the next one is answered."""
    segments = tuple(TextSegment(text=f"value {number}", special=False) for number in range(3000))
    request_id = nano.start(segments, limit=1)
    nano.send(Cancel(request_id="cancel", target_request_id=request_id))
    done = nano.wait(Done, request_id)
    assert (done.finish_reason, done.completion_tokens) == ("cancelled", 0)
    assert nano.ask(plain("hello"), limit=1).done.completion_tokens == 1


def test_random_letters_are_counted(nano: WorkerProcess) -> None:
    """A sequence without repetition."""
    text = "".join(random.Random(1).choices("ACGT", k=60_000))
    nano.send(Count(request_id="acgt", prompt_segments=plain(text)))
    assert (nano.wait(Result, "acgt").prompt_tokens or 0) > 4096


def test_a_schema_may_demand_any_text(nano: WorkerProcess) -> None:
    """One that spells a control token of the model, and a run that its tokeniser does not survive."""
    for schema in (
        {"const": "<|start|>assistant<|message|><|eot|>"},
        {"type": "string", "pattern": r"^<[|]start\x7c>$"},
        {"type": "string", "pattern": "^(a{40}){40}$"},
        {"enum": ["y" * 3_000]},
    ):
        answer = nano.ask(plain("hi"), json_schema=json.dumps(schema), limit=3_100)
        check_answer(grammar_of(json.dumps(schema)), answer.text.encode(), complete=True)
        assert answer.done.finish_reason == "stop"
        assert not any(event.control for event in answer.tokens)
