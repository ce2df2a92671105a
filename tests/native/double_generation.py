"""One answer of the stand-in for upstream's worker, in the order of contracts/worker-protocol.md section 3.2."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from tests.native.double_flags import log
from tests.native.double_model import NoPicture, look
from tests.native.double_pipes import TextOut, say

if TYPE_CHECKING:
    from tests.native.double import Worker

NO_IMAGE: Final = "image decode or vision encoding failed"


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


class Generation:
    """One answer."""

    def __init__(self, worker: Worker, session: Session, request: dict[str, Any], *, is_named: bool) -> None:
        self.worker = worker
        self.session = session
        self.request = request
        self.can_warm = is_named and worker.warm
        # Null is an empty prompt.
        self.segments: list[dict[str, Any]] | None = (
            typed(request, "prompt_segments", list, None) or [] if "prompt_segments" in request else None
        )
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
            raise Failed("prompt fills the context window; no room to generate")
        wanted = self.request.get("max_new_tokens", -1)
        budget = room if wanted <= 0 else min(wanted, room)
        reason, reused = self.plan(ids)
        if not reused:
            self.session.reset()
        began = time.monotonic()
        if not self.prefill(ids, content, reused):
            self.session.dirty = True
            self.finish("stop", len(ids), reused, reason, (began, None), keeps_ids=False)
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
            raise Failed(NO_IMAGE)
        began = time.monotonic()
        try:
            self.session.picture = look(image["data"], worker.manner.most_cells)
        except NoPicture:
            raise Failed(NO_IMAGE) from None
        self.vision_ms = (time.monotonic() - began) * 1000
        self.segments[pictures[0]] = {"ids": [worker.patch] * len(self.session.picture)}
        self.can_warm = False

    def check_sampling(self) -> None:
        top_p, top_k, seed = (self.request.get(name, off) for name, off in (("top_p", 1), ("top_k", 0), ("seed", 0)))
        if not 0 < top_p <= 1:
            raise Failed("top_p must be finite and in (0, 1]")
        if not 0 <= top_k < 2**31:
            raise Failed("top_k must be nonnegative")
        # Read as a signed number, so that one of 2^63 or more is below 0.
        if not 0 <= seed < 2**63:
            raise Failed("seed must be nonnegative")

    def tokenise(self) -> tuple[list[int], list[int]]:
        if ("prompt" in self.request) == (self.segments is not None):
            raise Failed("exactly one of prompt / prompt_segments is required")
        tokenizer = self.worker.tokenizer
        ids = [self.worker.bos]
        for part in self.segments if self.segments is not None else [{"text": self.request["prompt"]}]:
            if "ids" in part:
                ids += [int(token) % 2**64 for token in part["ids"]]
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
            log("E", "sampling is not supported by this artifact" if chosen else "prefill was refused")
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
        if manner.dies_when and Path(manner.dies_when).exists():
            os.kill(os.getpid(), signal.SIGSEGV)
        if manner.dies_at != number:
            return
        if manner.dies_once:
            try:
                Path(manner.dies_once).touch(exist_ok=False)
            except FileExistsError:
                return
        os.kill(os.getpid(), signal.SIGSEGV)

    def finish(
        self, finish: str, prompt: int, reused: int, reason: str, times: tuple[float, float | None], *, keeps_ids: bool
    ) -> None:
        """Section 5. times: when prefill began, and when decoding did; None: a cancel came before that."""
        began, prefilled = times
        now = time.monotonic()
        prefill_s, decode_s = (prefilled or now) - began, now - prefilled if prefilled else 0.0
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
            "prefill_tok_s": (prompt - reused) / prefill_s if prefill_s and prefilled else 0.0,
            "decode_tok_s": len(self.generated) / decode_s if decode_s else 0,
        }
        if keeps_ids:
            line["generated_token_ids"] = self.generated
        if self.vision_ms is not None:
            line["vision_encoder_ms"] = self.vision_ms
        if self.cancelled:
            line["cancelled"] = True
        say(line)


def typed(request: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    """A field of a request; of another type it is a fault of its JSON, null included."""
    value = request.get(name, default)
    if name in request and not isinstance(value, kind) and not (name == "prompt_segments" and value is None):
        raise TypeError(f"type must be {kind.__name__}, but is {type(value).__name__}")
    return value
