"""A stand-in for upstream's `muse_glimmer_worker`, from contracts/worker-protocol.md and patch-points.md, oddities
included, at three levels: as pinned, with our patch, and with the control pipe of a later upstream.

Run it like the real one. What the real one has from its artifact and machine comes from $MUSE_DOUBLE, a JSON object:
see `Manner`. Faults that no correct worker commits are there too, for what a driver must withstand.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from muse.worker.hf_tokenizer import JsonTokenizer
from tests.native.double_model import NoPicture, Recital, look
from tests.native.double_pipes import ControlPipe, Input, TextOut, is_cancel, say

Level = Literal["unpatched", "cancel_op", "control_pipe"]
FLAGS: Final = {
    "model_path": "", "tokenizer_path": "", "data_path": "", "pos_embed_path": "", "max_image_bytes": "20971520",
    "max_sessions": "1", "warm_resume": "true", "bos_id": "200000", "eos_id": "200001", "artifact_mode": "auto",
    "dflash_block_length": "4", "dflash_n_draft": "3", "dflash_draft_argmax": "true", "cuda_graph": "false",
}  # fmt: skip
READY_FIELD: Final = {"cancel_op": "supports_cancel_op", "control_pipe": "supports_cancel"}


@attrs.frozen(kw_only=True)
class Manner:
    """How it behaves. context, vision, solo: of the artifact. room_for: conversations that the engine really takes,
    None: as many as the flag says. chunk_ms: for each part of a prompt. reads: a file that gets a byte for each prompt
    that is begun to be read.

    Faults: answers_stale_cancel: a patch that does not swallow a late cancel. deaf: takes no cancel although it says
    so. dies_at: tokens of an answer after which it is gone, unless the file dies_once is there, which it makes.
    stray: a line that nobody asked for, after each answer. first_line: instead of the ready line."""

    level: Level = "unpatched"
    context: int = 4096
    vision: bool = True
    solo: bool = False
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
    stray: str = ""
    first_line: str = ""


class Failed(Exception):
    """An error line. code, session_id: only of some."""

    def __init__(self, message: str, **others: str) -> None:
        super().__init__(message)
        self.line = {"error": message, **others}


@attrs.define(eq=False)
class Session:
    """ids: resident, as the worker knows them. content: what they stand for. picture: staged for one prefill."""

    ids: list[int] = attrs.field(factory=list[int])
    content: list[int] = attrs.field(factory=list[int])
    dirty: bool = False
    picture: list[int] | None = None

    def reset(self) -> None:
        self.ids, self.content, self.dirty = [], [], False


class Worker:
    """The main loop and its sessions."""

    def __init__(self, flags: dict[str, str], manner: Manner) -> None:
        self.manner = manner
        self.bos, self.eos = int(flags["bos_id"]), int(flags["eos_id"])
        self.sessions_limit = int(flags["max_sessions"])
        self.warm = flags["warm_resume"] == "true"
        self.is_cuda = bool(flags["data_path"])
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
                say({"error": f"{type(fault).__name__}: {fault}"})

    def serve(self, request: dict[str, Any]) -> None:
        if self.manner.echoes:
            sys.stderr.write(f"{ {name: value for name, value in request.items() if name != 'prompt_segments'} }\n")
            sys.stderr.flush()
        op = request.get("op")
        if op not in ("open", "close", "reset"):
            self.generate(request)
            return
        session_id = request.get("session_id") or ""
        if not session_id:
            raise Failed(f"{op} needs a session_id")
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
                raise Failed("no named sessions", code="unsupported_session", session_id=session_id)
            if len(self.named) >= min(most, self.manner.room_for if self.manner.room_for is not None else most):
                raise Failed("all sessions are taken", code="capacity_exhausted", session_id=session_id)
            self.named[session_id] = Session()
        return self.named[session_id]

    # ------------------------------------------------------------ one request, in the order of section 3.2

    def generate(self, request: dict[str, Any]) -> None:
        session_id = request.get("session_id") or ""
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


class Generation:
    """One answer."""

    def __init__(self, worker: Worker, session: Session, request: dict[str, Any], *, is_named: bool) -> None:
        self.worker = worker
        self.session = session
        self.request = request
        self.can_warm = is_named and worker.warm
        self.segments: list[dict[str, Any]] | None = request.get("prompt_segments")
        self.generated: list[int] = []
        self.cancelled = False
        self.vision_ms: float | None = None
        self.picture_is_misplaced = False

    def run(self) -> None:
        self.see()
        self.check_sampling()
        ids, content = self.tokenise()
        room = self.worker.manner.context - len(ids)
        if room <= 0:
            raise Failed("the prompt leaves no room")
        wanted = self.request.get("max_new_tokens", -1)
        budget = room if wanted <= 0 else min(wanted, room)
        reason, reused = self.plan(ids)
        if not reused:
            self.session.reset()
        began = time.monotonic()
        if not self.prefill(ids, content, reused):
            self.session.dirty = True
            self.finish("stop", len(ids), reused, reason, (began, time.monotonic()), keeps_ids=False)
            return
        prefilled = time.monotonic()
        finish = self.decode(budget)
        is_stop_string = finish == "stop string"
        keeps_ids = not is_stop_string and not (self.cancelled and self.worker.control is not None)
        self.session.dirty = not keeps_ids
        words = "stop" if is_stop_string else finish
        self.finish(words, len(ids), reused, reason, (began, prefilled), keeps_ids=keeps_ids)

    def see(self) -> None:
        """Step 3: the picture becomes a run of patch ids, before anything else is looked at."""
        pictures = [number for number, part in enumerate(self.segments or ()) if "image" in part]
        if not pictures:
            return
        assert self.segments is not None
        worker, image = self.worker, self.segments[pictures[0]]["image"]
        if len(pictures) > 1 or set(self.segments[pictures[0]]) != {"image"}:
            raise Failed("at most one image, alone in its segment")
        if image.get("encoding") != "base64" or image.get("mime_type") not in ("image/png", "image/jpeg"):
            raise Failed("image encoding or mime type")
        is_bound = worker.manner.level == "cancel_op" or worker.is_cuda or worker.sessions_limit == 1
        if not worker.manner.vision or not is_bound:
            raise Failed("image cannot be encoded")
        began = time.monotonic()
        try:
            self.session.picture = look(image["data"])
        except NoPicture:
            raise Failed("image cannot be decoded or encoded") from None
        self.vision_ms = (time.monotonic() - began) * 1000
        self.segments[pictures[0]] = {"ids": [worker.patch] * len(self.session.picture)}
        self.can_warm = False

    def check_sampling(self) -> None:
        top_p, top_k, seed = (self.request.get(name, off) for name, off in (("top_p", 1), ("top_k", 0), ("seed", 0)))
        if not 0 < top_p <= 1 or not 0 <= top_k < 2**31 or not 0 <= seed < 2**63:
            raise Failed("sampling range")

    def tokenise(self) -> tuple[list[int], list[int]]:
        if ("prompt" in self.request) == (self.segments is not None):
            raise Failed("exactly one of prompt and prompt_segments")
        tokenizer = self.worker.tokenizer
        ids = [self.worker.bos]
        for part in self.segments if self.segments is not None else [{"text": self.request["prompt"]}]:
            if "ids" in part:
                ids += part["ids"]
            elif "text" in part:
                ids += tokenizer.encode(part["text"], special=True)
            else:
                raise Failed("bad segment")
        content = list(ids)
        if self.session.picture is not None:
            places = [n for n, token in enumerate(ids) if token == self.worker.patch]
            if places == list(range(places[0], places[0] + len(self.session.picture))):
                content[places[0] : places[-1] + 1] = self.session.picture
            else:
                self.picture_is_misplaced = True
        return ids, content

    def plan(self, ids: list[int]) -> tuple[str, int]:
        """Section 7."""
        resident = self.session.ids
        if not self.can_warm:
            return "new", 0
        if self.session.dirty:
            return "dirty", 0
        if not resident:
            return "new", 0
        if ids[: len(resident)] != resident:
            return "mismatch", 0
        return ("equal", 0) if len(ids) == len(resident) else ("exact_prefix", len(resident))

    def prefill(self, ids: list[int], content: list[int], reused: int) -> bool:
        """False: cancelled."""
        manner = self.worker.manner
        temperature = self.request.get("temperature", 0.0)
        off = {"top_p": 1, "top_k": 0, "seed": 0}
        chosen = any(self.request.get(name, value) != value for name, value in off.items())
        if (manner.solo and chosen) or not (temperature == -1 or 0 <= temperature <= 2) or self.picture_is_misplaced:
            self.session.dirty = True
            raise Failed("prefill failed")
        if manner.reads:
            with Path(manner.reads).open("ab") as reads:
                reads.write(b".")
        for start in range(reused, len(ids), manner.chunk):
            if self.worker.is_cancelled(in_prefill=True):
                self.cancelled = True
                return False
            time.sleep(manner.chunk_ms / 1000)
            self.session.ids += ids[start : start + manner.chunk]
            self.session.content += content[start : start + manner.chunk]
        return True

    def decode(self, budget: int) -> str:
        manner, text = self.worker.manner, TextOut(self.request.get("stop", []))
        finish = "length"
        answer: Iterator[int] = self.worker.model.answer(self.session.content)
        while len(self.generated) < budget:
            if self.worker.is_cancelled(in_prefill=False):
                self.cancelled, finish = True, "stop"
                break
            time.sleep(manner.token_ms / 1000)
            token = next(answer)
            if token in self.worker.ends:
                finish = "stop"
                break
            self.die(len(self.generated))
            self.generated.append(token)
            if text.put(self.worker.tokenizer.decode([token])):
                finish = "stop string"
                break
        text.flush(is_cut=finish == "stop string")
        self.session.ids += self.generated
        self.session.content += self.generated
        return finish

    def die(self, number: int) -> None:
        manner = self.worker.manner
        if manner.dies_at != number:
            return
        if manner.dies_once:
            try:
                Path(manner.dies_once).touch(exist_ok=False)
            except FileExistsError:
                return
        os.kill(os.getpid(), signal.SIGSEGV)

    def finish(
        self, finish: str, prompt: int, reused: int, reason: str, times: tuple[float, float], *, keeps_ids: bool
    ) -> None:
        """Section 5."""
        began, prefilled = times
        prefill_s, decode_s = prefilled - began, time.monotonic() - prefilled
        line: dict[str, Any] = {
            "done": True,
            "prompt_tokens": prompt,
            "completion_tokens": len(self.generated),
            "finish_reason": finish,
            "reused_prompt_tokens": reused,
            "prefilled_prompt_tokens": prompt - reused,
            "session_reset_reason": reason,
            "prefill_ms": prefill_s * 1000,
            "decode_ms": decode_s * 1000,
            "total_ms": (prefill_s + decode_s) * 1000,
            "prefill_tok_s": (prompt - reused) / prefill_s if prefill_s else 0,
            "decode_tok_s": len(self.generated) / decode_s if decode_s else 0,
        }
        if keeps_ids:
            line["generated_token_ids"] = self.generated
        if self.vision_ms is not None:
            line["vision_encoder_ms"] = self.vision_ms
        if self.cancelled:
            line["cancelled"] = True
        say(line)


def main() -> None:
    flags = dict(FLAGS)
    for given in sys.argv[1:]:
        name, _, value = given.removeprefix("--").partition("=")
        if name not in flags:
            sys.exit(f"ERROR: unknown command line flag '{name}'")
        flags[name] = value
    for name in ("model_path", "tokenizer_path"):
        if not Path(flags[name]).is_file():
            sys.stderr.write(f"E 00:00:00 {name} cannot be opened\n")
            sys.exit(1)
    manner = Manner(**json.loads(os.environ.get("MUSE_DOUBLE", "{}")))
    if manner.echoes:
        sys.stderr.write(f"{sys.argv[1:]}\n")
    Worker(flags, manner).run()


if __name__ == "__main__":
    main()
