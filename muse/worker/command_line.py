"""The command line of a worker. Engine settings that nobody gives are chosen by the engine."""

from __future__ import annotations

import argparse
from pathlib import Path

import attrs

from muse.settings import POSITION_ORDERS, PositionOrder


@attrs.define(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker is to run. context: tokens a slot holds, None: as many as the model was trained for.
    model: a file, or the folder of an artifact. draft: what guesses tokens ahead. keep_draft: never say that it costs
    more than it gives. mmproj: what makes pictures readable. threads, batch, cache_mib, kv_mib: None: chosen by the
    engine. picture_positions: how a picture's positions are laid out (executorch). worker_bin: the native worker's
    program, worker_args: flags of its own for it; model_id: what the model is called, None: chosen by the engine."""

    engine: str
    model: Path | None
    draft: Path | None
    keep_draft: bool
    mmproj: Path | None
    script: Path | None
    context: int | None
    slots: int
    threads: int | None
    batch: int | None
    cache_mib: int | None
    kv_mib: int | None
    worker_bin: Path | None
    worker_args: tuple[str, ...]
    model_id: str | None
    picture_positions: PositionOrder


def parse(arguments: list[str]) -> WorkerOptions:
    """Parse the arguments. Exits with status 2 and a usage text on stderr when they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m muse.worker", allow_abbrev=False)
    parser.add_argument("--engine", choices=("llamacpp", "executorch", "native", "scripted"), required=True)
    parser.add_argument(
        "--model", type=Path, help="GGUF file (llamacpp); folder of an artifact, or its .pte (executorch, native)"
    )
    parser.add_argument("--draft", type=Path, help="GGUF file of the model's DFlash draft (scripted does not read it)")
    parser.add_argument("--keep-draft", action="store_true", help="do not watch what the draft gives (llamacpp)")
    parser.add_argument("--mmproj", type=Path, help="GGUF file of the model's image projector (llamacpp)")
    parser.add_argument("--script", type=Path, help="JSON file (scripted)")
    parser.add_argument("--context", type=_positive, help="tokens of prompt and answer together, a slot")
    parser.add_argument("--slots", type=_positive, default=2, help="requests that run at the same time")
    parser.add_argument("--threads", type=_positive, help="threads that compute")
    parser.add_argument("--batch", type=_positive, help="prompt tokens evaluated at a time")
    parser.add_argument("--cache-mib", type=_not_negative, help="memory for sessions without a slot (llamacpp)")
    parser.add_argument("--kv-mib", type=_positive, help="most memory of all conversations (llamacpp)")
    parser.add_argument("--worker-bin", type=Path, help="program of the native worker (native)")
    parser.add_argument("--worker-arg", action="append", default=[], dest="worker_args", help="a flag for it (native)")
    parser.add_argument("--model-id", help="what the model is called (native)")
    parser.add_argument(
        "--picture-positions",
        choices=POSITION_ORDERS,
        default=POSITION_ORDERS[0],
        help="order of the positions of a picture's patches (executorch; default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    given.worker_args = tuple(given.worker_args)
    if given.engine in ("llamacpp", "executorch") and given.model is None:
        parser.error(f"--engine {given.engine} needs --model")
    if given.engine == "native" and (given.model is None or given.worker_bin is None):
        parser.error("--engine native needs --model and --worker-bin")
    if given.engine == "executorch":
        _check_executorch(parser, given)
    if given.engine == "scripted" and given.script is None:
        parser.error("--engine scripted needs --script")
    if given.engine == "scripted" and given.mmproj is not None:
        parser.error("--engine scripted sees no pictures, with --mmproj or without")
    return WorkerOptions(**vars(given))


def _check_executorch(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """What this engine has inside its artifact, or not at all."""
    for name in ("draft", "mmproj"):
        if getattr(given, name) is not None:
            parser.error(f"--engine executorch has its {name} inside the artifact: leave --{name} out")
    for name in ("cache-mib", "kv-mib"):
        if getattr(given, name.replace("-", "_")) is not None:
            parser.error(f"--engine executorch has the cache that its artifact was made with: leave --{name} out")


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError(text)
    return value
