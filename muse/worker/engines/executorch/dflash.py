"""The loop with a DFlash draft (contracts/pte-contract.md section 7).

Each cycle the draft fills in a block behind the last token, whose places it names with certainty (its best token each);
the target evaluates them at once, and `Sampler.accept` decides one after the other, so the answer is distributed as
without a draft. Tokens are given as soon as they are decided; the last of them, the correction or the token behind the
block, is not evaluated yet.

Hidden states that the target gave and the draft has not seen wait in `_hidden`, one row a position, the first of them
at `_draft_seen`. The draft's cache is its own affair: whatever is wrong in it costs guesses, never a wrong token.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from muse.worker.engines.executorch.decoding import Array, DraftedModel, Given, Logits, upto_end
from muse.worker.engines.executorch.sampling import Sampler

BLOCK: Final = 4
"""Tokens of a block, the known one included: the runtime's default, whatever block the draft was trained with."""


@attrs.frozen(kw_only=True)
class DraftFacts:
    """mask_id: stands for a token to be filled in. block: the largest that the program takes. chunk: most rows of
    hidden states a call takes. window: how many positions the draft looks back, 0: all. context: tokens that the
    target's cache holds."""

    mask_id: int
    block: int
    chunk: int
    window: int
    context: int


def drafted_at_once(facts: DraftFacts) -> int:
    """Tokens that are guessed in a step."""
    return min(BLOCK, facts.block) - 1


class DraftedDecoder:
    """Up to BLOCK tokens a step."""

    def __init__(self, model: DraftedModel, facts: DraftFacts, end_ids: frozenset[int]) -> None:
        self._model = model
        self._facts = facts
        self._end_ids = end_ids
        self._block = drafted_at_once(facts) + 1
        self._position = 0
        self._pending: int | None = None
        self._hidden: list[Array] = []
        self._draft_seen = 0
        self.proposed = self.accepted = 0

    @property
    def _waiting(self) -> int:
        return sum(part.shape[1] for part in self._hidden)

    def begin(self, sampler: Sampler, position: int) -> None:
        """See Decoder. Goes back in the draft as well."""
        self._sampler = sampler
        self._position = position
        self._pending = None
        self._last: Logits | None = None
        self.proposed = self.accepted = 0
        if position <= self._draft_seen:
            self._draft_seen, self._hidden = position, []
        else:
            self._keep_rows(position - self._draft_seen)

    def prefill(self, embeddings: Array) -> None:
        """See Decoder."""
        rows, hidden = self._model.target(embeddings, self._position, last_only=True)
        self._last = rows[-1]
        self._position += embeddings.shape[1]
        self._hidden.append(hidden)
        if self._facts.window:
            self._forget_old()
        else:
            self._shrink()  # every row is looked at, and those of a long prompt would fill the memory

    def step(self) -> Given:
        """See Decoder."""
        if self._pending is None:
            assert self._last is not None, "a prompt has at least one token"
            self._shrink()
            self._pending = self._sampler.choose(self._last)
            return self._given([self._pending])
        drafts = self._drafts()
        rows, hidden = self._model.target(self._model.embed([self._pending, *drafts]), self._position)
        decided: list[int] = []
        for row, drafted in zip(rows, drafts, strict=False):
            decided.append(self._sampler.accept(row, drafted))
            if decided[-1] != drafted or drafted in self._end_ids:
                break
        else:
            decided.append(self._sampler.choose(rows[-1]))
        self.proposed += len(drafts)
        self.accepted += sum(one == other for one, other in zip(decided, drafts, strict=False))
        # Evaluated and still right: the pending token, and what was decided but for its last.
        self._position += len(decided)
        self._hidden.append(hidden[:, : len(decided)])
        self._pending = decided[-1]
        return self._given(decided)

    def _drafts(self) -> list[int]:
        """Guesses for the places behind the pending token, as many as the context has room for."""
        room = self._facts.context - self._position
        count = min(self._block, room) - 1
        if count <= 0 or not self._hidden:
            return []
        hidden = self._hidden[0] if len(self._hidden) == 1 else np.concatenate(self._hidden, 1)
        assert self._pending is not None
        block = [self._pending] + [self._facts.mask_id] * (self._block - 1)
        rows = self._model.draft(block, hidden, self._draft_seen)
        self._draft_seen += hidden.shape[1]
        self._hidden = []
        return [int(token) for token in rows[1 : count + 1].argmax(-1)]

    def _given(self, tokens: list[int]) -> Given:
        given = upto_end(tokens, self._end_ids)
        return Given(tokens=given, is_end=given[-1] in self._end_ids, evaluated=self._position)

    def _forget_old(self) -> None:
        """Leave out what the draft would not look at any more."""
        surplus = self._waiting - self._facts.window
        while surplus >= (oldest := self._hidden[0].shape[1]):
            surplus -= oldest
            self._draft_seen += oldest
            del self._hidden[0]

    def _shrink(self) -> None:
        """Hand the draft what waits, the oldest first, until one call takes the rest."""
        while self._waiting > self._facts.chunk:
            oldest = self._hidden.pop(0)
            self._model.draft([self._facts.mask_id] * self._block, oldest, self._draft_seen)
            self._draft_seen += oldest.shape[1]

    def _keep_rows(self, count: int) -> None:
        kept: list[Array] = []
        for part in self._hidden:
            if count > 0:
                kept.append(part[:, :count])
                count -= kept[-1].shape[1]
        self._hidden = kept
