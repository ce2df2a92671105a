"""50,000 draws of each kind against the exact distribution, by chi-square. Here, since they take their time."""

from __future__ import annotations

from collections import Counter, defaultdict

import attrs
import numpy as np
import pytest

from muse.protocol import Sampling
from muse.worker.engines.executorch.decoding import Decoder
from muse.worker.engines.executorch.sampling import Sampler
from muse.worker.engines.executorch.solo import SoloDecoder
from tests.worker.executorch.chi_square import excess
from tests.worker.executorch.reference import exact, penalised
from tests.worker.executorch.test_decoding import PROMPT, answer, drafted
from tests.worker.executorch.toy import VOCABULARY, ToyForm, ToyModel

DRAWS = 50_000
SETTINGS = (
    Sampling(temperature=1.0, seed=1),
    Sampling(temperature=0.6, seed=2),
    Sampling(temperature=1.7, top_k=5, seed=3),
    Sampling(temperature=1.0, top_p=0.8, seed=4),
    Sampling(temperature=0.9, top_k=9, top_p=0.7, seed=5),
    Sampling(temperature=1.2, min_p=0.2, seed=6),
    Sampling(temperature=1.5, top_k=12, top_p=0.95, min_p=0.05, seed=7),
)
LOOP_SETTINGS = (
    Sampling(temperature=1.0, seed=1),
    Sampling(temperature=0.5, top_p=0.9, seed=2),
    Sampling(temperature=1.5, top_k=4, min_p=0.05, seed=3),
)
PENALISED = (
    Sampling(temperature=1.0, repeat_penalty=1.6, presence_penalty=0.5, frequency_penalty=0.4),
    Sampling(temperature=0.8, top_k=5, top_p=0.9, repeat_penalty=0.7, frequency_penalty=-0.6),
)
ANSWERS = DRAWS // 4
"""Of four tokens each."""
ROW = np.random.default_rng(11).normal(0, 1.5, 17).astype(np.float32)


def name_of(sampling: Sampling) -> str:
    return f"t{sampling.temperature}-k{sampling.top_k}-p{sampling.top_p}-m{sampling.min_p}"


@pytest.mark.parametrize("sampling", SETTINGS, ids=name_of)
def test_draws_have_the_exact_distribution(sampling: Sampling) -> None:
    """50,000 draws, chi-square."""
    sampler = Sampler(sampling)
    counts = np.bincount([sampler.choose(ROW) for _ in range(DRAWS)], minlength=ROW.size)
    assert excess(counts, exact(ROW, sampling)) < 1


@pytest.mark.parametrize("drafted", [int(ROW.argmax()), int(ROW.argmin())])
@pytest.mark.parametrize("sampling", SETTINGS, ids=name_of)
def test_a_drafted_place_has_the_same_distribution(sampling: Sampling, drafted: int) -> None:
    """Whatever token was drafted: the likeliest, and the least likely, which most filters leave out."""
    sampler = Sampler(sampling)
    counts = np.bincount([sampler.accept(ROW, drafted) for _ in range(DRAWS)], minlength=ROW.size)
    assert excess(counts, exact(ROW, sampling)) < 1


@pytest.mark.parametrize("kind", ["solo", "drafted"])
@pytest.mark.parametrize("sampling", LOOP_SETTINGS, ids=["plain", "top-p", "top-k and min-p"])
def test_sampled_answers_have_the_exact_distribution(kind: str, sampling: Sampling) -> None:
    """50,000 tokens in answers of four: what stands behind each pair of tokens, wherever in a block, so that accepted,
    corrected and further tokens are all looked at."""
    model = ToyModel(5)
    sampler = Sampler(sampling)
    decoder: Decoder = drafted(model) if kind == "drafted" else SoloDecoder(model, frozenset())
    behind = np.zeros((VOCABULARY, VOCABULARY, VOCABULARY), np.int_)
    for _ in range(ANSWERS):
        ids = [*PROMPT, *answer(decoder, model, PROMPT, sampler, 4)]
        for place in range(len(PROMPT), len(ids)):
            behind[ids[place - 2], ids[place - 1], ids[place]] += 1
    worst = 0.0
    for pair in np.argwhere(behind.sum(2) >= 200):
        worst = max(worst, excess(behind[tuple(pair)], exact(model.rows[tuple(pair)], sampling)))
    assert 0 < worst < 1


@pytest.mark.parametrize("kind", ["solo", "drafted"])
@pytest.mark.parametrize("sampling", LOOP_SETTINGS, ids=["plain", "top-p", "top-k and min-p"])
def test_answers_held_to_a_form_have_the_exact_distribution(kind: str, sampling: Sampling) -> None:
    """That of what the form allows, filtered after that: drafted tokens may be forbidden ones."""
    model = ToyModel(5)
    form = ToyForm(PROMPT[-1])
    sampler = Sampler(sampling, form)
    decoder: Decoder = drafted(model) if kind == "drafted" else SoloDecoder(model, frozenset())
    behind = np.zeros((VOCABULARY, VOCABULARY, VOCABULARY), np.int_)
    accepted = 0
    for _ in range(ANSWERS):
        form.last = PROMPT[-1]
        ids = [*PROMPT, *answer(decoder, model, PROMPT, sampler, 4)]
        accepted += decoder.accepted
        for place in range(len(PROMPT), len(ids)):
            behind[ids[place - 2], ids[place - 1], ids[place]] += 1
    worst = 0.0
    for pair in np.argwhere(behind.sum(2) >= 200):
        row = np.full(VOCABULARY, -np.inf, np.float32)
        allowed = form.allowed_behind(pair[1])
        row[allowed] = model.rows[tuple(pair)][allowed]
        worst = max(worst, excess(behind[tuple(pair)], exact(row, sampling)))
    assert 0 < worst < 1
    assert (accepted > ANSWERS / 4) == (kind == "drafted")


@pytest.mark.parametrize("kind", ["solo", "drafted"])
@pytest.mark.parametrize("sampling", PENALISED, ids=["plain", "filtered"])
def test_penalised_answers_have_the_exact_distribution(kind: str, sampling: Sampling) -> None:
    """Behind each beginning of an answer: every place knows all tokens before it, those of its own block as well."""
    model = ToyModel(5)
    decoder: Decoder = drafted(model) if kind == "drafted" else SoloDecoder(model, frozenset())
    behind: defaultdict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    accepted = 0
    for number in range(ANSWERS):
        sampler = Sampler(attrs.evolve(sampling, seed=number), before=PROMPT)
        ids = (*PROMPT, *answer(decoder, model, PROMPT, sampler, 4))
        accepted += decoder.accepted
        for place in range(len(PROMPT), len(ids)):
            behind[ids[:place]][ids[place]] += 1
    worst = 0.0
    for before, found in behind.items():
        if found.total() >= 200:
            counts = np.array([found[token] for token in range(VOCABULARY)])
            row = penalised(model.row_behind(before), before, sampling)
            worst = max(worst, excess(counts, exact(row, sampling)))
    assert 0 < worst < 1
    assert (accepted > ANSWERS / 4) == (kind == "drafted")
