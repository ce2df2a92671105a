"""Talk: what one scenario works with: its client, its chance, the model's questions, and a place for verdicts."""

from __future__ import annotations

import itertools
import random
from typing import Any, Final

import attrs

from tests.faults.chaos.client import Client, Refused
from tests.faults.chaos.known import AnyModel, Nano, Want
from tests.faults.chaos.log import Log
from tests.faults.chaos.reading import Said, Wrong

_numbers: Final = itertools.count(1)


@attrs.define(kw_only=True)
class Talk:
    """One scenario of one client. pending: kind of the answer that is under way."""

    client: Client
    chance: random.Random
    model: Nano | AnyModel
    log: Log
    pending: str = ""

    def new_session(self) -> str:
        """An id that nobody else has."""
        return f"chaos-{next(_numbers)}"

    async def ask(self, kind: str, body: dict[str, Any], want: Want) -> Said:
        """One answer, whole, streamed or detached; it must be as wanted. Raises Refused, Wrong."""
        way = self.chance.choice(("whole", "stream", "stream", "detached"))
        self.pending = f"{kind}, {way}"
        try:
            match way:
                case "whole":
                    said = await self.client.whole(body)
                case "stream":
                    said = await self.client.streamed(body)
                case _:
                    said = await self.client.detached(body)
        except Refused as fault:
            want.check_start(fault.said)
            raise
        want.check(said)
        self.right(said)
        if self.chance.random() < 0.1:
            await self._check_prompt(said)
        return said

    def right(self, said: Said) -> None:
        """The answer under way came to its end, as wanted."""
        assert said.metrics is not None
        self.log.right(self.pending, resumed=said.metrics["resumed"])

    async def _check_prompt(self, said: Said) -> None:
        """The prompt as the model saw it has as many tokens as the metrics say."""
        assert said.metrics is not None
        shown = await self.client.send("GET", f"/api/replies/{said.reply_id}/prompt")
        tokens = [segment["tokens"] for segment in shown["segments"]]
        if None not in tokens and sum(tokens) != said.metrics["prompt_tokens"]:
            raise Wrong(f"the prompt's {tokens} are not {said.metrics['prompt_tokens']} tokens")

    async def cancel(self, **target: str) -> bool:
        """POST /api/cancel; with no worker there is nothing to cancel, which is a 503."""
        try:
            return (await self.client.send("POST", "/api/cancel", target))["cancelled"]
        except Refused as fault:
            if fault.code != "model_unavailable":
                raise
            return False
