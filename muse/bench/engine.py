"""`muse bench engine`: what the ExecuTorch engine's loop takes for a cycle beside the program's own work.

Measured in the engine's environment, in a process of its own, without a server. Budget: half of the cycles of each
setting under 2 ms. On the real vocabulary that is four rows of 202,048 logits a cycle.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import trio

from muse.bench.table import table
from muse.settings import PROJECT_ROOT, Settings

BUDGET_MS: Final = 2.0


async def measure_engine(model: Path, *, cycles: int) -> tuple[str, bool]:
    """The table, and whether the budget holds. Raises RuntimeError when it cannot be measured."""
    python = Settings(engine="executorch", model=model).worker_python
    command = [python, "-m", "muse.worker.engines.executorch.overhead", str(model), str(cycles)]
    done = await trio.run_process(
        command, capture_stdout=True, capture_stderr=True, cwd=PROJECT_ROOT, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError(f"the engine could not be measured: {done.stderr.decode(errors='replace')[-2000:]}")
    return report(json.loads(done.stdout.splitlines()[-1]))


def report(result: dict[str, Any]) -> tuple[str, bool]:
    """The table of one measurement, and whether the budget holds."""
    rows: list[list[str]] = []
    worst = 0.0
    for name, cycles in result["cycles_ms"].items():
        in_order = sorted(cycles)
        middle, most = in_order[len(in_order) // 2], in_order[len(in_order) * 99 // 100]
        worst = max(worst, middle)
        rows.append([name, f"{middle:.2f}", f"{most:.2f}"])
    head = table(["outside the program, ms a cycle", "p50", "p99"], rows)
    kept = "kept" if worst < BUDGET_MS else "BROKEN"
    return (
        f"{head}\n{result['kind']} program, vocabulary {result['vocabulary']}; budget p50 {BUDGET_MS:.0f} ms: {kept}",
        worst < BUDGET_MS,
    )
