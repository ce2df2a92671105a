"""The command line of the chaos run. Exit status 1: something failed."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

import trio

from muse.settings import BUILT_IN_MODEL, muse_home
from tests.faults.chaos.report import is_clean, summary
from tests.faults.chaos.run import Model, Options, chaos


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two signals; 0: none")
    parser.add_argument("--patient", action="store_true", help="mostly wait for a worker that answers, then signal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", choices=get_args(Model), default="nano-draft")
    parser.add_argument("--only", nargs="*", default=[], help="names of scenarios; all if left out")
    parser.add_argument("--records", type=Path, help="folder for the records of failures; a new one if left out")
    given = parser.parse_args()
    folder = (given.records or Path(tempfile.mkdtemp(prefix="muse-chaos-"))).resolve()
    options = Options(
        model=given.model,
        builtin_model=muse_home() / "models" / BUILT_IN_MODEL,
        clients=given.clients,
        duration_s=given.minutes * 60,
        kill_every_s=given.every,
        is_patient=given.patient,
        seed=given.seed,
        scenarios=tuple(given.only),
        home=folder / "home",
        records=folder / "failures",
    )
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {options}")
    result = trio.run(chaos, options)
    print(summary(result))
    return 0 if is_clean(result) else 1


if __name__ == "__main__":
    sys.exit(main())
