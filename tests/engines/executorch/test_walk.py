"""Random conversations with muse-nano, as tests/faults/test_nano_walk.py has them with llama.cpp.

There is one cache. So cold runs are those of a worker beside, and who comes back behind another session is as good as
new, but for what both begin with.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from actors.reply import Reply
from muse.api.message import Message
from muse.protocol import Generate, Segment
from muse.worker.engines.executorch.prompt import PromptEncoder
from muse.worker.hf_tokenizer import JsonTokenizer
from tests.engines.executorch.conftest import Artifact
from tests.engines.executorch.cores import Manner, stand_in_core
from tests.faults.core import FaultCore
from tests.faults.test_nano_walk import NanoWalk, visible
from tests.faults.test_session_walk import take_steps
from tests.worker.client import WorkerProcess


class StandInTokenizer:
    """The tokeniser of an artifact."""

    def __init__(self, artifact: Path) -> None:
        self._tokens = JsonTokenizer(artifact / "tokenizer.json")
        self._encoder = PromptEncoder(self._tokens, context=NanoWalk.context, most_cells=0)

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """The ids of a prompt, as the worker makes them."""
        return self._encoder.encode(segments).ids

    def spelled(self, ids: Sequence[int]) -> str:
        """What ids spell."""
        return self._bytes(ids).decode("utf-8", "replace")

    def begun(self, ids: Sequence[int]) -> str:
        """The same without the beginning of a character at the end."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(self._bytes(ids))

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return self._tokens.decode(ids)

    def margin(self, ids: list[int]) -> float:
        """Nobody may be in doubt here."""
        raise AssertionError(f"a cold run went another way behind {self.spelled(ids)!r}")


class StandInWalk(NanoWalk):
    """cold_worker: gives the cold answers."""

    named = 1

    def __init__(self, core: FaultCore, artifact: Path, cold_worker: WorkerProcess, seed: int) -> None:
        tokenizer = StandInTokenizer(artifact)
        super().__init__(core, tokenizer, seed)
        self._begun = tokenizer.begun
        self._cold_worker = cold_worker
        self.warm_turns = self.displaced_turns = 0

    async def ask(self, session_id: str, messages: list[Message], limit: int, how: str) -> Reply:
        """What is resident before a turn is asked of the worker: another session may have taken its place."""
        held = await self.resident(session_id)
        if all(session_id not in order for order in self.orders):
            assert held == ()
            self.displaced_turns += bool(self.clients[session_id].messages)
        elif all(session_id in order for order in self.orders):
            assert held == self.clients[session_id].resident
            self.warm_turns += bool(held)
        self.clients[session_id].resident = held
        return await super().ask(session_id, messages, limit, how)

    def shown(self, ids: Sequence[int]) -> str:
        """A budget may end inside a character, which is then in the ids alone."""
        return visible(self._begun(ids))

    def check_resident(self, held: Sequence[int], whole: Sequence[int]) -> None:
        """The last token is given before it is evaluated."""
        assert held in (whole, whole[:-1])

    async def cold(self, command: Generate, limit: int) -> list[int]:
        """See Walk."""
        done = (await trio.to_thread.run_sync(lambda: self._cold_worker.ask(command.prompt_segments, limit=limit))).done
        assert (done.reused_prompt_tokens, done.session_reset_reason) == (0, "new")
        assert done.generated_token_ids is not None
        return list(done.generated_token_ids)


async def walk(artifact: Path, cold_worker: WorkerProcess, home: Path, *, steps: int, seed: int) -> StandInWalk:
    """Take so many steps, with answers that are those of cold runs without exception."""
    async with stand_in_core(artifact, home, Manner(), guard_s=60 + 3 * steps) as core:
        await core.wait_worker("ready")
        walked = StandInWalk(core, artifact, cold_worker, seed)
        await take_steps(walked, steps)
    assert not walked.doubts
    return walked


async def test_a_walk(artifact: Artifact, drafted: WorkerProcess, tmp_path: Path) -> None:
    """Always the same steps."""
    walked = await walk(artifact("dflash"), drafted, tmp_path, steps=40, seed=1)
    assert walked.warm_turns > 2
    assert walked.displaced_turns > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
async def test_long_walks(artifact: Artifact, drafted: WorkerProcess, tmp_path: Path, seed: int) -> None:
    """Five hundred steps, in parts that end before a hang is suspected."""
    await walk(artifact("solo" if seed % 2 else "dflash"), drafted, tmp_path, steps=50, seed=seed)
