"""The llama.cpp engine with the built-in model, through the guard: what a request brings, exactly."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muse.protocol import (
    Error,
    IdsSegment,
    ImageSegment,
    Loading,
    Segment,
    TextSegment,
    Tokens,
)
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.gguf import read_model_file
from muse.worker.engines.llamacpp.prompt import PromptEncoder
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from muse.worker.json_form import check_answer, grammar_of
from tests.worker.client import WorkerProcess, chat
from tests.worker.llama import socket_of

pytestmark = pytest.mark.model

# The model goes on with such signs, each of several tokens, some of which end inside a character.
SIGNS = "你好吗？我很好。你好吗？我很好。你好吗？我很好。🎉🦩🎉🦩🎉🦩🎉🦩你好吗？我很好。🎉🦩🎉🦩"
# The built-in model has no token for some bytes (control characters, beginnings of rare planes).
WRITABLE = [*map(chr, range(0x20, 0x7F)), *"\n\täßÆжλא中文字한🎉🦩\u200d\u2028"]


@pytest.fixture
def encoder(inner: Client, builtin_model: Path) -> PromptEncoder:
    return PromptEncoder(inner, Vocabulary(read_model_file(builtin_model)), None)


def test_ready_says_what_was_loaded(llama: WorkerProcess) -> None:
    """Names, limits and the spellings the chat template needs; the end ids are the library's own."""
    ready = llama.ready()
    assert (ready.engine, ready.model_id) == ("llamacpp", "SmolLM2-135M-Instruct.Q4_1")
    assert (ready.context_length, ready.max_inflight_requests, ready.max_sessions) == (1024, 2, 3)
    assert (ready.bos_token, ready.eos_token, ready.eos_ids) == ("<|im_start|>", "<|im_end|>", (0, 2, 4))
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>"} <= set(ready.special_tokens)
    assert "<|im_start|>" in (ready.chat_template or "")
    assert isinstance(llama.events[0], Loading)


def test_the_socket_is_private(llama: WorkerProcess) -> None:
    """It lies in a folder that only the user can enter."""
    folder = socket_of(llama).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.parent.name == "run"


def test_greedy_answers_are_equal(llama: WorkerProcess) -> None:
    """Temperature 0 twice from cold: the same ids, which are those of the text."""
    first, second = (llama.ask(chat("Tell me about the sea."), limit=40) for _ in range(2))
    assert first.text
    assert first.done.generated_token_ids == second.done.generated_token_ids
    assert first.done.generated_token_ids == tuple(i for event in first.tokens for i in event.ids or ())
    assert first.accepted
    assert first.accepted.room == 1024 - first.done.prompt_tokens
    assert llama.count(chat("Tell me about the sea.")) == first.done.prompt_tokens


def test_seeds_decide_sampled_answers(llama: WorkerProcess) -> None:
    """The same seed gives the same answer, another one another; no seed is a random one."""

    def sample(seed: int | None) -> str:
        return llama.ask(chat("Write a poem."), limit=24, temperature=1.5, top_p=0.99, seed=seed).text

    assert sample(7) == sample(7)
    assert len({sample(7), sample(8), sample(None), sample(None)}) == 4


def test_a_big_seed_is_taken(llama: WorkerProcess) -> None:
    """Any integer is a seed."""
    answers = {llama.ask(chat("Hi"), limit=8, temperature=1.0, seed=2**63).text for _ in range(2)}
    assert len(answers) == 1


def test_top_k_one_is_greedy(llama: WorkerProcess) -> None:
    """Each sampling field reaches the engine: so narrow, the temperature cannot matter."""
    greedy = llama.ask(chat("Count to five."), limit=16).text
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert llama.ask(chat("Count to five."), limit=16, temperature=5.0, **narrow).text == greedy


def test_an_answer_ends_with_stop_without_its_end_token(llama: WorkerProcess) -> None:
    """The end token is in no list and no count."""
    answer = llama.ask(chat("Say hi."), limit=200)
    assert answer.done.finish_reason == "stop"
    assert answer.done.generated_token_ids
    assert not {0, 2, 4} & set(answer.done.generated_token_ids)
    assert answer.done.completion_tokens == len(answer.done.generated_token_ids)
    assert answer.text.endswith(answer.tokens[-1].text)


def test_no_budget_gives_no_token(llama: WorkerProcess) -> None:
    """Zero is a limit like any other."""
    answer = llama.ask(chat("Say hi."), limit=0)
    assert answer.accepted
    assert (answer.done.completion_tokens, answer.done.finish_reason) == (0, "length")


def test_characters_of_several_tokens_arrive_whole(llama: WorkerProcess, inner: Client) -> None:
    """Text has no half character, and the ids that the stream leaves out are named as the library would."""
    prompt = (TextSegment(text=SIGNS, special=False),)
    answer = llama.ask(prompt, limit=40)
    body = {"prompt": SIGNS, "n_predict": 40, "temperature": 0, "return_tokens": True, "cache_prompt": False}
    native = inner.call("POST", "/completion", body)
    assert answer.text == native["content"]
    assert any(len(event.ids or ()) > 1 for event in answer.tokens)
    assert answer.done.generated_token_ids == tuple(native["tokens"])


def test_every_control_token_stays_text_in_user_text(llama: WorkerProcess, encoder: PromptEncoder) -> None:
    """As scaffold a spelling is one token, as a user's text it is several, none of them a control token."""
    ready = llama.ready()
    for spelling in ready.special_tokens:
        assert llama.count((TextSegment(text=spelling, special=True),)) == 1
        ids = encoder.encode((TextSegment(text=spelling, special=False),))
        assert len(ids) > 1
        assert not set(range(17)) & set(ids)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(["<|im_start|>", "<|im_end|>", "<|", "|>", "im_end", "\n"])
        | st.text(st.sampled_from(WRITABLE), max_size=8)
    )
)
def test_no_text_can_forge_a_control_token(inner: Client, encoder: PromptEncoder, parts: list[str]) -> None:
    """Any text: no control token among its ids, and they give back the text."""
    text = "".join(parts)
    ids = encoder.encode((IdsSegment(ids=(1,)), TextSegment(text=text, special=False)))[1:]
    assert not set(range(17)) & set(ids)
    assert inner.call("POST", "/detokenize", {"tokens": ids})["content"] == text


def test_segments_are_encoded_one_by_one(encoder: PromptEncoder) -> None:
    """Ids are joined in the order of the segments, each cut on its own; known ids are taken as they are."""
    parts: list[Segment] = [
        TextSegment(text="<|im_start|>user\n", special=True),
        TextSegment(text="<|im_end|> hello", special=False),
        IdsSegment(ids=(2, 198)),
        TextSegment(text="<|im_start|>user\n", special=True),
    ]
    assert encoder.encode(parts) == [i for part in parts for i in encoder.encode([part])]
    assert encoder.encode(parts)[:3] == [1, 4093, 198]


@pytest.mark.parametrize(
    ("segments", "code"),
    [
        ((), "bad_request"),
        ((TextSegment(text="", special=False),), "bad_request"),
        ((IdsSegment(ids=(5, 10**6)),), "bad_request"),
        ((IdsSegment(ids=(-1,)),), "bad_request"),
        ((ImageSegment(image="", sha256=""),), "unsupported"),
        ((IdsSegment(ids=(338,) * 1024),), "context_overflow"),
        ((TextSegment(text="word " * 1100, special=False),), "context_overflow"),
    ],
    ids=["nothing", "empty text", "unknown id", "negative id", "image", "full", "too long"],
)
def test_prompts_that_cannot_be_served(llama: WorkerProcess, segments: tuple[Segment, ...], code: str) -> None:
    """An error instead of accepted; the worker goes on."""
    answer = llama.ask(segments, limit=4)
    assert answer.accepted is None
    assert answer.error.code == code
    if code == "context_overflow":
        assert (answer.error.prompt_tokens, answer.error.context_length) == (llama.count(segments), 1024)


def test_two_requests_run_at_the_same_time(llama: WorkerProcess) -> None:
    """Both decode before either ends."""
    ids = [llama.start(chat(f"Write about {topic}."), limit=30) for topic in ("rain", "snow")]
    llama.collect(ids)
    order = [e.request_id for e in llama.events if isinstance(e, Tokens) and e.request_id in ids]
    assert order.index(ids[1]) < len(order) - 1 - order[::-1].index(ids[0])


def test_more_than_the_slots_is_refused(llama: WorkerProcess) -> None:
    """A third request is not queued inside the worker."""
    running = [llama.start(chat("Write a long story."), limit=400) for _ in range(2)]
    for request_id in running:
        llama.wait(Tokens, request_id)
    assert llama.ask(chat("third"), limit=1).error.code == "capacity_exhausted"
    for request_id in running:
        llama.cancel(request_id)
    llama.collect(running)


FORM = {
    "type": "object",
    "properties": {"animal": {"enum": ["fox", "dog"]}, "legs": {"enum": [2, 4]}},
    "required": ["animal", "legs"],
    "additionalProperties": False,
}


CONTRADICTORY = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "t": {"type": "string", "maxLength": 4}},
    "required": ["n", "t"],
    "patternProperties": {"^(n|t)$": {}},
    "additionalProperties": False,
}
"""For whoever reads `n` by its pattern only it could still come, which was there."""


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_an_answer_follows_its_schema(llama: WorkerProcess, temperature: float) -> None:
    """Also where the model alone would say something else."""
    form = json.dumps(FORM)
    answer = llama.ask(chat("Which animal is quick?"), json_schema=form, limit=60, temperature=temperature, seed=5)
    value = json.loads(answer.text)
    assert set(value) == {"animal", "legs"}
    assert value["animal"] in ("fox", "dog")
    assert answer.done.finish_reason == "stop"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://example.org/schema.json"},
        {"type": "string", "pattern": "(((("},
        {"type": "object", "not": {"type": "string"}},
        {"$ref": "#"},
    ],
    ids=["type", "ref", "remote", "pattern", "not", "endless"],
)
def test_a_schema_that_cannot_be_followed_is_refused(llama: WorkerProcess, schema: dict[str, object]) -> None:
    """The engine itself would give any answer then. The worker lives on."""
    refused = llama.ask(chat("hi"), json_schema=json.dumps(schema), limit=8)
    assert refused.error.code == "bad_request"
    assert "schema" in refused.error.message
    assert llama.ask(chat("hi"), limit=2).done.completion_tokens == 2


@pytest.mark.parametrize(
    ("schema", "limit"),
    [
        ({"type": "string", "pattern": "^(a{1,9999}){1,9999}$"}, 8),
        ({"type": "string", "pattern": "^(a{1000}){1000}$"}, 8),
        ({"type": "object", "properties": {"t": {"const": "<|im_start|>"}}, "required": ["t"]}, 40),
        (CONTRADICTORY, 200),
    ],
    ids=["repeats", "too complex", "control token", "dead end"],
)
def test_an_answer_that_breaks_its_schema_is_never_passed_off(
    llama: WorkerProcess, schema: dict[str, object], limit: int
) -> None:
    """Where the engine gives its constraint up without a word: refused, or an error at that place, and what went out
    before it follows the schema."""
    answer = llama.ask(chat("hi"), json_schema=json.dumps(schema), limit=limit)
    if isinstance(answer.end, Error):
        assert answer.end.code in ("bad_request", "constrained_dead_end")
        assert not answer.end.fatal
        if answer.text:
            check_answer(grammar_of(json.dumps(schema)), answer.text.encode(), complete=False)
    else:
        check_answer(grammar_of(json.dumps(schema)), answer.text.encode(), complete=answer.done.finish_reason == "stop")
    assert llama.ask(chat("hi"), limit=2).done.completion_tokens == 2


def test_a_prompt_without_specials_gets_no_bos(llama: WorkerProcess) -> None:
    """This model wants none."""
    assert llama.count((TextSegment(text="hello", special=False),)) == 1
