"""Which errors an answer may end in while processes of the tree are killed, and what must have happened then.

Everything else is a failure: another code, and one of these without its reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

LOAD_WAIT_S: Final = 30.0
"""How long a whole answer waits for a model that loads (`muse.settings.Limits`)."""


@attrs.frozen(kw_only=True)
class Ending:
    """An answer that ended in an error, and what happened meanwhile.

    status: of HTTP; None: inside a stream. workers_lost: at most so many died during it. had_failed: the worker was
    `failed` at some time of it. helpers_hurt: signals to processes that belong to no worker.
    """

    code: str
    status: int | None
    retry_after: str | None
    waited_s: float
    workers_lost: int
    had_failed: bool
    helpers_hurt: int


@attrs.frozen(kw_only=True)
class Rule:
    """An error that may occur. status: of HTTP, where it does not come inside a stream; None: only inside one."""

    code: str
    status: int
    when: str
    holds: Callable[[Ending], bool]
    retry_after: bool = False


RULES: Final = (
    Rule(
        code="poison_prompt",
        status=502,
        when="two workers died at the same place of it",
        holds=lambda ending: ending.workers_lost >= 2,
    ),
    Rule(
        code="worker_lost",
        status=502,
        when="three workers died during it",
        holds=lambda ending: ending.workers_lost >= 3,
    ),
    Rule(
        code="model_unavailable",
        status=503,
        when="four workers in a row died while loading: the model is `failed` until somebody asks again",
        holds=lambda ending: ending.had_failed,
        retry_after=True,
    ),
    Rule(
        code="model_loading",
        status=503,
        when="a whole answer waited 30 s for a model that was still loading",
        holds=lambda ending: ending.waited_s >= LOAD_WAIT_S,
        retry_after=True,
    ),
    Rule(
        code="template_failed",
        status=500,
        when="the process that renders templates was lost at it, and the next one too",
        holds=lambda ending: ending.helpers_hurt >= 2,
    ),
    Rule(
        code="process_stalled",
        status=503,
        when="two processes that worked for it, one after another, stood still for longer than its work may take",
        holds=lambda ending: ending.helpers_hurt >= 2,
        retry_after=True,
    ),
    Rule(
        code="no_process",
        status=503,
        when="three processes in a row, that it needed one of, were killed while they started",
        holds=lambda ending: ending.helpers_hurt >= 3,
        retry_after=True,
    ),
)


def objection(ending: Ending) -> str | None:
    """Why an answer must not have ended so; None: a rule names it."""
    rules = [rule for rule in RULES if rule.code == ending.code]
    if not rules:
        return f"no rule names {ending.code}"
    objections = [_objection(rule, ending) for rule in rules]
    return None if None in objections else "; ".join(filter(None, objections))


def _objection(rule: Rule, ending: Ending) -> str | None:
    if ending.status not in (None, rule.status):
        return f"{ending.code} came with status {ending.status} instead of {rule.status}"
    if not rule.holds(ending):
        return f"{ending.code} is for: {rule.when}; but {ending}"
    if rule.retry_after and ending.status is not None and ending.retry_after is None:
        return f"{ending.code} came without Retry-After"
    return None
