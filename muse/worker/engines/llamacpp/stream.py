"""One completion of the native server: its streams turned into our events."""

from __future__ import annotations

import codecs
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from muse.protocol import Accepted, Done, Draft, Progress, ResetReason, Tokens
from muse.worker.answer_matcher import AnswerMatcher
from muse.worker.engines.base import Emit, EngineFault
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from muse.worker.residency import reset_reason


@attrs.define(frozen=True, slots=True, kw_only=True)
class ModelIds:
    """What the stream must know of the model. end: the ids at which the engine ends a generation. has_draft: a draft
    guesses ahead."""

    vocabulary: Vocabulary
    end: frozenset[int]
    has_draft: bool = False

    @property
    def never_text(self) -> list[int]:
        """Control tokens that do not end an answer: no part of a constrained one."""
        return [token for token in self.vocabulary.control if token not in self.end]


class LeftGrammar(Exception):
    """The engine wrote what the matcher does not take. fault: what to say where the answer cannot go on otherwise.
    refused: the ids of that; None: the ids of the answer are not known."""

    def __init__(self, fault: EngineFault, refused: list[int] | None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.refused = refused


class CompletionReader:
    """Follows the streams of one request and emits accepted, progress and tokens as they become known.

    A request is any number of steps, which only evaluate a part of the prompt (`begin_step`), and then the
    answer (`begin_answer`). pictures: where they stand in the prompt. processed: prompt tokens in the cache. known:
    generated ids up to the first unknown one. all_known: there is none unknown. is_over: the last object of the
    present stream has come. finished: that of the answer has. has_less: the engine reuses less for this step than was
    expected. matcher: reads a constrained answer before it leaves. is_foretold: the engine's prompt is as long as ours,
    so ours says what it holds.
    """

    def __init__(
        self,
        request_id: str,
        prompt: Sequence[int],
        room: int,
        resident: Sequence[int] | None,
        model: ModelIds,
        emit: Emit,
        pictures: Sequence[range] = (),
        segment_tokens: Sequence[int] | None = None,
        matcher: AnswerMatcher | None = None,
    ) -> None:
        self._request_id = request_id
        self._prompt = prompt
        self._segment_tokens = segment_tokens
        self._pictures = pictures
        self._total: int = len(prompt)
        self._room = room
        self._resident = resident
        self._model = model
        self._emit = emit
        self._began = time.monotonic()
        self._first_token = 0.0
        self._reason: ResetReason | None = None  # None: not accepted yet
        self._reused = 0
        self._counted = 0  # tokens the stream has shown, without the end token
        self._final: dict[str, Any] = {}
        self._timings: dict[str, Any] = {}  # of the answer's stream, as far as they are known
        self._step_ends = 0  # 0: the stream is that of the answer
        self._least = 0
        self._steps_ms = 0.0
        self._evaluated = 0  # tokens, by the streams that are over
        self._began_at = 0
        self.is_over = False
        self.has_less = False
        self.is_foretold = True
        self.processed = 0
        self.known: list[int] = []
        self.all_known = True
        self._lock = threading.Lock()
        self._seeing: Progress | None = None
        self._matcher = matcher
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._held: list[int] = []
        self._waiting = ""
        self._drafted = self._accepted = 0
        self._evaluated_ids: int | None = None

    @property
    def total(self) -> int:
        """Tokens of the prompt, as the engine counts them if it has said so."""
        return self._total

    @property
    def finished(self) -> bool:
        return bool(self._final)

    @property
    def pictures_read(self) -> int:
        """How many pictures were encoded and evaluated: those behind what was reused, once all of them are."""
        if not self._first_token and not self.finished:
            return 0
        return sum(place.stop > self._reused for place in self._pictures)

    @property
    def is_accepted(self) -> bool:
        """The engine has begun, and said what it reuses."""
        return self._reason is not None

    @property
    def is_decoding(self) -> bool:
        """The first token was sent, the last object has not come."""
        return self._first_token > 0 and not self._final

    def begin_step(self, end: int, least: int) -> None:
        """The next stream evaluates the prompt up to `end`, of which `least` tokens should be there."""
        self._begin()
        self._step_ends, self._least = end, least

    def begin_answer(self) -> None:
        """The next stream evaluates the rest of the prompt and generates."""
        self._begin()
        self._step_ends = self._least = 0

    def _begin(self) -> None:
        self._evaluated = self._prefilled
        self._began_at = self.processed
        self.is_over = self.has_less = False

    @property
    def _prefilled(self) -> int:
        """Prompt tokens evaluated so far; what a stream evaluated is exact once it is over."""
        return self._evaluated if self.is_over else self._evaluated + self.processed - self._began_at

    def feed(self, events: Sequence[bytes]) -> None:
        """Take the events that arrived together; their tokens leave together. Raises EngineFault."""
        with self._lock:
            self._seeing = None
            self._feed(events)

    def show_picture(self) -> None:
        """Say once more which picture is being read, if one is. Any thread."""
        with self._lock:
            if self._seeing is not None:
                self._emit(self._seeing)

    def _feed(self, events: Sequence[bytes]) -> None:
        ids: list[int] = []
        text = ""
        for event in events:
            value: dict[str, Any] = json.loads(event)
            if "prompt_progress" in value:
                self._progress(value["prompt_progress"])
            elif value.get("stop"):
                self._stopped(value)
            elif "error" in value:
                raise EngineFault("engine_error", f"llama.cpp: {value['error'].get('message', value['error'])}")
            elif not self._step_ends:  # a step shows the token that it would go on with
                self._timings = value.get("timings", self._timings)
                piece: str = value["content"]
                piece_ids = self._ids_of(piece, value["tokens"][0], value["tokens_predicted"])
                is_control = piece_ids is not None and self._is_control(piece_ids, piece)
                if self._matcher is not None and not self._follows(self._matcher, piece, is_control=is_control):
                    # What came before it is good.
                    self._send(ids, text)
                    raise LeftGrammar(self._matcher.dead_end(), self._drop(piece_ids))
                if piece_ids is None:
                    self._send(ids, text)
                    self._send(None, piece)
                    ids, text = [], ""
                elif is_control:
                    self._send(ids, text)
                    self._send(piece_ids, self._model.vocabulary.control[piece_ids[0]], control=True)
                    ids, text = [], ""
                else:
                    ids += piece_ids
                    text += piece if piece_ids else ""
        self._send(ids, text)

    def _follows(self, matcher: AnswerMatcher, piece: str, *, is_control: bool) -> bool:
        """Whether a piece belongs to the answer's grammar. The end token brings no text, other control tokens are no
        part of any."""
        return not is_control and matcher.take_text(piece)

    def _drop(self, piece_ids: Sequence[int] | None) -> list[int] | None:
        """Forget what was drawn last. Returns its ids; None: it is not known which ones the answer has."""
        if piece_ids is None or not self.all_known:
            return None
        dropped = self.known[len(self.known) - len(piece_ids) :]
        del self.known[len(self.known) - len(piece_ids) :]
        self._counted = len(self.known)
        self._drafted, self._accepted = (self._timings.get(key, 0) for key in ("draft_n", "draft_n_accepted"))
        self._timings = {}
        return dropped

    @property
    def evaluated(self) -> list[int]:
        """The known ids that the engine's memory holds. What a stream gave last may be missing there."""
        return self.known if self._evaluated_ids is None else self.known[: self._evaluated_ids]

    def add(
        self, tokens: Sequence[int], spelled: Sequence[bytes], timings: Mapping[str, Any], *, evaluated: int
    ) -> None:
        """More of an answer that is asked for a few tokens at a time. spelled: the bytes of each token of the model.
        They leave when they end at a character's end. timings: the native server's for them. evaluated: how many of all
        its memory holds."""
        self._evaluated_ids = evaluated
        self._drafted += timings.get("draft_n", 0)
        self._accepted += timings.get("draft_n_accepted", 0)
        self.known += tokens
        self._counted += len(tokens)
        self._held += tokens
        text = self._decoder.decode(b"".join(spelled[token] for token in tokens))
        self._waiting += text
        if not self._decoder.getstate()[0]:
            self._send(self._held, self._waiting)
            self._held, self._waiting = [], ""

    def end(self, stop_type: str) -> None:
        """That answer is over. stop_type: as the native server says it."""
        self._final = {"stop_type": stop_type}

    def _is_control(self, piece_ids: Sequence[int], piece: str) -> bool:
        """One control token. The engine spells those out that the file calls user-defined, and no others."""
        spelling = self._model.vocabulary.control.get(piece_ids[0]) if len(piece_ids) == 1 else None
        return spelling is not None and piece in ("", spelling)

    def _ids_of(self, piece: str, last: int, predicted: int) -> Sequence[int] | None:
        """Ids of a piece: usually one, none for the end token, None when they cannot be told."""
        missing = predicted - self._counted - 1
        if last in self._model.end:
            return ()  # the end token: always the last event
        self._counted = predicted
        ids = (last,) if not missing else self._model.vocabulary.recover(piece, missing, last)
        if ids is None:
            self.all_known = False
        elif self.all_known:
            self.known += ids
        return ids

    def _send(self, ids: Sequence[int] | None, text: str, *, control: bool = False) -> None:
        if ids or text:
            self._accept(0)
            if not self._first_token:
                self._first_token = time.monotonic()
            known = None if ids is None else tuple(ids)
            self._emit(Tokens(request_id=self._request_id, ids=known, text=text, control=control))

    def _stopped(self, value: dict[str, Any]) -> None:
        self.is_over = True
        self._evaluated += value["timings"]["prompt_n"]
        if self._step_ends:
            self._steps_ms += value["timings"]["prompt_ms"]
            self._reached(self._step_ends)
        else:
            self._final = value
            self._timings = value["timings"]

    def _progress(self, progress: dict[str, int]) -> None:
        cached = progress["cache"]
        is_whole = self._step_ends in (0, self._total)
        if is_whole and progress["total"] != self._total:
            self._total, self.is_foretold = progress["total"], False
        self._accept(cached)
        # A stream that was broken off may have evaluated more than it could still tell.
        self._evaluated += max(cached - self.processed, 0)
        self._began_at = cached
        self.has_less |= cached < self._least - 1
        self._reached(progress["processed"])
        for number, place in enumerate(self._pictures):
            # The token before its cells is evaluated with the text, that behind them too.
            if place.start <= self.processed < place.stop - 1:
                self._seeing = Progress(
                    request_id=self._request_id, phase="vision", processed=number, total=len(self._pictures)
                )
                self._emit(self._seeing)

    def _reached(self, processed: int) -> None:
        if processed > self.processed:
            self.processed = processed
            self._emit(
                Progress(request_id=self._request_id, phase="prefill", processed=self.processed, total=self._total)
            )

    def _accept(self, reused: int) -> None:
        """Say accepted, once: the first event of the stream tells what the engine really reuses."""
        if self._reason is None:
            self._reused = self.processed = reused
            self._reason = reset_reason(self._resident, self._prompt, reused)
            self._emit(
                Accepted(
                    request_id=self._request_id,
                    prompt_tokens=self._total,
                    reused_prompt_tokens=reused,
                    session_reset_reason=self._reason,
                    room=self._room,
                    segment_tokens=tuple(self._segment_tokens) if self._segment_tokens and self.is_foretold else None,
                )
            )

    def give_nothing(self) -> None:
        """End a request for no tokens at all, without the engine."""
        self._accept(0)
        self._final = {"stop_type": "limit", "tokens_predicted": 0}

    def done(self) -> Done:
        """The last event, of a finished or a cancelled stream."""
        now = time.monotonic()
        decode_ms = (now - self._first_token) * 1000 if self._first_token else 0.0
        prefill_ms = ((self._first_token or now) - self._began) * 1000
        timings = self._timings
        if timings:
            prefill_ms, decode_ms = self._steps_ms + timings["prompt_ms"], timings["predicted_ms"]
        is_stop = self._final.get("stop_type") == "eos"
        completion = self._final.get("tokens_predicted", self._counted + is_stop) - is_stop
        # Tokens that ended inside a character at the very end are counted, but nobody can name them.
        is_complete = self.all_known and completion == len(self.known)
        prefilled = self._prefilled
        return Done(
            request_id=self._request_id,
            finish_reason="cancelled" if not self.finished else "stop" if is_stop else "length",
            prompt_tokens=self._total,
            completion_tokens=completion,
            reused_prompt_tokens=self._reused,
            prefilled_prompt_tokens=prefilled,
            session_reset_reason=self._reason or "new",
            prefill_ms=prefill_ms,
            prefill_tokens_per_second=_rate(prefilled, prefill_ms),
            decode_ms=decode_ms,
            decode_tokens_per_second=_rate(completion, decode_ms),
            total_ms=(now - self._began) * 1000,
            generated_token_ids=tuple(self.known) if is_complete else None,
            # Steps of the prompt draft nothing, and where nothing was drafted the members are missing.
            draft=Draft(
                proposed=self._drafted + timings.get("draft_n", 0),
                accepted=self._accepted + timings.get("draft_n_accepted", 0),
            )
            if self._model.has_draft
            else None,
        )


def _rate(count: int, milliseconds: float) -> float:
    return count / milliseconds * 1000 if milliseconds > 0 else 0.0
