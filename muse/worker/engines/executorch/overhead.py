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

from muse.protocol import Sampling
from muse.worker.command_line import parse
from muse.worker.engines.executorch.library import Method
from muse.worker.engines.executorch.loading import Loaded, load
from muse.worker.engines.executorch.sampling import Sampler

SETTINGS: Final = {
    "greedy": Sampling(),
    "temperature 1": Sampling(temperature=1.0, seed=1),
    "temperature 1, top-p 0.95": Sampling(temperature=1.0, top_p=0.95, seed=1),
    "temperature 0.7, top-k 40, top-p 0.9, min-p 0.05": Sampling(
        temperature=0.7, top_k=40, top_p=0.9, min_p=0.05, seed=1
    ),
}
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


def _measure(loaded: Loaded, sampling: Sampling, cycles: int, clock: _Clock) -> list[float]:
    """Milliseconds outside of the program, cycle by cycle."""
    found: list[float] = []
    per_cycle = 4
    while len(found) < cycles:
        loaded.decoder.begin(Sampler(sampling), 0)
        loaded.decoder.prefill(loaded.model.embed([loaded.tokens.begin] * _PROMPT_TOKENS))
        room = (loaded.context - _PROMPT_TOKENS) // per_cycle - 1
        for number in range(min(room, cycles - len(found) + _WARM_UP)):
            clock.inside_s = 0.0
            began = time.perf_counter()
            loaded.decoder.step()
            if number >= _WARM_UP:
                found.append((time.perf_counter() - began - clock.inside_s) * 1000)
    return found


def main(folder: Path, cycles: int) -> None:
    """Load and measure."""
    loaded, _ = load(parse(["--engine", "executorch", "--model", str(folder)]), lambda _fraction, _stage: None)
    clock = _Clock()
    result = {
        "kind": loaded.facts.kind,
        "vocabulary": loaded.facts.vocabulary,
        "cycles_ms": {name: _measure(loaded, sampling, cycles, clock) for name, sampling in SETTINGS.items()},
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
