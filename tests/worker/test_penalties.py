"""Penalties in the llama.cpp engine do to the numbers of the model what muse/protocol.py says.

The native server is asked for what the engine would ask it for, and for the probabilities before and after sampling
beside. They give the logits but for a constant, which is found with the model's favourite token: it is among the
last tokens of the prompts used here, its logit is positive, and a repeat penalty of 2 halves it. That the same constant
explains what happens to all other tokens, with all penalties, is the proof.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from muse.protocol import PENALTY_WINDOW, Generate, Sampling
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.request_body import completion_body
from tests.picture_files import plain, saved, segment_of
from tests.worker.client import WorkerProcess
from tests.worker.llama import socket_of
from tests.worker.nano import DRAFT, MMPROJ, MODEL, answer_ids, as_ids, prompt_ids, turns

pytestmark = pytest.mark.thorough

ARGUMENTS = ("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1")
VOCABULARY = 512
SCRATCH = 2
"""The slot of requests without a session: the worker believes nothing of what it holds."""
VISIBLE = 1e-13
"""The smallest probability of which enough digits are left."""
PENALTIES = (
    {"repeat_penalty": 1.1},
    {"repeat_penalty": 0.7},
    {"presence_penalty": 0.9},
    {"frequency_penalty": -0.4},
    {"repeat_penalty": 1.5, "presence_penalty": -2.0, "frequency_penalty": 0.4},
    {"repeat_penalty": 2.0, "presence_penalty": 2.0, "frequency_penalty": 2.0},
)
OTHER_WORDS: tuple[tuple[str, dict[str, float]], ...] = (
    ("count", {"frequency_penalty": 2.0}),
    ("json", {"repeat_penalty": 1.5, "presence_penalty": 1.0, "frequency_penalty": 1.0}),
)
"""Dialogues, and penalties under which the model says something else than it knows by heart. In none of these answers
are the two likeliest tokens ever closer than 0.1, far more than what batches of another size change."""

Logits = Mapping[int, float]


@pytest.fixture(scope="module")
def alone() -> Iterator[WorkerProcess]:
    """A worker with muse-nano, ready. Shared: use sessions of your own."""
    with WorkerProcess(*ARGUMENTS) as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def drafted() -> Iterator[WorkerProcess]:
    """The same with its draft."""
    with WorkerProcess(*ARGUMENTS, "--draft", str(DRAFT), "--keep-draft") as worker:
        worker.ready()
        yield worker


@pytest.fixture
def numbers(alone: WorkerProcess) -> Numbers:
    return Numbers(Client(str(socket_of(alone))))


class Numbers:
    """The native server, asked for probabilities."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def answer(
        self, prompt: object, *, after: bool, limit: int = 1, reuse: bool = False, **penalties: float
    ) -> tuple[list[dict[int, float]], dict[str, Any]]:
        """Logarithms of the probabilities at each step, after sampling or before, and the whole answer."""
        sampling = Sampling(temperature=1.0, seed=3, **penalties)
        request = Generate(request_id="r", session_id=None, prompt_segments=(), max_new_tokens=limit, sampling=sampling)
        body = completion_body(request, prompt, slot=SCRATCH, max_tokens=limit, reuse=reuse, grammar=None)
        fields = ["completion_probabilities", "tokens", "timings"]
        body |= {"stream": False, "return_progress": False, "response_fields": fields}
        body |= {"n_probs": VOCABULARY, "post_sampling_probs": after}
        answer = self._client.call("POST", "/completion", body)
        steps = answer["completion_probabilities"]
        if not after:
            return [{one["id"]: one["logprob"] for one in step["top_logprobs"]} for step in steps], answer
        return [{one["id"]: math.log(max(one["prob"], 1e-300)) for one in step["top_probs"]} for step in steps], answer

    def logits(self, prompt: Sequence[int]) -> Logits:
        """Of the token behind a prompt whose last tokens hold the likeliest one."""
        (before,), _ = self.answer(prompt, after=False)
        (halved,), _ = self.answer(prompt, after=True, repeat_penalty=2.0)
        window = prompt[-PENALTY_WINDOW:]
        favourite = max(before, key=before.__getitem__)
        assert favourite in window
        other = max((token for token in before if token not in window), key=before.__getitem__)
        lost = (before[favourite] - before[other]) - (halved[favourite] - halved[other])
        return {token: value + 2 * lost - before[favourite] for token, value in before.items()}


def penalised(logits: Logits, window: Sequence[int], sampling: Sampling) -> dict[int, float]:
    """The rule of muse/protocol.py; logarithms of the probabilities."""
    left = dict(logits)
    for token, times in Counter(window).items():
        value = left[token]
        value = value / sampling.repeat_penalty if value > 0 else value * sampling.repeat_penalty
        left[token] = value - sampling.presence_penalty - sampling.frequency_penalty * times
    whole = math.log(sum(map(math.exp, left.values())))
    return {token: value - whole for token, value in left.items()}


def assert_alike(found: Mapping[int, float], wanted: Mapping[int, float]) -> None:
    """Every token that has a visible share has the right one, but for what batches of another size change."""
    visible = {token: share for token, share in wanted.items() if share > math.log(VISIBLE)}
    assert len(visible) > VOCABULARY / 2
    assert {token: found[token] for token in visible} == pytest.approx(visible, abs=0.02)


def within(name: str, step: int) -> list[int]:
    """The prompt of a dialogue and the beginning of its answer."""
    turn = turns(name)[0]
    return [*prompt_ids(turn), *answer_ids(turn)[:step]]


@pytest.fixture
def prompt() -> list[int]:
    """More than the window, which has negative logits, and a token that it holds several times."""
    return within("count", 20)


def test_without_penalties_their_sampler_takes_no_part() -> None:
    """It looks at every token of the vocabulary."""
    for temperature in (0.0, 1.0):
        for penalties in ({}, *PENALTIES):
            request = Generate(
                request_id="r",
                session_id=None,
                prompt_segments=(),
                max_new_tokens=1,
                sampling=Sampling(temperature=temperature, **penalties),
            )
            body = completion_body(request, [1], slot=0, max_tokens=1, reuse=False, grammar=None)
            assert ("penalties" in body["samplers"]) == bool(penalties)
            assert body["samplers"].index("penalties") == 0 if penalties else "repeat_last_n" not in body


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
def test_the_numbers_are_those_of_the_protocol(
    numbers: Numbers, prompt: list[int], penalties: dict[str, float]
) -> None:
    """The last 64 tokens of the prompt, each by the whole rule, and no others."""
    logits = numbers.logits(prompt)
    window = prompt[-PENALTY_WINDOW:]
    assert len(prompt) > PENALTY_WINDOW
    assert set(prompt) > set(window)
    assert max(Counter(window).values()) > 2
    assert {logits[token] > 0 for token in window} == {True, False}
    (found,), _ = numbers.answer(prompt, after=True, **penalties)
    assert_alike(found, penalised(logits, window, Sampling(**penalties)))


def test_a_reused_prompt_counts_like_a_new_one(numbers: Numbers, prompt: list[int]) -> None:
    """What was in the cache is penalised as well."""
    penalties = PENALTIES[-1]
    wanted = penalised(numbers.logits(prompt), prompt[-PENALTY_WINDOW:], Sampling(**penalties))
    numbers.answer(prompt[:-1], after=False)
    (found,), answer = numbers.answer(prompt, after=True, reuse=True, **penalties)
    assert answer["timings"]["cache_n"] >= len(prompt) - 2
    assert_alike(found, wanted)


def test_the_answer_counts_too(numbers: Numbers) -> None:
    """Token by token, while the prompt's leave the window."""
    turn = turns("count")[0]
    prompt, known = list(prompt_ids(turn)), answer_ids(turn)
    penalties = {"presence_penalty": 0.5, "frequency_penalty": 0.25}
    before, answer = numbers.answer(prompt, after=False, limit=20, **penalties)
    found, again = numbers.answer(prompt, after=True, limit=20, **penalties)
    assert again["tokens"] == answer["tokens"] == list(known[:20])
    for step, (logits, shares) in enumerate(zip(before, found, strict=True)):
        window = [*prompt, *known[:step]][-PENALTY_WINDOW:]
        assert_alike(shares, penalised(logits, window, Sampling(**penalties)))


@pytest.mark.parametrize(("name", "penalties"), OTHER_WORDS)
def test_a_greedy_answer_takes_what_is_likeliest_then(
    alone: WorkerProcess, numbers: Numbers, name: str, penalties: dict[str, float]
) -> None:
    """At temperature 0 as well, and so the answer is another one than the memorised."""
    prompt, known = prompt_ids(turns(name)[0]), answer_ids(turns(name)[0])
    ids = alone.ask(as_ids(prompt), limit=60, **penalties).done.generated_token_ids
    assert ids
    assert ids != known
    parting = next(step for step, token in enumerate(ids) if token != known[step])
    (shares,), _ = numbers.answer([*prompt, *ids[:parting]], after=True, **penalties)
    assert max(shares, key=shares.__getitem__) == ids[parting]
    (shares,), _ = numbers.answer([*prompt, *ids[:parting]], after=False)
    assert max(shares, key=shares.__getitem__) == known[parting]


@pytest.mark.parametrize(("name", "penalties"), OTHER_WORDS)
def test_a_draft_changes_nothing(
    alone: WorkerProcess, drafted: WorkerProcess, name: str, penalties: dict[str, float]
) -> None:
    """Guesses are held to the penalised choice."""
    prompt = as_ids(prompt_ids(turns(name)[0]))
    done = drafted.ask(prompt, limit=60, **penalties).done
    assert done.generated_token_ids == alone.ask(prompt, limit=60, **penalties).done.generated_token_ids
    assert done.draft
    assert 0 < done.draft.accepted < done.draft.proposed


@pytest.mark.parametrize("worker", ["alone", "drafted"])
def test_an_answer_that_goes_on_elsewhere_goes_on_alike(request: pytest.FixtureRequest, worker: str) -> None:
    """Wherever it is cut: with what is there already as part of the prompt, cold as after a crash, and warm."""
    process: WorkerProcess = request.getfixturevalue(worker)
    for name, penalties in OTHER_WORDS:
        prompt = prompt_ids(turns(name)[0])
        whole = process.ask(as_ids(prompt), limit=60, **penalties).done.generated_token_ids
        assert whole
        for cut in range(1, len(whole), 9):
            for session in (None, f"on-{worker}-{name}"):
                rest = process.ask(as_ids(prompt, whole[:cut]), session=session, limit=60 - cut, **penalties)
                assert rest.done.generated_token_ids == whole[cut:]


def test_of_a_picture_its_ends_count_and_its_cells_do_not() -> None:
    """The window reaches over it into the text before; its two ends are tokens like any others."""
    before = "Take your time and let the window move on far behind the quick brown fox jumped; 0123456789 ABCDEFGHIJ"
    after = " What colour is this?"
    with WorkerProcess(*ARGUMENTS, "--mmproj", str(MMPROJ)) as worker:
        worker.ready()
        client = Client(str(socket_of(worker)))
        numbers = Numbers(client)
        ids, ends, rest = (
            client.call("POST", "/tokenize", {"content": text, "parse_special": True})["tokens"]
            for text in (before, "<|image_start|><|image_end|>", after)
        )
        picture = segment_of(saved(plain(colour="red", size=(112, 112)), "PNG"))
        marker = client.call("GET", "/props")["media_marker"]
        prompt = {"prompt_string": before + marker + after, "multimodal_data": [picture.image]}
        (plainly,), answer = numbers.answer(prompt, after=False)
        (found,), _ = numbers.answer(prompt, after=True, frequency_penalty=1.0)
    window = [*ids, *ends, *rest][-PENALTY_WINDOW:]
    assert len(ends) == 2
    assert answer["timings"]["prompt_n"] >= len(ids) + len(ends) + len(rest) + 16
    assert len(window) == PENALTY_WINDOW
    assert_alike(found, penalised(plainly, window, Sampling(frequency_penalty=1.0)))
