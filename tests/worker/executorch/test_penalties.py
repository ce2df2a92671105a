"""Penalties of the ExecuTorch engine against the rule of muse/protocol.py written down plainly, and in both loops."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.protocol import PENALTY_WINDOW, ImageSegment, Sampling
from muse.worker.engines.executorch.penalties import Penalties
from muse.worker.engines.executorch.prompt import PlacedPicture, Prompt
from muse.worker.engines.executorch.sampling import Sampler
from muse.worker.engines.executorch.solo import SoloDecoder
from muse.worker.picture_fit import ScaledPicture
from muse.worker.pictures import Sized
from tests.worker.executorch.reference import penalised
from tests.worker.executorch.test_decoding import PROMPT, answer, drafted
from tests.worker.executorch.toy import ToyModel

SETTINGS = (
    Sampling(repeat_penalty=1.3),
    Sampling(repeat_penalty=0.8),
    Sampling(presence_penalty=1.5),
    Sampling(frequency_penalty=-0.3),
    Sampling(repeat_penalty=1.1, presence_penalty=0.4, frequency_penalty=0.2),
)
strengths = st.floats(-2, 2, width=32)


@given(
    tokens=st.lists(st.integers(0, 30), max_size=3 * PENALTY_WINDOW),
    later=st.lists(st.integers(0, 30), max_size=10),
    seed=st.integers(0, 2**32),
    repeat=st.floats(0.1, 2),
    presence=strengths,
    frequency=strengths,
)
def test_the_rule_is_the_protocols(
    tokens: list[int], later: list[int], seed: int, repeat: float, presence: float, frequency: float
) -> None:
    """The last tokens of prompt and answer, each by the whole rule, and no others; the row itself stays."""
    row = np.random.default_rng(seed).normal(0, 4, 31).astype(np.float32)
    kept = row.copy()
    sampling = Sampling(repeat_penalty=repeat, presence_penalty=presence, frequency_penalty=frequency)
    penalties = Penalties(sampling, tokens)
    for token in later:
        penalties.take(token)
    wanted = penalised(row, [*tokens, *later], sampling)
    assert penalties.lower(row).tolist() == pytest.approx(wanted.tolist(), rel=1e-4, abs=1e-4)
    assert (row == kept).all()


def test_of_a_picture_its_ends_count_and_its_cells_do_not() -> None:
    """However many there are, and wherever the window begins."""
    start, cell, end = -1, -2, -3
    tokens = [1, 2, start, *[cell] * 100, end, 3, start, *[cell] * 4, end, 4, 5]
    places = (range(2, 104), range(105, 111))
    sized = Sized(segment=ImageSegment(image="", sha256=""), width=28, height=28)
    pictures = tuple(
        PlacedPicture(picture=ScaledPicture(sized=sized, rows=1, columns=1, most_cells=1), place=place)
        for place in places
    )
    prompt = Prompt(ids=tokens, tokens=tokens, segment_tokens=(), pictures=pictures)
    counted = [token for token in tokens if token != cell]
    assert len(tokens) == places[1].stop + 2
    for count in range(1, 12):
        assert prompt.last(count) == counted[-count:]


@pytest.mark.parametrize("penalties", SETTINGS, ids=str)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_what_is_chosen_is_chosen_of_the_lowered_logits(penalties: Sampling, temperature: float) -> None:
    """With the same luck as without penalties of a row that was lowered before; a drafted place as well."""
    random = np.random.default_rng(8)
    rows = random.normal(0, 2, (400, 31)).astype(np.float32)
    before = [int(token) for token in random.integers(0, 31, 40)]
    sampling = attrs.evolve(penalties, temperature=temperature, seed=5, top_k=12)
    with_penalties = Sampler(sampling, before=before)
    plain = Sampler(Sampling(temperature=temperature, seed=5, top_k=12))
    by_hand, chosen = Penalties(penalties, before), list[int]()
    for number, row in enumerate(rows):
        drafted_token = int(row.argmax())
        lowered = by_hand.lower(row)
        if number % 2:
            token = with_penalties.accept(row, drafted_token)
            assert token == plain.accept(lowered, drafted_token)
        else:
            token = with_penalties.choose(row)
            assert token == plain.choose(lowered)
        by_hand.take(token)
        chosen.append(token)
    assert chosen != [Sampler(Sampling()).choose(row) for row in rows]


@pytest.mark.parametrize("penalties", SETTINGS, ids=str)
@pytest.mark.parametrize("skill", [0.0, 0.5, 1.0])
def test_greedy_is_the_same_with_a_draft_and_without(penalties: Sampling, skill: float) -> None:
    """Each place of a block knows the tokens before it, also those that were decided in the same step."""
    model = ToyModel(3, skill)
    solo = answer(SoloDecoder(model, frozenset()), model, PROMPT, Sampler(penalties, before=PROMPT), 40)
    with_draft = answer(drafted(model), model, PROMPT, Sampler(penalties, before=PROMPT), 40)
    assert with_draft == solo
    ids, wanted = list(PROMPT), list[int]()
    for _ in range(40):
        wanted.append(int(np.argmax(penalised(model.row_behind(ids), ids, penalties))))
        ids.append(wanted[-1])
    assert solo == wanted
