"""The two loops on a model whose every distribution is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from muse.protocol import Sampling
from muse.worker.engines.executorch.decoding import Decoder
from muse.worker.engines.executorch.dflash import DraftedDecoder, DraftFacts
from muse.worker.engines.executorch.sampling import Sampler
from muse.worker.engines.executorch.solo import SoloDecoder
from tests.worker.executorch.toy import MASK, VOCABULARY, ToyForm, ToyModel

CONTEXT = 64
PROMPT = (1, 2, 3)


def facts(**changes: int) -> DraftFacts:
    return DraftFacts(**{"mask_id": MASK, "block": 16, "chunk": 8, "window": 0, "context": CONTEXT} | changes)


def drafted(model: ToyModel, end_ids: frozenset[int] = frozenset(), **changes: int) -> DraftedDecoder:
    return DraftedDecoder(model, facts(**changes), end_ids)


def prefill(decoder: Decoder, model: ToyModel, prompt: Sequence[int], sampler: Sampler, begin: int = 0) -> None:
    decoder.begin(sampler, begin)
    for start in range(begin, len(prompt), 8):
        decoder.prefill(model.embed(prompt[start : start + 8]))


def answer(decoder: Decoder, model: ToyModel, prompt: Sequence[int], sampler: Sampler, most: int) -> list[int]:
    """So many tokens, or fewer if it ends; after each step the model must hold what it is said to hold."""
    prefill(decoder, model, prompt, sampler)
    said: list[int] = []
    while len(said) < most:
        given = decoder.step()
        said += given.tokens
        assert model.ids[: given.evaluated] == [*prompt, *said][: given.evaluated]
        assert given.evaluated >= len(prompt) + len(said) - 1 - given.is_end
        if given.is_end:
            break
    return said[:most]


def greedy(model: ToyModel, prompt: Sequence[int], most: int) -> list[int]:
    ids = list(prompt)
    for _ in range(most):
        ids.append(int(model.row_behind(ids).argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("skill", [0.0, 0.5, 1.0])
def test_greedy_is_the_same_with_a_draft_and_without(skill: float) -> None:
    """Whatever the draft is worth; only the number of the target's calls differs."""
    model = ToyModel(3, skill)
    wanted = greedy(model, PROMPT, 40)
    assert answer(SoloDecoder(model, frozenset()), model, PROMPT, Sampler(Sampling()), 40) == wanted
    decoder = drafted(model)
    model.calls.clear()
    assert answer(decoder, model, PROMPT, Sampler(Sampling()), 40) == wanted
    assert decoder.proposed >= decoder.accepted
    if skill == 1.0:
        assert decoder.accepted == decoder.proposed
        assert model.calls.count("target 4") == 10


@pytest.mark.parametrize("skill", [0.0, 0.5, 1.0])
def test_a_form_holds_greedy_answers_alike(skill: float) -> None:
    """The likeliest of what may come, whatever the draft names, which knows no forms."""
    model = ToyModel(3, skill)
    ids = list(PROMPT)
    for _ in range(40):
        allowed = ToyForm.allowed_behind(ids[-1])
        ids.append(int(allowed[model.row_behind(ids)[allowed].argmax()]))
    wanted = ids[len(PROMPT) :]
    assert wanted != greedy(model, PROMPT, 40)
    for decoder in (SoloDecoder(model, frozenset()), drafted(model)):
        assert answer(decoder, model, PROMPT, Sampler(Sampling(), ToyForm(PROMPT[-1])), 40) == wanted
    assert decoder.proposed > decoder.accepted


def test_an_end_among_accepted_tokens_ends_the_answer() -> None:
    """Nothing behind it is given, and what the cache holds ends before it."""
    model = ToyModel(3, skill=1.0)
    wanted = greedy(model, PROMPT, 40)
    for end in sorted(set(wanted)):
        ends = frozenset({end})
        before = wanted[: wanted.index(end) + 1]
        for decoder in (drafted(model, ends), SoloDecoder(model, ends)):
            assert answer(decoder, model, PROMPT, Sampler(Sampling()), 40) == before


@pytest.mark.parametrize("context", range(CONTEXT - 4, CONTEXT + 1))
def test_the_last_rows_of_the_context_are_used_and_no_more(context: int) -> None:
    """Near its end, wherever that is in a block, blocks are shorter, then single tokens; no call reaches beyond."""
    model = ToyModel(3, skill=1.0)
    room = context - len(PROMPT)
    decoder = drafted(model, context=context)
    assert answer(decoder, model, PROMPT, Sampler(Sampling()), room) == greedy(model, PROMPT, room)
    assert model.reached in (context - 1, context)


@pytest.mark.parametrize("window", [0, 4, 20])
def test_a_long_prompt_reaches_the_draft_in_parts_that_it_takes(window: int) -> None:
    """No call has more rows than it may, none twice; without a window all of them come, with one the newest."""
    model = ToyModel(3, skill=1.0)
    prompt = [token % VOCABULARY for token in range(45)]
    decoder = drafted(model, window=window)
    assert answer(decoder, model, prompt, Sampler(Sampling()), 12) == greedy(model, prompt, 12)
    rows = [int(call.split()[1]) for call in model.calls if call.startswith("draft")]
    assert max(rows) <= 8
    assert decoder.accepted == decoder.proposed
    if not window:
        assert model.draft_seen == [*prompt, *greedy(model, prompt, 12)][: len(model.draft_seen)]


def test_a_draft_that_looks_at_everything_is_fed_while_the_prompt_is_read() -> None:
    """So that no more than a chunk of its rows waits, however long the prompt is: they are large."""
    model = ToyModel(3)
    decoder = drafted(model, window=0)
    prefill(decoder, model, [0, *PROMPT] * 20, Sampler(Sampling()), 0)
    waiting = 0
    for kind, rows in (call.split() for call in model.calls):
        waiting += int(rows) if kind == "target" else -int(rows)
        assert waiting <= 8 + int(rows)
    assert 0 < waiting <= 8


@pytest.mark.parametrize("back", [3, 4, 6, 9, 13])
def test_a_prompt_that_goes_back_drops_what_was_ahead(back: int) -> None:
    """In the middle of an answer another prompt shares a beginning with it: target and draft go on from there."""
    model = ToyModel(3, skill=1.0)
    decoder = drafted(model)
    ids = [*PROMPT, *answer(decoder, model, PROMPT, Sampler(Sampling()), 12)]
    prompt = [*ids[:back], 5, 0, 4]
    prefill(decoder, model, prompt, Sampler(Sampling()), back)
    said: list[int] = []
    while len(said) < 12:
        said += decoder.step().tokens
    assert said[:12] == greedy(model, prompt, 12)
    assert decoder.accepted == decoder.proposed
