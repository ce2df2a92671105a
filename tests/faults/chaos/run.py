"""One chaos run: a server, clients, a killer; then what is left is counted, and the server is stopped."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import attrs
import httpx
import trio

from tests.faults.chaos import answers, cuts
from tests.faults.chaos.client import Client, Refused
from tests.faults.chaos.killer import Killer
from tests.faults.chaos.known import AnyModel, Nano
from tests.faults.chaos.log import Log
from tests.faults.chaos.processes import MainProcess
from tests.faults.chaos.reading import Wrong
from tests.faults.chaos.rules import Ending, objection
from tests.faults.chaos.talk import Talk
from tests.faults.chaos.watcher import Watcher
from tests.server_process import PROJECT, ServerProcess
from tests.worker.nano import DRAFT, MMPROJ, MODEL

Model = Literal["nano", "nano-draft", "builtin"]
Scenario = Callable[[Talk], Awaitable[None]]

HANG_S: Final = 240.0
"""A scenario that takes longer hangs: four deaths before a token cost 11 s of back-off, a hang at most 120 s."""
PAUSE_S: Final = 0.5
"""After an error, before the client's next request."""
BACK_OFF_S: Final = 10.0
"""The longest pause between two starts of a helper: one that was hurt before a request may still be missing."""
SETTLE_S: Final = 2.0
MEMORY_MIB: Final = 16.0
"""By how much the main process may be larger in the last third of a run than in the second."""
MEMORY_MIN_S: Final = 120.0
"""Shorter runs say nothing about memory: caches still fill."""

FOR_ALL: Final[Mapping[Scenario, int]] = {
    answers.single: 4,
    answers.conversation: 3,
    answers.structured: 3,
    answers.forced: 2,
    answers.unsent_text: 1,
    cuts.cancel_and_continue: 3,
    cuts.leave_and_continue: 3,
    cuts.ended_session: 2,
}
FOR_NANO: Final[Mapping[Scenario, int]] = {answers.tools: 3, answers.image: 3, cuts.answer_now: 2}


@attrs.frozen(kw_only=True)
class Options:
    """kill_every_s: between two signals, 0: none. is_patient: the killer mostly waits for a worker that answers.
    scenarios: names, all if empty. home: the server's. records: folder for failures."""

    model: Model = "nano-draft"
    builtin_model: Path | None = None
    clients: int = 5
    duration_s: float
    kill_every_s: float = 2.0
    is_patient: bool = False
    seed: int = 1
    scenarios: tuple[str, ...] = ()
    home: Path
    records: Path


@attrs.define(kw_only=True)
class Result:
    """What came out of a run. faults: what is not as it has to be besides the answers."""

    log: Log
    killer: Killer
    watcher: Watcher
    before: MainProcess
    after: MainProcess
    latencies: dict[str, list[float]]
    faults: list[str]


def serve_arguments(options: Options) -> list[str]:
    """Of the server with the model of the run."""
    if options.model == "builtin":
        assert options.builtin_model is not None
        return ["--model", str(options.builtin_model)]
    draft = ["--draft", str(DRAFT), "--keep-draft"] if options.model == "nano-draft" else []
    return ["--model", str(MODEL), "--mmproj", str(MMPROJ), *draft]


async def chaos(options: Options) -> Result:
    """Run it. Raises what makes a verdict impossible, such as a server that ends."""
    server = await trio.to_thread.run_sync(lambda: ServerProcess(serve_arguments(options), home=options.home))
    try:
        return await Run(options, server).run()
    finally:
        await trio.to_thread.run_sync(server.stop)


class Run:
    """A run over a server that was just started."""

    def __init__(self, options: Options, server: ServerProcess) -> None:
        self._options = options
        self._server = server
        self._chance = random.Random(options.seed)
        self._log = Log(options.records)
        self._watcher = Watcher(server)
        wait = self._watcher.wait_answering if options.is_patient else None
        self._killer = Killer(server.pid, random.Random(self._chance.random()), options.kill_every_s, wait)
        self._is_over = False

    async def run(self) -> Result:
        """Start to end."""
        await trio.to_thread.run_sync(self._server.wait_ready)
        probe = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.chaos.probe", self._server.url],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        faults = await self._warm_up()
        before = await self._settled()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watcher.run)
            await self._run_clients()
            await trio.to_thread.run_sync(self._server.wait_idle)
            nursery.cancel_scope.cancel()
        printed = (await trio.to_thread.run_sync(probe.communicate))[0]
        measured = json.loads(printed)
        faults += measured["faults"] + self._watcher.orphans
        faults += await self._without_kills(answers.single)
        after = await self._settled(before)
        faults += self._growth(before, after)
        faults += await trio.to_thread.run_sync(self._stop)
        return Result(
            log=self._log,
            killer=self._killer,
            watcher=self._watcher,
            before=before,
            after=after,
            latencies=measured["times"],
            faults=faults,
        )

    # ------------------------------------------------------------ clients

    async def _run_clients(self) -> None:
        """Clients for the time of the run, with the killer beside them; then they end what they have begun."""
        async with trio.open_nursery() as clients:
            for _ in range(self._options.clients):
                clients.start_soon(self._client, random.Random(self._chance.random()))
            with trio.move_on_after(self._options.duration_s):
                await (self._killer.run() if self._options.kill_every_s else trio.sleep_forever())
            self._is_over = True

    async def _client(self, chance: random.Random) -> None:
        """One scenario after the other until the time is over."""
        model = self._model()
        weights = {**FOR_ALL, **(FOR_NANO if isinstance(model, Nano) else {})}
        names = self._options.scenarios
        weights = {scenario: weight for scenario, weight in weights.items() if not names or scenario.__name__ in names}
        while not self._is_over:
            (scenario,) = chance.choices(list(weights), list(weights.values()))
            client = Client(self._server.url, chance)
            talk = Talk(client=client, chance=chance, model=model, log=self._log)
            try:
                await self._judged(scenario, talk)
            finally:
                with trio.CancelScope(shield=True):
                    await client.aclose()

    def _model(self) -> Nano | AnyModel:
        return AnyModel() if self._options.model == "builtin" else Nano()

    async def _judged(self, scenario: Scenario, talk: Talk) -> None:
        start = trio.current_time()
        reasons: list[str] = []
        with trio.move_on_after(HANG_S) as patience:
            try:
                await scenario(talk)
                return
            except* Refused as refusals:
                for refusal in _leaves(refusals):
                    assert isinstance(refusal, Refused)
                    reason = objection(self._ending(refusal, start))
                    if reason is None:
                        self._log.ended_as_named(talk.pending, refusal.code)
                    else:
                        reasons.append(f"{reason}: {refusal.message}")
            except* (Wrong, httpx.HTTPError, ValueError, KeyError) as group:
                reasons += [f"{type(fault).__name__}: {fault}" for fault in _leaves(group)]
        if patience.cancelled_caught:
            reasons.append(f"no end within {HANG_S:.0f} s")
        for reason in reasons:
            self._log.failure(
                talk.pending or scenario.__name__,
                reason,
                talk.client.exchanges,
                hurts=self._killer.hurts,
                states=self._watcher.states,
                server_log=self._server.stderr_path,
            )
        await trio.sleep(PAUSE_S)

    def _ending(self, refusal: Refused, start: float) -> Ending:
        end = trio.current_time()
        return Ending(
            code=refusal.code,
            status=refusal.status,
            retry_after=refusal.retry_after,
            waited_s=refusal.waited_s,
            workers_lost=self._watcher.workers_lost(start, end),
            had_failed=self._watcher.had_failed(start, end),
            helpers_hurt=sum(hurt.is_helper and start - BACK_OFF_S <= hurt.at <= end for hurt in self._killer.hurts),
        )

    # ------------------------------------------------------------ the end

    async def _without_kills(self, scenario: Scenario) -> list[str]:
        """A scenario while nobody is killed: what is wrong with it."""
        client = Client(self._server.url, self._chance)
        talk = Talk(client=client, chance=self._chance, model=self._model(), log=self._log)
        try:
            await scenario(talk)
        except (Refused, Wrong, httpx.HTTPError) as fault:
            return [f"with nobody killed: {scenario.__name__}: {fault}"]
        finally:
            await client.aclose()
        return []

    async def _warm_up(self) -> list[str]:
        """What is started with its first use is there afterwards."""
        scenarios = [answers.single, answers.structured, answers.forced]
        return [fault for scenario in scenarios for fault in await self._without_kills(scenario)]

    async def _settled(self, before: MainProcess | None = None) -> MainProcess:
        """The main process without connections: when it has no more descriptors than before, or SETTLE_S later."""
        now = MainProcess.now(self._server.pid)
        with trio.move_on_after(SETTLE_S):
            while before is None or now.descriptors > before.descriptors:
                await trio.sleep(0.25)
                now = MainProcess.now(self._server.pid)
        return now

    def _growth(self, before: MainProcess, after: MainProcess) -> list[str]:
        faults: list[str] = []
        if after.descriptors > before.descriptors:
            faults.append(f"descriptors grew from {before.descriptors} to {after.descriptors}")
        if self._options.duration_s >= MEMORY_MIN_S:
            sizes = [sample.memory_mib for _, sample in self._watcher.samples]
            third = len(sizes) // 3
            middle, last = statistics.median(sizes[third : 2 * third]), statistics.median(sizes[2 * third :])
            if last - middle > MEMORY_MIB:
                faults.append(f"memory of the main process grew from {middle:.0f} to {last:.0f} MiB")
        return faults

    def _stop(self) -> list[str]:
        """Stop the server: it ends well, and no process of it is left."""
        try:
            status = self._server.stop()
        except AssertionError as left:
            return [str(left)]
        return [f"exit status {status}"] if status else []


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions in a group of groups."""
    found: list[BaseException] = []
    for inner in group.exceptions:
        found += _leaves(inner) if isinstance(inner, BaseExceptionGroup) else [inner]
    return found
