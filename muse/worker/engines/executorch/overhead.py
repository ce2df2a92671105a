"""What the loop itself takes for a cycle: `python -m muse.worker.engines.executorch.overhead FOLDER CYCLES`, one JSON
line. Everything counts that is not a call of the program: tensors made and looked at, choosing, bookkeeping.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from muse.protocol import Sampling
from muse.worker.command_line import parse
from muse.worker.engines.executorch.constraint import JsonConstraint
from muse.worker.engines.executorch.library import Method
from muse.worker.engines.executorch.loading import Loaded, load
from muse.worker.engines.executorch.sampling import Sampler

_PLAIN: Final = Sampling(temperature=1.0, seed=1)
_FILTERED: Final = Sampling(temperature=0.7, top_k=40, top_p=0.9, min_p=0.05, seed=1)
_ANY_LIST: Final = '{"type":"array"}'
SETTINGS: Final[dict[str, tuple[Sampling, str | None]]] = {
    "greedy": (Sampling(), None),
    "temperature 1": (_PLAIN, None),
    "temperature 1, top-p 0.95": (attrs.evolve(_PLAIN, top_p=0.95), None),
    "temperature 0.7, top-k 40, top-p 0.9, min-p 0.05": (_FILTERED, None),
    "temperature 1, all penalties": (
        attrs.evolve(_PLAIN, repeat_penalty=1.1, presence_penalty=0.5, frequency_penalty=0.5),
        None,
    ),
    "greedy, held to a JSON form": (Sampling(), _ANY_LIST),
    "temperature 1, held to a JSON form": (_PLAIN, _ANY_LIST),
    "temperature 0.7, top-k 40, top-p 0.9, min-p 0.05, held to a JSON form": (_FILTERED, _ANY_LIST),
}
"""Name to sampling, and the JSON Schema of the answer, if it has one."""
_PROMPT_TOKENS: Final = 16
_WARM_UP: Final = 3


class _Clock:
    """Sums up the time inside of calls."""

    def __init__(self) -> None:
        self.inside_s = 0.0
        call = Method.__call__

        clock = self

        def timed(self: Method, inputs: Sequence[Any]) -> list[Any]:
            began = time.perf_counter()
            try:
                return call(self, inputs)
            finally:
                clock.inside_s += time.perf_counter() - began

        Method.__call__ = timed


def _measure(loaded: Loaded, sampling: Sampling, schema: str | None, cycles: int, clock: _Clock) -> list[float]:
    """Milliseconds outside of the program, cycle by cycle. An answer that ends is followed by another one."""
    found: list[float] = []
    per_cycle = 4
    while len(found) < cycles:
        constraint = None if schema is None else JsonConstraint(loaded.grammars, schema)
        loaded.decoder.begin(Sampler(sampling, constraint, [loaded.tokens.begin] * _PROMPT_TOKENS), 0)
        loaded.decoder.prefill(loaded.model.embed([loaded.tokens.begin] * _PROMPT_TOKENS))
        room = (loaded.context - _PROMPT_TOKENS) // per_cycle - 1
        for number in range(min(room, cycles - len(found) + _WARM_UP)):
            clock.inside_s = 0.0
            began = time.perf_counter()
            given = loaded.decoder.step()
            if number >= _WARM_UP:
                found.append((time.perf_counter() - began - clock.inside_s) * 1000)
            if given.is_end:
                break
    return found


def main(folder: Path, cycles: int) -> None:
    """Load and measure."""
    loaded, _ = load(parse(["--engine", "executorch", "--model", str(folder)]), lambda _fraction, _stage: None)
    clock = _Clock()
    result = {
        "kind": loaded.facts.kind,
        "vocabulary": loaded.facts.vocabulary,
        "cycles_ms": {name: _measure(loaded, *setting, cycles, clock) for name, setting in SETTINGS.items()},
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
