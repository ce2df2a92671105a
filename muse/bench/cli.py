"""Command line of `muse bench`. Exit status 1 when a budget is broken, so a script can check it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from muse.bench.cancel import measure_cancel
from muse.bench.crash import measure_crash
from muse.bench.draft import measure_draft
from muse.bench.engine import measure_engine
from muse.bench.page import measure_page
from muse.bench.prefill import measure_prefill
from muse.bench.server import bench_server
from muse.bench.tax import measure_tax
from muse.bench.ttft import measure_ttft
from muse.bench.ui import measure_ui
from muse.bench.warm import measure_warm
from muse.settings import BUILT_IN_MODEL, muse_home


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muse bench", description="Measure this server on this machine.")
    parser.add_argument("--model", type=Path, default=muse_home() / "models" / BUILT_IN_MODEL, help="model file")
    kinds = parser.add_subparsers(dest="kind", required=True)
    ui = kinds.add_parser("ui", help="latency of page and state while clients generate without pause")
    ui.add_argument("--clients", type=int, default=4)
    ui.add_argument("--requests", type=int, default=300, help="fetches of each path")
    tax = kinds.add_parser("tax", help="decode speed through HTTP against a direct client of the engine")
    tax.add_argument("--rounds", type=int, default=7, help="pairs of measurements")
    tax.add_argument("--tokens", type=int, default=256, help="tokens an answer")
    ttft = kinds.add_parser("ttft", help="what is added to the time to the first token, against a direct client")
    ttft.add_argument("--rounds", type=int, default=100, help="pairs of measurements")
    cancel = kinds.add_parser("cancel", help="time from a cancel to an idle engine, by phase")
    cancel.add_argument("--rounds", type=int, default=30, help="cancels a phase")
    prefill = kinds.add_parser("prefill", help="speed of prompt evaluation in steps against all at once")
    prefill.add_argument("--rounds", type=int, default=4, help="pairs of measurements for each length")
    warm = kinds.add_parser("warm", help="time to the first token of a further turn, against a cold one")
    warm.add_argument("--rounds", type=int, default=3, help="chats")
    crash = kinds.add_parser("crash", help="the pause a client sees when the worker is killed")
    crash.add_argument("--rounds", type=int, default=5, help="crashes")
    draft = kinds.add_parser(
        "draft",
        help="speed with a draft against without, and whether the answers are the same",
        description="Speed with a draft against without, and whether the answers are the same. Needs both files, since "
        "none is built in: muse bench --model MODEL draft --draft DRAFT. Two servers have the model loaded at once.",
    )
    draft.add_argument("--draft", type=Path, required=True, metavar="FILE", help="the draft of the model")
    draft.add_argument("--rounds", type=int, default=5, help="pairs of measurements")
    draft.add_argument("--tokens", type=int, default=256, help="most tokens an answer")
    engine = kinds.add_parser(
        "engine",
        help="what the ExecuTorch engine's loop takes beside the program",
        description="What the ExecuTorch engine's loop takes for a cycle, beside the program's own work. Needs its "
        "environment and an artifact: muse bench --model FOLDER engine.",
    )
    engine.add_argument("--cycles", type=int, default=300, help="cycles of each setting")
    page = kinds.add_parser(
        "page",
        help="typing while a long answer arrives, and the opening of a long chat, in a real browser",
        description="Typing while a long answer arrives, and the opening of a long chat, in a real browser. Needs the "
        "test tools and Chromium; no model.",
    )
    page.add_argument("--tokens", type=int, default=30_000, help="tokens of the answer, 250 a second")
    page.add_argument("--messages", type=int, default=400, help="messages of the chat")
    page.add_argument("--rounds", type=int, default=7, help="times it is opened")
    return parser


async def _measure(options: argparse.Namespace) -> tuple[str, bool]:
    if options.kind == "draft":
        draft = options.draft.absolute()
        return await measure_draft(options.model.absolute(), draft, rounds=options.rounds, tokens=options.tokens)
    if options.kind == "engine":
        return await measure_engine(options.model.absolute(), cycles=options.cycles)
    if options.kind == "page":
        return await measure_page(tokens=options.tokens, messages=options.messages, rounds=options.rounds)
    async with bench_server(["--model", str(options.model.absolute())]) as server:
        match options.kind:
            case "ui":
                return await measure_ui(server, clients=options.clients, requests=options.requests)
            case "tax":
                return await measure_tax(server, rounds=options.rounds, tokens=options.tokens)
            case "ttft":
                return await measure_ttft(server, rounds=options.rounds)
            case "cancel":
                return await measure_cancel(server, rounds=options.rounds)
            case "prefill":
                return await measure_prefill(server, rounds=options.rounds)
            case "warm":
                return await measure_warm(server, rounds=options.rounds)
            case _:
                return await measure_crash(server, rounds=options.rounds)


async def _run(options: argparse.Namespace) -> bool:
    text, fine = await _measure(options)
    sys.stdout.write(text + "\n")
    return fine


async def _run_until_terminated(options: argparse.Namespace) -> bool:
    """SIGTERM ends a benchmark in order, so that no server of its own is left behind."""
    fine = False
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                async for _ in signals:
                    nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        fine = await _run(options)
        nursery.cancel_scope.cancel()
    return fine


def main(arguments: Sequence[str]) -> int:
    """Run one benchmark. Exit status 0: its budgets hold."""
    return 0 if trio.run(_run_until_terminated, _parser().parse_args(list(arguments))) else 1
