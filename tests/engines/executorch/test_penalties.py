"""Penalties over the stand-ins: the answers are those of the llama.cpp engine, and go on alike.

What is imported are tests of that engine; they get this engine's servers from the fixtures of this folder.
"""

from __future__ import annotations

import pytest

from muse.protocol import IdsSegment
from tests.api.test_penalties import test_a_continued_answer_is_penalised_for_its_beginning
from tests.worker.client import WorkerProcess
from tests.worker.nano import answer_ids, as_ids, prompt_ids, turns
from tests.worker.test_penalties import ARGUMENTS, OTHER_WORDS

__all__ = ["test_a_continued_answer_is_penalised_for_its_beginning"]


def test_it_says_that_it_has_them(nano: WorkerProcess) -> None:
    """In the ready line."""
    assert nano.ready().supports.penalties


@pytest.mark.parametrize(("name", "penalties"), OTHER_WORDS)
def test_answers_are_those_of_llama_cpp(nano: WorkerProcess, name: str, penalties: dict[str, float]) -> None:
    """The same ids, which are not those without penalties."""
    prompt = as_ids(prompt_ids(turns(name)[0]))
    with WorkerProcess(*ARGUMENTS) as other:
        other.ready()
        wanted = other.ask(prompt, limit=60, **penalties).done.generated_token_ids
    assert wanted
    assert wanted != answer_ids(turns(name)[0])
    assert nano.ask(prompt, limit=60, **penalties).done.generated_token_ids == wanted


@pytest.mark.parametrize(("name", "penalties"), OTHER_WORDS)
def test_an_answer_that_goes_on_goes_on_alike(nano: WorkerProcess, name: str, penalties: dict[str, float]) -> None:
    """Wherever it is cut: with what is there already as part of the prompt, cold as after a crash, and warm."""
    prompt = prompt_ids(turns(name)[0])
    whole = nano.ask(as_ids(prompt), limit=60, **penalties).done.generated_token_ids
    assert whole
    for cut in range(1, len(whole), 9):
        for session in (None, f"on-{name}"):
            segments = (*as_ids(prompt), IdsSegment(ids=whole[:cut]))
            rest = nano.ask(segments, session=session, limit=60 - cut, **penalties)
            assert rest.done.generated_token_ids == whole[cut:]
