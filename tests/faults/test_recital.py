"""muse-nano, killed while it recites: what the client has in the end is the memorised text, byte for byte.

The tiny model has Muse Glimmer's architecture and knows its dialogues by heart, so there is no doubt about how an
answer goes on. A short one is over in less than a tenth of a second: kills are timed by what was read, and one that
came too late counts for nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import httpx
import pytest

from actors.reply import Reply
from actors.supervisor.launch import WorkerCommand
from muse.protocol import IdsSegment
from muse.settings import Settings
from tests.faults.core import FaultCore, finished, running_core
from tests.faults.server import read_stream
from tests.server_process import HANG_GUARD_S, ServerProcess, worker_group_of
from tests.worker.nano import DATE, MODEL, answer_ids, turns

pytestmark = pytest.mark.thorough

Whom = Literal["group", "worker", "engine"]
WHOM: Final[tuple[Whom, ...]] = ("group", "worker", "engine")
"""Killed is every process of the worker, the worker past its guard, or the native server alone."""
TRIES: Final = 10
FEW: Final[tuple[tuple[str, tuple[int, ...], Whom], ...]] = (
    ("plan", (5,), "group"),  # in the first of two messages of reasoning
    ("plan", (22,), "engine"),  # in the second
    ("plan", (40,), "worker"),
    ("german", (20,), "engine"),
    ("japanese", (6,), "worker"),  # every character is three tokens
    ("emoji", (4,), "group"),  # four and more
    ("emoji", (8,), "engine"),
    ("story", (40, 200), "group"),  # far behind the window, twice
)
EVERY: Final = {"plan": 2, "compare": 3, "german": 2, "japanese": 1, "emoji": 1, "chinese": 1, "code": 4, "story": 20,
                "count": 20}  # fmt: skip
"""How many characters lie between two kills."""
AT_ONCE: Final = """
import runpy
from muse.worker.engines.llamacpp import engine
engine._GATHER_S = 0.0
runpy.run_module("muse.worker", run_name="__main__", alter_sys=True)
"""


HOLD: Final = "hold"
"""A file with the number of characters behind which a worker waits for as long as the file is there."""
SLACK: Final = 3
"""Characters more, so that none that is waited for is the last one, which may be held back as the start of a mark."""
HELD_WORKER: Final = """
import os, sys, time
if "muse.worker" in sys.orig_argv:
    from pathlib import Path
    from muse.worker.engines.llamacpp.stream import CompletionReader
    hold = Path(os.environ["MUSE_TEST_HOLD"])
    feed, send = CompletionReader.feed, CompletionReader._send

    def counting_send(reader, ids, text, **fields):
        reader.sent_chars = getattr(reader, "sent_chars", 0) + len(text)
        send(reader, ids, text, **fields)

    def feed_one_by_one(reader, events):
        for event in events:
            feed(reader, [event])
            while hold.exists() and getattr(reader, "sent_chars", 0) >= int(hold.read_text() or 0):
                time.sleep(0.01)

    CompletionReader.feed, CompletionReader._send = feed_one_by_one, counting_send
"""


class EachTokenAtOnce(WorkerCommand):
    """Starts workers that hand on every token by itself. Gathered, a short answer comes in three pieces, and could be
    cut in two places."""

    def arguments(self) -> list[str]:
        _python, _option, _module, *others = super().arguments()
        return [sys.executable, "-c", AT_ONCE, *others]


@asynccontextmanager
async def reciting(home: Path, kills: int) -> AsyncGenerator[FaultCore]:
    """The actors over muse-nano, which is ready."""
    settings = Settings(model=MODEL, home=home, threads=1)
    async with running_core(EachTokenAtOnce(settings), settings, guard_s=60 + 5 * kills) as core:
        await core.wait_worker("ready")
        yield core


def memorised(name: str) -> dict[str, Any]:
    """The first answer of a dialogue."""
    return turns(name)[0]["answer"]


def known_text(name: str) -> str:
    """All that is said in it, in order."""
    return "\n\n".join(memorised(name)["reasoning"]) + memorised(name)["message"]["content"]


async def victim(core: FaultCore, epoch: int, whom: Whom) -> int:
    """Whom to kill once this worker is there, as `kill` takes it. Looked up before: it takes as long as some tokens."""
    await core.wait_epoch(epoch, "ready", "busy")
    if whom == "group":
        return -core.group()
    return core.worker_pids()[0 if whom == "worker" else -1]


async def read_and_kill(core: FaultCore, reply: Reply, places: tuple[int, ...], whom: Whom) -> str:
    """Read like a client; kill each time that so many characters were read and the worker decodes. What was read.
    Over when the worker that replaces the last killed one is ready."""
    position, text, epoch, left = 0, "", core.board.value.worker.epoch, list(places)
    target = await victim(core, epoch, whom)
    while True:
        for piece in reply.read(position):
            assert piece.end == position + len(piece.text)
            position, text = piece.end, text + piece.text
        worker, sign = core.board.value.worker, reply.sign
        decodes = (worker.epoch, worker.state) == (epoch, "busy") and sign is not None and sign.phase == "decode"
        if decodes and left and position >= left[0]:
            os.kill(target, signal.SIGKILL)
            epoch += 1
            del left[0]
            target = await victim(core, epoch, whom)
        if reply.outcome is not None and position == reply.end:
            await core.wait_epoch(epoch, "ready")
            return text
        await reply.wait_news(position, reply.sign_version)


async def recite(core: FaultCore, name: str, places: tuple[int, ...], whom: Whom) -> list[int]:
    """One answer, killed at these places, which must be the memorised one in every respect. How many tokens were
    there each time it went on: none for a kill that came too late."""
    core.generations.clear()
    question = turns(name)[0]["messages"][0]["content"]
    reply = await core.start(question, temperature=0, chat_template_kwargs={"current_date": DATE})
    text = await read_and_kill(core, reply, places, whom)
    outcome = await finished(reply)
    ids = answer_ids(turns(name)[0])
    assert text == known_text(name)
    assert reply.text("answer") == memorised(name)["message"]["content"]
    assert (outcome.finish_reason, outcome.metrics.completion_tokens) == ("stop", len(ids))
    first, *later = core.generations
    assert len(later) == outcome.metrics.resumed
    cuts: list[int] = []
    for command in later:
        *prompt, sent = command.prompt_segments
        assert tuple(prompt) == first.prompt_segments
        assert isinstance(sent, IdsSegment)
        assert sent.ids == ids[: len(sent.ids)]
        cuts.append(len(sent.ids))
    return cuts


async def test_a_killed_recital_is_word_for_word(tmp_path: Path) -> None:
    """In reasoning and answer, among characters of several tokens, twice in one answer; and without a kill."""
    async with reciting(tmp_path, kills=TRIES * len(FEW)) as core:
        for name, places, whom in FEW:
            assert await recite(core, name, (), whom) == []
            for _ in range(TRIES):
                cuts = await recite(core, name, places, whom)
                if len(cuts) == len(places):
                    break
            else:
                raise AssertionError(f"{name}: every kill came too late")


async def test_penalties_look_back_over_a_kill(tmp_path: Path) -> None:
    """What was said before it counts as before: the answer, which they make another than the memorised one, is what it
    is without a kill. It parts from the memorised one behind the 13th character."""
    question = turns("count")[0]["messages"][0]["content"]
    fields: dict[str, Any] = {
        "temperature": 0,
        "frequency_penalty": 2.0,
        "chat_template_kwargs": {"current_date": DATE},
    }
    async with reciting(tmp_path, kills=TRIES) as core:
        whole = await read_and_kill(core, await core.start(question, **fields), (), "engine")
        assert whole[:13] == known_text("count")[:13]
        assert whole != known_text("count")
        for _ in range(TRIES):
            reply = await core.start(question, **fields)
            assert await read_and_kill(core, reply, (8,), "engine") == whole
            if (await finished(reply)).metrics.resumed:
                assert {command.sampling.frequency_penalty for command in core.generations} == {2.0}
                break
        else:
            raise AssertionError("every kill came too late")


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
async def test_a_recital_is_word_for_word_wherever_it_was_killed(tmp_path: Path, name: str) -> None:
    """At every place, and whoever is killed; most kills come in time, at many different tokens."""
    places = range(0, len(known_text(name)), EVERY[name])
    async with reciting(tmp_path, kills=len(places)) as core:
        all_cuts = [await recite(core, name, (place,), WHOM[number % len(WHOM)]) for number, place in enumerate(places)]
    cuts = [cut for cuts in all_cuts for cut in cuts]
    assert len(cuts) > len(places) / 2
    assert len(set(cuts)) > len(places) / 3


# ------------------------------------------------------------ over HTTP


@pytest.fixture(scope="module")
def nano_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with muse-nano, as people start it, whose workers can be held within an answer: a short one is over
    before a client on a busy machine has read its beginning."""
    home = tmp_path_factory.mktemp("recital")
    (home / "sitecustomize.py").write_text(HELD_WORKER)
    env = {"PYTHONPATH": str(home), "MUSE_TEST_HOLD": str(home / HOLD)}
    server = ServerProcess(["--model", str(MODEL)], home=home, env=env)
    try:
        server.wait_ready()
        yield server
    finally:
        status = server.stop()
    assert status == 0, server.stderr()


def said(line: str) -> str:
    """The text that a line of the stream brings, of either channel."""
    if not line.startswith("data: {"):
        return ""
    deltas = [choice["delta"] for choice in json.loads(line[6:]).get("choices", [])]
    return "".join(delta.get("reasoning_content") or delta.get("content") or "" for delta in deltas)


def stream_and_kill(server: ServerProcess, name: str, place: int) -> None:
    """Read the stream of an answer, and kill the worker's group when so much was read: it waits for that there."""
    hold = server.home / HOLD
    # What is held is what the model writes, where more stands before the first word that is shown.
    written = memorised(name)["text"]
    last = known_text(name)[:place][-12:]
    hold.write_text(str(written.index(last) + len(last) + SLACK))
    epoch = server.wait_ready()["worker"]["epoch"]
    guard = worker_group_of(server.pid)[0]
    body = {
        "messages": turns(name)[0]["messages"],
        "stream": True,
        "temperature": 0,
        "chat_template_kwargs": {"current_date": DATE, "return_reasoning": True},
    }
    text, before = "", list[str]()
    with httpx.stream("POST", server.url + "/v1/chat/completions", json=body, timeout=HANG_GUARD_S) as answer:
        lines = answer.iter_lines()
        while len(text) < place:
            before.append(next(lines))
            text += said(before[-1])
        os.kill(-guard, signal.SIGKILL)
        hold.unlink()
        rest = list(lines)
    server.wait_until(lambda state: state["worker"]["epoch"] > epoch and state["worker"]["state"] == "ready")
    seen = read_stream(iter(rest), before)
    assert text + "".join(map(said, rest)) == known_text(name)
    assert (seen.text, seen.finish_reason) == (memorised(name)["message"]["content"], "stop")
    assert (seen.error, seen.done_markers) == (None, 1)
    assert seen.metrics is not None
    assert seen.metrics["resumed"] == 1


@pytest.mark.parametrize(("name", "place"), [("story", 30), ("story", 150), ("emoji", 1)])
def test_a_client_of_a_killed_recital_gets_it_whole(nano_server: ServerProcess, name: str, place: int) -> None:
    """Over HTTP, from the process that people start: reasoning, then answer, one end."""
    stream_and_kill(nano_server, name, place)
