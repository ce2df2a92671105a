"""An answer as a client reads it, from a stream or a body. What breaks the rules of either is Wrong."""

from __future__ import annotations

import json
from typing import Any

import attrs


class Wrong(Exception):
    """Something that no rule allows: what was expected and what came."""


@attrs.define(kw_only=True)
class Said:
    """What came of an answer so far. error: the error object inside a stream. position: characters read, if the stream
    numbers its events. ended: [DONE] came, or it is a whole body."""

    reply_id: str = ""
    reasoning: str = ""
    answer: str = ""
    calls: list[dict[str, Any]] = attrs.field(factory=list)
    finish: str | None = None
    metrics: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    position: int = 0
    ended: bool = False

    @property
    def called(self) -> list[tuple[str, Any]]:
        """The tool calls: name and parsed arguments."""
        return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in self.calls]

    @property
    def is_cancelled(self) -> bool:
        """It was ended by a cancel."""
        return self.metrics is not None and bool(self.metrics["cancelled"])

    def text(self) -> tuple[str, str, list[dict[str, Any]]]:
        """All that was said, for comparison."""
        return self.reasoning, self.answer, self.calls

    def followed_by(self, later: Said) -> Said:
        """This answer and the one that continues it, as one."""
        return attrs.evolve(
            later,
            reasoning=self.reasoning + later.reasoning,
            answer=self.answer + later.answer,
            calls=self.calls + later.calls,
        )


class StreamReader:
    """Reads the lines of a stream of chunks. A detached reply is read by one reader over all its connections."""

    def __init__(self, *, numbered: bool) -> None:
        self.said = Said()
        self._numbered = numbered
        self._number: int | None = None
        self._has_role = False

    def feed(self, line: str) -> None:
        """One line, without its end. Raises Wrong."""
        if not line or line.startswith(": "):
            return
        if self.said.ended:
            raise Wrong(f"behind the end: {line[:200]}")
        if line.startswith("id: "):
            self._number = int(line[4:])
        elif line == "data: [DONE]":
            self._end()
        elif line.startswith("data: {"):
            self._chunk(json.loads(line[6:]))
            self._number = None
        else:
            raise Wrong(f"no line of a stream: {line[:200]}")

    def check_ended(self) -> None:
        """The server closed the connection: nothing may be missing. Raises Wrong."""
        if not self.said.ended:
            raise Wrong("the stream ended without its end")

    def _end(self) -> None:
        said = self.said
        if said.error is None and (said.finish is None or said.metrics is None):
            raise Wrong("[DONE] without finish reason, metrics or error")
        said.ended = True

    def _chunk(self, chunk: dict[str, Any]) -> None:
        said = self.said
        if "error" in chunk:
            said.error = chunk["error"]
            return
        if self._numbered and self._number is None:
            raise Wrong("an event without its position")
        said.reply_id = said.reply_id or chunk["id"]
        if chunk["id"] != said.reply_id:
            raise Wrong(f"the id changed from {said.reply_id} to {chunk['id']}")
        length = 0
        for choice in chunk["choices"]:
            length += self._delta(choice["delta"])
            said.finish = choice["finish_reason"] or said.finish
        said.metrics = chunk.get("muse_metrics", said.metrics)
        if self._numbered and self._number != said.position + length:
            raise Wrong(f"an event of {length} characters behind {said.position} has the position {self._number}")
        said.position += length

    def _delta(self, delta: dict[str, Any]) -> int:
        """Take what it brings; how many positions that is."""
        said = self.said
        if delta.pop("role", None) is not None:
            delta.pop("content")
            if self._has_role and (not self._numbered or said.position):
                raise Wrong("a second role")
            self._has_role = True
        if not delta:
            return 0
        if said.finish is not None:
            raise Wrong(f"behind the finish reason: {delta}")
        if not self._has_role:
            raise Wrong(f"before the role: {delta}")
        reasoning, answer = delta.pop("reasoning_content", ""), delta.pop("content", "")
        said.reasoning += reasoning
        said.answer += answer
        length = len(reasoning) + len(answer)
        for call in delta.pop("tool_calls", ()):
            if call.pop("index") != len(said.calls):
                raise Wrong(f"call out of order: {call}")
            said.calls.append(call)
            length += len(json.dumps({"id": call["id"], **call["function"]}))
        if delta:
            raise Wrong(f"unknown members of a delta: {delta}")
        return length


def said_of_body(body: dict[str, Any]) -> Said:
    """A whole answer."""
    (choice,) = body["choices"]
    message = choice["message"]
    return Said(
        reply_id=body["id"],
        reasoning=message.get("reasoning_content") or "",
        answer=message["content"] or "",
        calls=message.get("tool_calls", []),
        finish=choice["finish_reason"],
        metrics=body["muse_metrics"],
        ended=True,
    )
