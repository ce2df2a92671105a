"""Texts of one long run, and control tokens that are spelled out, with the tokeniser of an artifact.

The tests of the llama.cpp engine. Left out is what only its tokeniser needs: here a run of any length has its ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from muse.protocol import Ready, Segment, TextSegment
from muse.worker.engines.executorch.prompt import PromptEncoder
from muse.worker.hf_tokenizer import JsonTokenizer
from tests.engines.executorch.conftest import Artifact
from tests.worker.client import WorkerProcess
from tests.worker.test_injection import (
    FOLDS,
    NAMES,
    Tokenizer,
    test_every_spelling_as_a_name,
    test_every_spelling_in_every_message,
    test_every_spelling_split_over_two_messages,
    test_no_conversation_can_forge_a_control_token,
    tokenizer_of,
)
from tests.worker.test_long_runs import (
    KINDS,
    plain,
    run_of,
    test_random_letters_are_counted,
)

__all__ = [
    "test_every_spelling_as_a_name",
    "test_every_spelling_in_every_message",
    "test_every_spelling_split_over_two_messages",
    "test_no_conversation_can_forge_a_control_token",
    "test_random_letters_are_counted",
]


@pytest.fixture(scope="module")
def nano(alone: WorkerProcess) -> WorkerProcess:
    """One kind will do: both have the same tokeniser."""
    return alone


@pytest.fixture(scope="module")
def tokens(artifact: Artifact) -> JsonTokenizer:
    """The tokeniser itself."""
    return JsonTokenizer(artifact("solo") / "tokenizer.json")


def spelled(tokens: JsonTokenizer, ids: Sequence[int]) -> str:
    return tokens.decode(ids).decode()


def encoding(tokens: JsonTokenizer, ready: Ready) -> Callable[[Sequence[Segment]], list[int]]:
    """Segments to ids as the worker does it, without the token that it puts before a prompt."""
    encoder = PromptEncoder(tokens, context=ready.context_length, most_cells=0)
    begin = TextSegment(text=ready.bos_token, special=True)
    return lambda segments: encoder.encode((begin, *segments)).ids[1:]


@pytest.fixture(scope="module")
def tokenizer(nano: WorkerProcess, tokens: JsonTokenizer) -> Tokenizer:
    """The artifact's, with its own template and those of the other engine's tests in its words."""
    ready = nano.ready()
    names, folds = (
        source.replace("<|im_start|>", "<|start|>").replace("<|im_end|>", "<|eot|>") for source in (NAMES, FOLDS)
    )
    return tokenizer_of(ready, encoding(tokens, ready), lambda ids: spelled(tokens, ids), names=names, folds=folds)


@pytest.mark.parametrize("kind", KINDS, ids=ascii)
def test_the_ids_spell_the_run(tokens: JsonTokenizer, kind: str) -> None:
    """Whole, in words before and behind it, and without a control token."""
    text = f"One, two. {run_of(kind, 30_000)} three!"
    ids = tokens.encode(text, special=False)
    assert spelled(tokens, ids) == text
    assert tokens.control.keys().isdisjoint(ids)


@pytest.mark.parametrize("kind", ["hello ", pytest.param("y", marks=pytest.mark.slow)])
def test_three_million_characters_are_too_many_tokens(nano: WorkerProcess, kind: str) -> None:
    """They do not fit, and are not counted to their end."""
    error = nano.ask(plain(run_of(kind, 3_000_000)), limit=1).error
    assert (error.code, error.fatal, error.prompt_tokens) == ("context_overflow", False, None)


def test_a_cancel_while_a_long_text_is_cut_is_obeyed(nano: WorkerProcess) -> None:
    """It ends as cancelled, not as too long, with nothing given; the next one is answered."""
    running = nano.start(plain("hello " * 170_000), limit=1)
    nano.cancel(running)
    done = nano.finish(running).done
    assert (done.finish_reason, done.completion_tokens, done.draft) == ("cancelled", 0, None)
    assert nano.ask((TextSegment(text="hello", special=False),), limit=1).done.completion_tokens == 1
