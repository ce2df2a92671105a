"""Programs as the loops see them: tensors in and out are arrays here.

Logits are not copied: they are true until the next call of the same method, and the loops are through with them then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from muse.worker.engines.executorch import program_facts as names
from muse.worker.engines.executorch.decoding import Array, Logits
from muse.worker.engines.executorch.library import Program
from muse.worker.engines.executorch.program_facts import ProgramFacts


class _Model:
    """What both kinds have."""

    def __init__(self, program: Program, facts: ProgramFacts, forward: str) -> None:
        self._library = program.library
        self._activation = facts.activation
        self._embed = program.method(names.EMBED, keeps=False)
        # One object for prompt and answer: the caches are its own.
        self._forward = program.method(forward, keeps=True)

    def embed(self, ids: Sequence[int]) -> Array:
        """Embeddings of ids."""
        tokens = self._library.tensor(np.asarray([ids], np.int64), "int64")
        return self._library.array(self._embed([tokens])[0])

    def _evaluate(self, embeddings: Array, position: int) -> list[Any]:
        tokens = embeddings.shape[1]
        places = np.arange(position, position + tokens, dtype=np.int64)
        library = self._library
        return self._forward([library.tensor(embeddings, self._activation), library.tensor(places, "int64")])


class SoloProgram(_Model):
    """See SoloModel."""

    def __init__(self, program: Program, facts: ProgramFacts) -> None:
        super().__init__(program, facts, names.SOLO)

    def forward(self, embeddings: Array, position: int) -> Logits:
        """Logits behind the last token."""
        return self._library.view(self._evaluate(embeddings, position)[0][0])


class DraftedProgram(_Model):
    """See DraftedModel."""

    def __init__(self, program: Program, facts: ProgramFacts) -> None:
        super().__init__(program, facts, names.TARGET)
        self._draft = program.method(names.DRAFT, keeps=True)

    def target(self, embeddings: Array, position: int, *, last_only: bool = False) -> tuple[Logits, Array]:
        """Logits and hidden states."""
        logits, hidden = self._evaluate(embeddings, position)
        rows = logits[0, -1:] if last_only else logits[0]
        return self._library.view(rows), self._library.array(hidden)

    def draft(self, block: Sequence[int], hidden: Array, start: int) -> Logits:
        """Logits of a block."""
        library = self._library
        inputs = [
            library.tensor(np.asarray([block], np.int64), "int64"),
            library.tensor(hidden, self._activation),
            library.tensor(np.asarray([start], np.int64), "int64"),
        ]
        return library.view(self._draft(inputs)[0][0])
