"""A stand-in for upstream's `muse_glimmer_worker`, from contracts/worker-protocol.md and patch-points.md, oddities
included, at three levels: as pinned, with our patch, and with the control pipe of a later upstream. The first two were
compared with the real one (contracts/native-trial.md): its keys' order, its error texts, its log.

Run it like the real one. What the real one has from its artifact and machine comes from $MUSE_DOUBLE, a JSON object:
see `Manner`. Faults that no correct worker commits are there too, for what a driver must withstand.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from muse.worker.hf_tokenizer import JsonTokenizer
from tests.native.double_flags import abort, fail, log, read_flags
from tests.native.double_generation import Failed, Generation, Session, typed
from tests.native.double_model import Recital
from tests.native.double_pipes import ControlPipe, Input, is_cancel, say

Level = Literal["unpatched", "cancel_op", "control_pipe"]
KINDS: Final = {"solo": "autoregressive", "dflash": "dflash"}
READY_FIELD: Final = {"cancel_op": "supports_cancel_op", "control_pipe": "supports_cancel"}


@attrs.frozen(kw_only=True)
class Manner:
    """How it behaves. context, vision, solo: of the artifact. most_cells: of a picture. room_for: conversations that
    the engine really takes, None: as many as the flag says. chunk_ms: for each part of a prompt. reads: a file that
    gets a byte for each prompt that is begun to be read. log: lines of its log before the end of a failed load.

    Faults: answers_stale_cancel: a patch that does not swallow a late cancel. deaf: takes no cancel although it says
    so. dies_at: tokens of an answer after which it is gone, unless the file dies_once is there, which it makes, or the
    file dies_when is not, if one is named. stray: a line that nobody asked for, after each answer. first_line: instead
    of the ready line. silent: logs no kind."""

    level: Level = "unpatched"
    context: int = 4096
    vision: bool = True
    solo: bool = False
    most_cells: int = 4096
    room_for: int | None = None
    load_ms: float = 0.0
    token_ms: float = 0.0
    chunk: int = 16
    chunk_ms: float = 0.0
    reads: str = ""
    echoes: bool = False
    answers_stale_cancel: bool = False
    deaf: bool = False
    dies_at: int | None = None
    dies_once: str = ""
    dies_when: str = ""
    log: tuple[str, ...] = ()
    silent: bool = False
    stray: str = ""
    first_line: str = ""


class Worker:
    """The main loop and its sessions."""

    def __init__(self, flags: dict[str, str], manner: Manner) -> None:
        self.manner = manner
        self.bos, self.eos = int(flags["bos_id"]), int(flags["eos_id"])
        self.sessions_limit = int(flags["max_sessions"])
        self.warm = flags["warm_resume"] == "true"
        self.is_cuda = bool(flags["data_path"])
        self.kind: Literal["solo", "dflash"] = "solo" if manner.solo else "dflash"
        if flags["artifact_mode"] not in ("auto", KINDS[self.kind]):
            fail(f"artifact is not {flags['artifact_mode']}", "failed to create engine")
        self.tokenizer = JsonTokenizer(Path(flags["tokenizer_path"]))
        self.ends = {self.eos, self.tokenizer.id_of("<|eot|>"), self.tokenizer.id_of("<|end_of_text|>")}
        self.model = Recital(self.tokenizer)
        self.patch = self.tokenizer.id_of("<|patch|>")
        self.scratch = Session()
        self.named: dict[str, Session] = {}
        self.input = Input()
        self.control = ControlPipe() if manner.level == "control_pipe" else None
        self.cancel_id = 0

    def run(self) -> None:
        manner = self.manner
        time.sleep(manner.load_ms / 1000)
        if manner.log:
            fail(*manner.log)
        if not manner.silent:
            log("I", f"detected {KINDS[self.kind]} artifact")
        ready: dict[str, Any] = {
            "ready": True,
            "max_sessions": self.sessions_limit,
            "max_named_sessions": max(0, self.sessions_limit - 1),
            "supports_image": manner.vision,
        }
        if manner.level in READY_FIELD:
            ready[READY_FIELD[manner.level]] = True
        say(manner.first_line or ready)
        while (line := self.input.line()) is not None:
            if not line or (manner.level == "cancel_op" and is_cancel(line) and not manner.answers_stale_cancel):
                continue
            try:
                self.serve(json.loads(line))
            except Failed as failed:
                say(failed.line)
            except (ValueError, TypeError, AttributeError) as fault:
                say({"error": f"[json.exception.{type(fault).__name__}] {fault}"})

    def serve(self, request: dict[str, Any]) -> None:
        if self.manner.echoes:
            sys.stderr.write(f"{ {name: value for name, value in request.items() if name != 'prompt_segments'} }\n")
            sys.stderr.flush()
        op = typed(request, "op", str, "")
        if op not in ("open", "close", "reset"):
            self.generate(request)
            return
        session_id = typed(request, "session_id", str, "")
        if not session_id:
            raise Failed("session_id required for op")
        if op == "open":
            self.admit(session_id)
            say({"opened": True, "session_id": session_id})
        elif op == "close":
            self.named.pop(session_id, None)
            say({"closed": True, "session_id": session_id})
        else:
            if session_id in self.named:
                self.named[session_id].reset()
            say({"reset": True, "session_id": session_id})

    def admit(self, session_id: str) -> Session:
        if session_id not in self.named:
            most = self.sessions_limit - 1
            if most <= 0:
                raise Failed("cannot open session", code="unsupported_session", session_id=session_id)
            if len(self.named) >= min(most, self.manner.room_for if self.manner.room_for is not None else most):
                raise Failed("cannot open session", code="capacity_exhausted", session_id=session_id)
            self.named[session_id] = Session()
        return self.named[session_id]

    # ------------------------------------------------------------ one request, in the order of section 3.2

    def generate(self, request: dict[str, Any]) -> None:
        session_id = typed(request, "session_id", str, "")
        session = self.admit(session_id) if session_id else self.scratch
        self.cancel_id = request.get("cancel_request_id", 0)
        try:
            Generation(self, session, request, is_named=bool(session_id)).run()
        finally:
            session.picture = None
        if self.manner.stray:
            say(self.manner.stray)

    def is_cancelled(self, *, in_prefill: bool) -> bool:
        """Asked between decode steps, and between parts of a prompt, where the control pipe's way does not look."""
        if self.manner.deaf or self.manner.level == "unpatched":
            return False
        if self.control is not None:
            return not in_prefill and self.control.has(self.cancel_id)
        return self.input.take_cancel()


def main() -> None:
    flags = read_flags(sys.argv[1:])
    if not flags["model_path"] or not flags["tokenizer_path"] or int(flags["max_image_bytes"]) <= 0:
        abort()
    if flags["artifact_mode"] not in ("auto", *KINDS.values()):
        abort()
    for name in ("model_path", "tokenizer_path", "pos_embed_path", "data_path"):
        if flags[name] and not Path(flags[name]).is_file():
            fail(f"Cannot open {flags[name]}", "failed to create engine")
    manner = Manner(**json.loads(os.environ.get("MUSE_DOUBLE", "{}")))
    if manner.echoes:
        sys.stderr.write(f"{sys.argv[1:]}\n")
    Worker(flags, manner).run()


if __name__ == "__main__":
    main()
