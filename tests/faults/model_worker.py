"""A worker inside this process: the interface of WorkerLink, a worker's side of the protocol, no engine.

What it does next is up to whoever drives it: load, say a token, end, die, lie, hang. Requests have answers of
their own (`words_of`), whose ids tell request and place, so that a continuation can be checked id by id:
a prompt that goes on with anything but the beginning of its own answer is a fault, noted in `complaints`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

import attrs
import trio

from actors.supervisor.draft import DraftChoice
from actors.supervisor.link import Death
from muse.protocol import (
    Accepted,
    Cancel,
    Close,
    Count,
    Done,
    FinishReason,
    Generate,
    IdsSegment,
    Loading,
    Ping,
    Ready,
    Result,
    Supports,
    TextSegment,
    Tokens,
    WorkerEvent,
)
from muse.protocol_codec import decode_command, encode_event

SLOTS: Final = 2
FIRST_ID: Final = 1000
READY: Final = Ready(
    protocol=1,
    engine="model-worker",
    engine_version="1",
    model_id="model",
    context_length=100_000,
    max_sessions=SLOTS,
    max_named_sessions=SLOTS,
    max_inflight_requests=SLOTS,
    supports=Supports(cancel=True),
    chat_template="{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<|im_start|>",
    special_tokens=("<|im_end|>", "<|im_start|>"),
    bos_token="",
    eos_token="<|im_end|>",
    eos_ids=(1,),
    device="none",
)


def words_of(text: str) -> list[str]:
    """The whole answer to a question of the form "<number> <length>"."""
    number, length = map(int, text.split())
    return [f"{number}.{place} " for place in range(length)]


@attrs.define(slots=True)
class _Request:
    number: int
    words: list[str]
    said: int
    budget: int | None
    generated: int = 0
    cancelled: bool = False


class ModelWorker:
    """One life. The driver calls the upper half, the supervisor the lower one."""

    def __init__(self, pid: int, complaints: list[str]) -> None:
        self.pid = pid
        self.ended = False
        self.hung = False
        self.unread_since: float | None = None
        self.deaf = False
        """Hears cancels and does not obey."""
        self.ready = False
        self.requests: dict[str, _Request] = {}
        self.finished_ids: list[str] = []
        self._complaints = complaints
        self._fault: str | None = None
        self._killed = False
        self._over = trio.Event()
        self._returncode = 0
        self._on_line: Callable[[bytes], None] | None = None

    # ------------------------------------------------------------ the driver's half

    def load(self) -> None:
        """Get ready; the first time only."""
        if not self.ready and not self.hung:
            self.ready = True
            self.emit(Loading(fraction=0.5, stage="reading"))
            self.emit(READY)

    def say(self, request_id: str) -> None:
        """One more token of an answer, or its end."""
        request = self.requests[request_id]
        if self.hung:
            return
        if request.cancelled and not self.deaf:
            self.end(request_id, "cancelled")
        elif request.said == len(request.words):
            self.end(request_id, "stop")
        elif request.generated == request.budget:
            self.end(request_id, "length")
        else:
            ids = (request.number * FIRST_ID + request.said,)
            self.emit(Tokens(request_id=request_id, ids=ids, text=request.words[request.said]))
            request.said += 1
            request.generated += 1

    def end(self, request_id: str, reason: FinishReason) -> None:
        """Say `done`."""
        request = self.requests.pop(request_id)
        self.finished_ids.append(request_id)
        self.emit(done(request_id, reason, request.generated))

    def die(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End at once."""
        self._returncode = self._returncode or -number
        self._over.set()

    def emit(self, event: WorkerEvent) -> None:
        """Send an event."""
        self.say_line(encode_event(event).rstrip(b"\n"))

    def say_line(self, line: bytes) -> None:
        """Send a line, whatever it is."""
        if self._on_line is not None and not self._killed and not self._over.is_set():
            self._on_line(line)

    # ------------------------------------------------------------ the supervisor's half: as WorkerLink

    def send(self, line: bytes) -> None:
        """A command."""
        if self.hung or self._over.is_set():
            return
        match decode_command(line):
            case Generate() as command:
                self._generate(command)
            case Cancel(target_request_id=target):
                if target in self.requests:
                    self.requests[target].cancelled = True
            case Ping(request_id=request_id) | Close(request_id=request_id):
                self.emit(Result(request_id=request_id))
            case Count(request_id=request_id):
                self.emit(Result(request_id=request_id, prompt_tokens=10, room=1000))
            case other:
                self._complaints.append(f"unexpected command {other}")

    def _generate(self, command: Generate) -> None:
        texts = [s.text for s in command.prompt_segments if isinstance(s, TextSegment) and not s.special]
        ids = [i for s in command.prompt_segments if isinstance(s, IdsSegment) for i in s.ids]
        number = int(texts[-1].split()[0])
        if ids != [number * FIRST_ID + place for place in range(len(ids))]:
            self._complaints.append(f"{command.request_id} goes on with {ids}, its number is {number}")
        if command.request_id in self.requests or len(self.requests) >= SLOTS or not self.ready:
            self._complaints.append(f"{command.request_id} may not come now: {list(self.requests)}")
        self.requests[command.request_id] = _Request(number, words_of(texts[-1]), len(ids), command.max_new_tokens)
        self.emit(Accepted(request_id=command.request_id, prompt_tokens=10, reused_prompt_tokens=0, room=1000,
                           session_reset_reason="new"))  # fmt: skip

    def close_stdin(self) -> None:
        """An orderly end, unless it hangs."""
        if not self.hung:
            self._over.set()

    def terminate(self, fault: str) -> None:
        """SIGTERM: a worker that is not stopped obeys."""
        self._fault = self._fault or fault
        if not self.hung:
            self.die(signal.SIGTERM)

    def kill(self, fault: str | None = None) -> None:
        """SIGKILL."""
        self._fault = self._fault or fault
        self._killed = True
        self.die()

    async def run(self, on_line: Callable[[bytes], None]) -> Death:
        """Until death."""
        self._on_line = on_line
        try:
            await self._over.wait()
        finally:
            self.ended = True
        return Death(returncode=self._returncode, fault=self._fault, stderr_tail=())


def done(request_id: str, reason: FinishReason, generated: int) -> Done:
    """The last event of a request."""
    return Done(
        request_id=request_id,
        finish_reason=reason,
        prompt_tokens=10,
        completion_tokens=generated,
        reused_prompt_tokens=0,
        prefilled_prompt_tokens=10,
        session_reset_reason="new",
        prefill_ms=1.0,
        prefill_tokens_per_second=1.0,
        decode_ms=1.0,
        decode_tokens_per_second=1.0,
        total_ms=1.0,
        generated_token_ids=None,
    )


class ModelWorkers:
    """In the place of WorkerCommand: every worker started so far."""

    engine: str = "scripted"
    wanted_context: int | None = None

    def __init__(self) -> None:
        self.draft = DraftChoice(None)
        self.lives: list[ModelWorker] = []
        self.complaints: list[str] = []

    async def start(self) -> ModelWorker:
        """Start one; the one before has to be gone."""
        if self.lives and not self.lives[-1].ended:
            self.complaints.append("a second worker beside a living one")
        self.lives.append(ModelWorker(len(self.lives) + 1, self.complaints))
        return self.lives[-1]

    def ended(self) -> None:
        """The last one is gone."""
        if not self.lives[-1].ended:
            self.complaints.append("said to have ended, but lives")
