"""The rest of a constrained answer, with a native server that is made up here: how it is distributed, and its cost."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import Any, Final

import pytest

from muse.worker.answer_matcher import AnswerMatcher, MatcherTokens, matcher_tokens
from muse.worker.engines.llamacpp.constrained_rest import ConstrainedRest
from muse.worker.json_form import grammar_of

WORDS: Final = [b'"', b"a", b"b", b"ab", b"c", b"\xc3", b"\xa9", b"\xb6", b"x", b"END"]
END: Final = len(WORDS) - 1
GRAMMAR: Final = grammar_of(json.dumps({"type": "string", "pattern": "^(a|ab|b|é|ö){0,2}$"}))
TOP: Final = 4


class Server:
    """Draws as llama.cpp does: freely among its best; what a grammar does not allow is drawn again among the best of
    the allowed ones. The weights depend on the token before only."""

    def __init__(self, seed: int, top: int = len(WORDS)) -> None:
        self._random = random.Random(seed)
        self._top = top
        self.requests = 0
        self.prompts: list[bytes] = []

    def weights(self, last: int) -> list[float]:
        return [math.exp(math.sin(3.1 * last + 1.7 * token) * 1.5) for token in range(len(WORDS))]

    def best(self, weights: dict[int, float]) -> dict[int, float]:
        kept = sorted(weights, key=weights.__getitem__, reverse=True)[: self._top]
        total = sum(weights[token] for token in kept)
        return {token: weights[token] / total for token in kept}

    def _draw(self, shares: dict[int, float]) -> int:
        return self._random.choices(list(shares), list(shares.values()))[0]

    def ask(self, known: Sequence[int], options: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        self.prompts.append(b"".join(WORDS[token] for token in known))
        allowed = [_tokens_of(part) for part in options.get("grammar", "").partition("start: ")[2].split()]
        certain = [token for token, _ in options.get("logit_bias", ())]
        tokens: list[int] = []
        for number in range(options["n_predict"]):
            last = [0, *known, *tokens][-1]
            weights = dict(enumerate(self.weights(last)))
            drawn = certain[0] if certain else self._draw(self.best(weights))
            if allowed and drawn not in allowed[number]:
                drawn = self._draw(self.best({token: weights[token] for token in allowed[number]}))
            tokens.append(drawn)
            if drawn == END:
                break
        return {"tokens": tokens, "timings": {}}

    def chances(self, last: int, allowed: set[int]) -> dict[int, float]:
        """Of each token that is allowed, by that rule."""
        weights = dict(enumerate(self.weights(last)))
        free = self.best(weights)
        again = self.best({token: weights[token] for token in allowed})
        refused = sum(share for token, share in free.items() if token not in allowed)
        return {token: free.get(token, 0.0) + refused * again.get(token, 0.0) for token in allowed}


def _tokens_of(part: str) -> set[int]:
    ranges = [tuple(map(int, one.split("-"))) for one in part.strip("<[]>").split(",")]
    return {token for first, last in ranges for token in range(first, last + 1)}


@pytest.fixture(scope="module")
def words() -> MatcherTokens:
    return matcher_tokens(WORDS, control=(END,), end=(END,))


def rest_of(server: Server, matcher: AnswerMatcher, *, as_text: bool = False) -> list[int]:
    rest = ConstrainedRest(copied(matcher), spelled=WORDS, end=(END,), ask=server.ask, as_text=as_text)
    known: list[int] = []
    while True:
        step = rest.next(known, 100)
        known += step.tokens
        if step.is_end:
            return known


def copied(matcher: AnswerMatcher) -> AnswerMatcher:
    """To compile a grammar takes longer than to follow it."""
    other = copy(matcher)
    other._matcher = matcher._matcher.deep_copy()
    return other


def expected(server: Server, matcher: AnswerMatcher) -> dict[tuple[int, ...], float]:
    """The chance of each whole rest."""
    found: dict[tuple[int, ...], float] = {}

    def follow(tokens: tuple[int, ...], chance: float) -> None:
        here = copied(matcher)
        assert all(here.take_token(token, WORDS[token]) for token in tokens)
        if here.is_over:
            found[tokens] = found.get(tokens, 0.0) + chance
            return
        allowed = {token for one in here.allowed() for token in one}
        for token, share in server.chances([0, *tokens][-1], allowed).items():
            if share:
                follow((*tokens, token), chance * share)

    follow((), 1.0)
    return found


@pytest.mark.parametrize(("top", "as_text"), [(len(WORDS), True), (TOP, False)], ids=["all", "best"])
def test_it_is_distributed_as_if_undisturbed(words: MatcherTokens, top: int, as_text: bool) -> None:
    """Also where only the best tokens take part, and where the engine cannot begin inside a character: 1,500 draws
    against the chances of each answer by the native server's own rule (chi square, five deviations)."""
    draws, server = 1_500, Server(1, top)
    matcher = AnswerMatcher(GRAMMAR, prefix='"', tokens=words)
    chances = expected(server, matcher)
    assert math.isclose(sum(chances.values()), 1.0)
    counts = Counter(tuple(rest_of(server, matcher, as_text=as_text)) for _ in range(draws))
    assert counts.keys() <= chances.keys()
    large = {answer: draws * chance for answer, chance in chances.items() if draws * chance >= 5}
    square = sum((counts[answer] - wanted) ** 2 / wanted for answer, wanted in large.items())
    assert square < len(large) + 5 * math.sqrt(2 * len(large))
    for prompt in server.prompts if as_text else []:
        prompt.decode()


def test_what_leaves_no_choice_is_not_asked_for(words: MatcherTokens) -> None:
    """Nor is an answer that is over."""
    server = Server(2)
    assert rest_of(server, AnswerMatcher(GRAMMAR, prefix='"abab"', tokens=words)) == []
    assert rest_of(server, AnswerMatcher(GRAMMAR, prefix='"abab', tokens=words)) == [WORDS.index(b'"')]
    assert server.requests == 0


def test_a_model_that_follows_by_itself_is_asked_for_more_at_a_time(words: MatcherTokens) -> None:
    """Requests are few then."""

    class Willing(Server):
        def weights(self, last: int) -> list[float]:
            return [1.0 if token == WORDS.index(b"a") else 1e-9 for token in range(len(WORDS))]

    server = Willing(3)
    matcher = AnswerMatcher(grammar_of('{"type":"string"}'), prefix='"', tokens=words)
    rest = ConstrainedRest(matcher, spelled=WORDS, end=(END,), ask=server.ask, as_text=False)
    known: list[int] = []
    while len(known) < 200:
        known += rest.next(known, 200 - len(known)).tokens
    assert len(known) == 200
    assert server.requests < 20
