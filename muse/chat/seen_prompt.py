"""What the model saw: the prompt of one turn for people to read, and what its tokens were spent on.

Made of what is kept for the turn anyway: its parts (splice.py), the request's messages and the worker's `accepted`.
Counts are the worker's own, of the very tokens that it read; where it cannot tell them they are null, and a note says
so. Nothing here is computed before somebody asks, but for the shares, which every receipt has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, get_args

import attrs

from muse.api.images import Picture
from muse.api.message import Message
from muse.api.metrics import ContextShares, reset_explanation
from muse.chat.marked_text import DATA
from muse.chat.origins import message_of
from muse.chat.pictures import pictures_in
from muse.chat.splice import PromptPart
from muse.protocol import Accepted, IdsSegment, ImageSegment, Ready, TextSegment

Kind = Literal["scaffold", "text", "answer", "begun", "image"]
"""The template's own text; a client's; the exact ids of an earlier answer; what this answer goes on from; a picture."""

Share = Literal["template", "system", "history", "images", "tools", "question", "begun"]
SHARES: Final[tuple[Share, ...]] = get_args(Share)

_NOT_YET: Final = "The model has not taken this prompt, so its tokens are not counted."
_NO_COUNTS: Final = "The engine does not tell how many tokens each part has."
_AS_TEXT: Final = "Beside pictures this engine takes earlier answers as text, and cuts it into tokens anew."


@attrs.frozen(kw_only=True)
class SeenSegment:
    """role: whose text it is; `tools` are the definitions of tools, `settings` other values of the request, None the
    template's own or unknown. message: its index in the request. tokens, reused: None while not known."""

    kind: Kind
    role: str | None = None
    message: int | None = None
    text: str = ""
    picture: Picture | None = None
    tokens: int | None = None
    reused: int | None = None

    def to_dict(self) -> dict[str, object]:
        """The JSON object."""
        shown: dict[str, object] = {"kind": self.kind, "role": self.role, "message": self.message}
        if self.picture is None:
            shown["text"] = self.text
        else:
            picture = self.picture
            shown["image"] = {"type": f"image/{picture.kind}", "width": picture.width, "height": picture.height}
        return {**shown, "tokens": self.tokens, "reused": self.reused}


@attrs.frozen(kw_only=True)
class SeenPrompt:
    """begun: what stands behind the prompt from the beginning. accepted: the worker's answer to it, None while there is
    none."""

    parts: tuple[PromptPart, ...]
    messages: tuple[Message, ...]
    has_tools: bool
    begun: str
    model: Ready
    accepted: Accepted | None

    def to_dict(self) -> dict[str, object]:
        """The document of GET /api/replies/{id}/prompt, but for the reply's id."""
        taken = self.accepted
        return {
            "model": self.model.model_id,
            "context_length": self.model.context_length,
            "tokens": taken.prompt_tokens if taken else None,
            "reused": taken.reused_prompt_tokens if taken else None,
            "session_reset_reason": taken.session_reset_reason if taken else None,
            "session_reset_explanation": reset_explanation(taken.session_reset_reason, taken.reused_prompt_tokens)
            if taken
            else None,
            "notes": list(self._notes()),
            "segments": [segment.to_dict() for segment in self.segments()],
        }

    def _notes(self) -> Iterator[str]:
        if self.accepted is None:
            yield _NOT_YET
        elif self._counts() is None:
            yield _NO_COUNTS
        kinds = {type(part.segment) for part in self.parts}
        if {IdsSegment, ImageSegment} <= kinds and not self.model.supports.ids_with_images:
            yield _AS_TEXT

    def segments(self) -> list[SeenSegment]:
        """From the first to the last token."""
        bare = [*map(self._segment, self.parts, self._pictures())]
        counts = self._counts()
        if self.begun:
            bare.append(SeenSegment(kind="begun", role="assistant", text=self.begun))
        if counts is None or self.accepted is None:
            return bare
        segments: list[SeenSegment] = []
        own = self.accepted.prompt_tokens - sum(counts)
        if own:
            # Put there by the engine: the token that begins every prompt of some models.
            bare.insert(0, SeenSegment(kind="scaffold", text=self.model.bos_token))
            counts = [own, *counts]
        left = self.accepted.reused_prompt_tokens
        for segment, tokens in zip(bare, counts, strict=True):
            segments.append(attrs.evolve(segment, tokens=tokens, reused=min(tokens, left)))
            left -= min(tokens, left)
        return segments

    def _pictures(self) -> Iterator[tuple[int, Picture] | None]:
        """For each part: its picture and the index of the message that holds it."""
        left = iter(pictures_in(self.messages))
        for part in self.parts:
            if isinstance(part.segment, ImageSegment):
                index, placed = next(left)
                yield index, placed.picture
            else:
                yield None

    def _segment(self, part: PromptPart, shown: tuple[int, Picture] | None) -> SeenSegment:
        if shown is not None:
            index, picture = shown
            return SeenSegment(kind="image", role=self.messages[index].role, message=index, picture=picture)
        message = message_of(part.origin)
        match part.segment:
            case TextSegment(text=text, special=True):
                return SeenSegment(kind="scaffold", text=text)
            case TextSegment(text=text):
                return SeenSegment(kind="text", role=self._role(part.origin), message=message, text=text)
            case _:
                return SeenSegment(kind="answer", role="assistant", message=message, text=part.spelled)

    def _role(self, origin: int) -> str | None:
        message = message_of(origin)
        if message is not None:
            return self.messages[message].role
        if origin == DATA:
            return "tools" if self.has_tools else "settings"
        return None

    def _counts(self) -> list[int] | None:
        """Tokens of each part, and of what was begun. A worker may be wrong, and then nothing is said."""
        told = self.accepted.segment_tokens if self.accepted else None
        parts = len(self.parts)
        if told is None or self.accepted is None or len(told) < parts or sum(told) > self.accepted.prompt_tokens:
            return None
        if (len(told) > parts) != bool(self.begun):
            return None
        return [*told[:parts], sum(told[parts:])] if self.begun else list(told)

    # ------------------------------------------------------------ shares

    def shares(self) -> ContextShares | None:
        """What the prompt's tokens were spent on, in all exactly its tokens; None while they are not known."""
        segments = self.segments()
        spent: dict[Share, int] = dict.fromkeys(SHARES, 0)
        asked = max((index for index, said in enumerate(self.messages) if said.role == "user"), default=-1)
        for segment in segments:
            if segment.tokens is None:
                return None
            spent[_share_of(segment, asked)] += segment.tokens
        return ContextShares(length=self.model.context_length, **spent) if segments else None


def _share_of(segment: SeenSegment, asked: int) -> Share:
    """asked: index of the message that the answer is to."""
    match segment.kind:
        case "scaffold":
            return "template"
        case "image":
            return "images"
        case "begun":
            return "begun"
        case "answer":
            return "history"
        case "text":
            return _said(segment, asked)


def _said(segment: SeenSegment, asked: int) -> Share:
    match segment.role:
        case "tools" | "tool":
            return "tools"
        case "system" | "settings":
            return "system"
        case None:
            return "template"
        case _:
            return "question" if segment.message == asked else "history"
