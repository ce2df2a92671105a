"""One real server over the scripted engine for all cases of the catalog, and what is checked after each.

Every case has its own answer and its own faults, which are armed by deleting their counter files: a fault is
due once then, whatever worker process meets it. So the system has to survive all of them in one life.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx

from tests.faults.catalog import PROMPT_FILLER, TEXT, WORDS, Case, Phase, cases
from tests.server_process import HANG_GUARD_S, LEFT_AFTER_S, ServerProcess, isolated_of, worker_group_of

CHAT = "/v1/chat/completions"
IDLE_AFTER_READY_MS = 60
LONG = {"tokens": {"repeat": ["word "], "count": 60000}, "token_ms": 1}
_SCRIPT_PLACES: dict[Phase, dict[str, Any]] = {
    "start": {"at": "start"},
    "load": {"at": "load"},
    "ready": {"at": "ready"},
    "idle": {"at": "idle", "ms": IDLE_AFTER_READY_MS},
}
_ANSWER_PLACES: dict[Phase, dict[str, Any]] = {
    "prefill": {"at": "prefill", "processed": 64},
    "decode": {"at": "token", "token": 4},
    "cancel": {"at": "cancel"},
    "end": {"at": "token"},
}


@attrs.frozen(kw_only=True)
class Seen:
    """One streamed answer as a client gets it. error: the error object inside the stream, or None."""

    text: str
    finish_reason: str | None
    metrics: dict[str, Any] | None
    error: dict[str, Any] | None
    comments: tuple[str, ...]
    done_markers: int


def read_stream(lines: Iterator[str], seen_before: list[str] | None = None) -> Seen:
    """Read an answer to its end."""
    text, finish, metrics, error, comments, done = "", None, None, None, [], 0
    for line in [*(seen_before or []), *lines]:
        if line.startswith(": "):
            comments.append(line[2:])
        elif line == "data: [DONE]":
            done += 1
        elif line.startswith("data: "):
            chunk: dict[str, Any] = json.loads(line[6:])
            assert metrics is None or "usage" in chunk, "something came after the receipt"
            error = chunk.get("error", error)
            metrics = chunk.get("muse_metrics", metrics)
            for choice in chunk.get("choices", []):
                assert finish is None or "content" not in choice["delta"], "text came after the end"
                text += choice["delta"].get("content", "")
                finish = choice["finish_reason"] or finish
    return Seen(
        text=text, finish_reason=finish, metrics=metrics, error=error, comments=tuple(comments), done_markers=done
    )


class FaultServer:
    """The server of the catalog. Arm a case, hurt it, then `check_well`."""

    def __init__(self, folder: Path) -> None:
        self._counters = folder / "counters"
        self._counters.mkdir(parents=True)
        script = folder / "script.json"
        script.write_text(json.dumps(self._script()))
        self.process = ServerProcess(["--engine", "scripted", "--model", str(script)], home=folder / "home")
        # One client for all requests: making one costs more than most of them.
        self._client = httpx.Client(base_url=self.process.url, timeout=HANG_GUARD_S)
        self.wait_epoch(1)

    def stop(self) -> int:
        """End the server; its exit status."""
        self._client.close()
        return self.process.stop()

    def _script(self) -> dict[str, Any]:
        faults: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        for _, case in cases():
            place = _SCRIPT_PLACES.get(case.phase) or _ANSWER_PLACES[case.phase]
            own = [{**do, **place, **self._once(case, number)} for number, do in enumerate(case.do)]
            self._disarm(case)
            if case.phase in _SCRIPT_PLACES:
                faults += own
                own = []
            words = LONG if case.phase == "cancel" else {"tokens": WORDS}
            answers.append({"when": f"[{case.name}]", **words, "faults": own})
        return {"faults": faults, "answers": [*answers, {"tokens": ["All ", "is ", "well."]}], "load_ms": 40}

    def _once(self, case: Case, number: int) -> dict[str, Any]:
        return {"counter": str(self._counters / f"{case.name}-{number}"), "times": 1}

    def _disarm(self, case: Case) -> None:
        for number in range(len(case.do)):
            (self._counters / f"{case.name}-{number}").write_text("x")

    def arm(self, case: Case) -> None:
        """The next time its place is reached, the fault is committed; once."""
        for number in range(len(case.do)):
            (self._counters / f"{case.name}-{number}").unlink()

    def committed(self, case: Case) -> bool:
        """Was every fault of the case committed since it was armed?"""
        return all((self._counters / f"{case.name}-{number}").exists() for number in range(len(case.do)))

    def epoch(self) -> int:
        """Number of worker processes so far."""
        return self._client.get("/api/runtime").json()["worker"]["epoch"]

    def ask(self, case: Case) -> Seen:
        """Ask the case's question and read the whole answer; in phase cancel, cancel it after its first text."""
        body = _question(f"[{case.name}] {PROMPT_FILLER}", stream=True, session_id=f"s-{case.name}")
        with self._client.stream("POST", CHAT, json=body) as answer:
            assert answer.status_code == 200, answer.read()
            lines = answer.iter_lines()
            before: list[str] = []
            if case.phase == "cancel":
                for line in lines:
                    before.append(line)
                    if '"content":"w' in line:
                        break
                assert self._post("/api/cancel", {"session_id": f"s-{case.name}"}).json()["cancelled"]
            return read_stream(lines, before)

    def restart(self) -> None:
        """Replace the worker, so that it starts, loads and gets ready once more."""
        assert self._post("/api/worker/restart", {}).status_code == 200

    def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return self._client.post(path, json=body)

    def _wait_until(self, reached: Callable[[dict[str, Any]], bool]) -> None:
        with self._client.stream("GET", "/api/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data:") and reached(json.loads(line[5:])):
                    return
        raise AssertionError(f"the event stream ended early: {self.log()[-3000:]}")

    def _wait_idle(self) -> None:
        self._wait_until(
            lambda state: (
                state["worker"]["state"] == "ready" and not state["requests"]["running"] + state["requests"]["queued"]
            )
        )

    def wait_epoch(self, epoch: int) -> None:
        """Wait until the worker of this number is ready."""
        self._wait_until(
            lambda state: state["worker"]["epoch"] >= epoch and state["worker"]["state"] in ("ready", "busy")
        )

    def check_well(self) -> None:
        """Idle, the next request is right, and there is no process but the server's own: worker and isolated process,
        each with its guard."""
        self._wait_idle()
        answer = self._post(CHAT, _question("and now?"))
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"] == "All is well."
        assert answer.json()["muse_metrics"]["resumed"] == 0
        self._wait_idle()
        deadline = time.monotonic() + LEFT_AFTER_S
        while (found := self._processes()) != (2, 2, 0):
            assert time.monotonic() < deadline, f"processes of worker, isolated process, and others: {found}"
            time.sleep(0.01)

    def _processes(self) -> tuple[int, int, int]:
        pid = self.process.pid
        worker, isolated = worker_group_of(pid), isolated_of(pid)
        others = self.process.processes() - {pid, *worker, *isolated}
        return len(worker), len(isolated), len(others)

    def log(self) -> str:
        """What the server logged so far."""
        return self.process.stderr()


def _question(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def whole(seen: Seen, text: str = TEXT) -> bool:
    """Is it the whole answer, ended once and in order?"""
    return seen.text == text and seen.finish_reason == "stop" and seen.error is None and seen.done_markers == 1
