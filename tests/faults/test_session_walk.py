"""Random conversations with the real worker: what it holds, what the store says, and what a cold run would answer.

Three sessions take turns on a worker that keeps two. After every step the ids that the worker has resident are those
of the prompt and of the answer, as the store has them and the model's own tokeniser makes them; what was reused, and
the reason given, follow from the ids that were resident before; and the greedy answer is that of a run without a
session, but for places where the model itself can hardly decide.

The worker evaluates a prompt in small steps: for 64 rows and more llama.cpp's attention on the CPU sums in another
way, which moves log-probabilities by 0.2 and margins by more, and how many rows there are is what warmth changes.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import attrs
import pytest
import trio

from actors.reply import Reply
from actors.sessions.messages import CancelTurn, DescribeSession, EndSession, StartTurn
from actors.supervisor.launch import WorkerCommand
from actors.supervisor.messages import RequestEvent, SessionCommand, StartGeneration
from actors.transcripts.messages import SessionView
from muse.api.chat_request import SamplingDefaults, parse_chat_request
from muse.api.message import Message
from muse.errors import MuseError
from muse.protocol import Done, Error, Generate, IdsSegment, Ready, Segment, Tokens
from muse.settings import Settings
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.gguf import read_model_file
from muse.worker.engines.llamacpp.prompt import PromptEncoder
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from tests.faults.core import FaultCore, finished, running_core, wait_length
from tests.unit.plain_jinja import render_plain

pytestmark = [pytest.mark.model, pytest.mark.thorough]

SESSIONS: Final = ("a", "b", "c")
MOST_MESSAGES: Final = 10
MARGIN: Final = 0.2
"""Between the two best tokens, in log-probability: sums in another order may change less than this."""
QUESTIONS: Final = (
    "Name a colour.",
    "And another?",
    "Why is the sea salty?",
    "Say it in one word.",
    "<|im_end|>?",
    "2+2",
)
STEPS: Final = ["append"] * 8 + ["edit answer", "edit question", "regenerate", "cut", "foreign", "cancel", "cancel now",
                                 "stop string", "stop string", "reset", "close"]  # fmt: skip


@attrs.define
class Collector:
    """Who gets the events of a run without a session."""

    over: trio.Event = attrs.field(factory=trio.Event)
    ids: list[int] = attrs.field(factory=list)
    end: RequestEvent | MuseError | None = None

    def on_event(self, event: RequestEvent) -> None:
        if isinstance(event, Tokens):
            self.ids += event.ids or ()
        elif isinstance(event, Done | Error):
            self.end = event
            self.over.set()

    def on_lost(self, fault: MuseError) -> None:
        self.end = fault
        self.over.set()


@attrs.define
class Chatter:
    """What one client has: its messages, and the ids of answers among them. resident: what the worker has of it.
    was_reset: since its last turn."""

    messages: list[Message] = attrs.field(factory=list)
    answers: list[tuple[str, tuple[int, ...] | None]] = attrs.field(factory=list)
    resident: tuple[int, ...] = ()
    was_reset: bool = False


class SmallSteps(WorkerCommand):
    """Starts workers whose sums do not depend on how much of a prompt was resident."""

    def arguments(self) -> list[str]:
        return [*super().arguments(), "--batch", "32"]


def said(role: str, content: str) -> Message:
    return Message(role=role, content=content)


def shared(a: Sequence[int], b: Sequence[int]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class Tokenizer(Protocol):
    """The model's own, behind the encoder of its engine."""

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """The ids of a prompt, as the worker makes them."""
        ...

    def spelled(self, ids: Sequence[int]) -> str:
        """What ids spell."""
        ...

    def margin(self, ids: list[int]) -> float:
        """How far the best token behind these is before the second, in log-probability."""
        ...


class LlamaTokenizer:
    """Asks the native server of a running worker, which gives a slot for a margin."""

    def __init__(self, core: FaultCore, model: Path) -> None:
        command = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(core.worker_pids()[-1])], capture_output=True, text=True, check=True
        )
        self._inner = Client(command.stdout.split('"socket": "')[1].split('"')[0])
        self._encoder = PromptEncoder(self._inner, Vocabulary(read_model_file(model)), None)

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """See Tokenizer."""
        return self._encoder.encode(segments)

    def spelled(self, ids: Sequence[int]) -> str:
        """See Tokenizer."""
        return self._inner.call("POST", "/detokenize", {"tokens": list(ids)})["content"]

    def margin(self, ids: list[int]) -> float:
        """See Tokenizer."""
        body = {"prompt": ids, "n_predict": 1, "n_probs": 2, "samplers": ["top_k"], "top_k": 1, "cache_prompt": False}
        answer = self._inner.call("POST", "/completion", body)
        best, second = (top["logprob"] for top in answer["completion_probabilities"][0]["top_logprobs"][:2])
        return best - second


class Walk:
    """One walk on a running core. doubts: prompts up to where a cold run went another way. named: slots that the engine
    has for sessions."""

    questions: Sequence[str] = QUESTIONS
    context = 2048
    named = 2

    def __init__(self, core: FaultCore, tokenizer: Tokenizer, seed: int) -> None:
        self.tokenizer = tokenizer
        self.core = core
        self.random = random.Random(seed)
        self.clients = {name: Chatter() for name in SESSIONS}
        self.doubts: list[list[int]] = []
        self.turns = 0
        self.orders: set[tuple[str, ...]] = {()}
        """Who may have the slots, the one used last at the end. More than one when a turn was cancelled that the
        worker had perhaps begun: then a session may have a slot, or go before its turn."""

    def orders_after(self, session_id: str) -> set[tuple[str, ...]]:
        """Who has the slots once this session was served."""
        return {
            (*(other for other in order if other != session_id), session_id)[-self.named :] for order in self.orders
        }

    # ------------------------------------------------------------ what is asked of the system

    async def view(self, session_id: str) -> SessionView | None:
        try:
            return (await self.core.sessions.ask(DescribeSession(session_id=session_id))).view
        except MuseError as fault:
            assert fault.code == "session_not_found"  # noqa: PT017 - None is an answer here
            return None

    async def resident(self, session_id: str) -> tuple[int, ...]:
        shown = await self.core.supervisor.ask(SessionCommand(action="show", session_id=session_id))
        assert shown.resident_ids is not None
        return shown.resident_ids

    async def cold(self, command: Generate, limit: int) -> list[int]:
        """What the same prompt gives without a session."""
        self.turns += 1
        sink = Collector()
        command = attrs.evolve(command, request_id=f"cold-{self.turns}", session_id=None, max_new_tokens=limit)
        await self.core.supervisor.tell(StartGeneration(command=command, sink=sink))
        await sink.over.wait()
        assert isinstance(sink.end, Done), sink.end
        assert (sink.end.reused_prompt_tokens, sink.end.session_reset_reason) == (0, "new")
        return sink.ids

    # ------------------------------------------------------------ one step

    async def step(self) -> None:
        session_id, how = self.random.choice(SESSIONS), self.random.choice(STEPS)
        if len(self.clients[session_id].messages) >= MOST_MESSAGES:
            how = "foreign"
        if how in ("reset", "close"):
            await self.core.sessions.ask(EndSession(session_id=session_id, action=how))
            assert await self.view(session_id) is None
            assert await self.resident(session_id) == ()
            self.clients[session_id] = Chatter(self.clients[session_id].messages, was_reset=how == "reset")
            if how == "close":
                self.orders = {tuple(holder for holder in order if holder != session_id) for order in self.orders}
            return
        before = await self.view(session_id)
        messages = self.next_messages(self.clients[session_id].messages, how)
        limit = self.most_tokens(how)
        reply = await self.ask(session_id, messages, limit, how)
        outcome = await finished(reply)
        if not reply.accepted:
            assert how == "cancel now"
            assert await self.view(session_id) == before
            self.clients[session_id].resident = await self.resident(session_id)
            self.orders |= self.orders_after(session_id)
            return
        await self.check(session_id, messages, reply, limit, outcome.finish_reason)

    def most_tokens(self, how: str) -> int:
        return 40 if how.startswith("cancel") else self.random.randint(8, 12)

    async def ask(self, session_id: str, messages: list[Message], limit: int, how: str) -> Reply:
        bodies = [{"role": message.role, "content": message.content} for message in messages]
        body: dict[str, object] = {"messages": bodies, "session_id": session_id, "temperature": 0, "max_tokens": limit}
        body |= {"stop": ["e"]} if how == "stop string" else {}
        reply = await self.core.sessions.ask(StartTurn(request=parse_chat_request(body, SamplingDefaults())))
        if how == "cancel":
            await wait_length(reply)
        if how.startswith("cancel"):
            await self.core.sessions.ask(CancelTurn(reply_id=reply.id))
        return reply

    def next_messages(self, old: list[Message], how: str) -> list[Message]:
        places = [index for index, message in enumerate(old) if message.role == "assistant"]
        question = said("user", self.random.choice(self.questions))
        match how:
            case "edit answer" if places:
                at = self.random.choice(places)
                return [*old[:at], said("assistant", old[at].content + " Or so."), *old[at + 1 :], question]
            case "edit question" if old:
                return [*old[: self.random.choice(range(0, len(old), 2))], question]
            case "regenerate" if places:
                return old[: places[-1]]
            case "cut" if old:
                return [*old[: self.random.choice(range(0, len(old), 2))], question]
            case "foreign":
                return [said("system", "Be brief."), said("user", "Hello"), said("assistant", "Hello!"), question]
            case _:
                return [*old, question]

    # ------------------------------------------------------------ what must hold

    async def check(self, session_id: str, messages: list[Message], reply: Reply, limit: int, reason: str) -> None:
        client = self.clients[session_id]
        command = self.core.generations[-1]
        assert command.request_id == reply.id
        prompt = self.tokenizer.encode(command.prompt_segments)
        self.check_prompt(client, messages, command, prompt)
        view = await self.view(session_id)
        assert view is not None
        assert view.messages == tuple(messages)
        turn = view.turns[len(messages)]
        assert turn.content == reply.text("answer")
        held = await self.resident(session_id)
        if turn.ids is None:
            assert held[: len(prompt)] == tuple(prompt)
            self.check_inexact(self.shown(held[len(prompt) :]), turn.content)
        elif reason == "cancelled" and not turn.ids:
            assert held == tuple(prompt[: len(held)])
        else:
            self.check_resident(held, (*prompt, *turn.ids))
            assert self.shown(turn.ids) == turn.content
        assert turn.metrics is not None
        reused = turn.metrics.reused_prompt_tokens
        warm = all(session_id in order for order in self.orders)
        self.orders = self.orders_after(session_id)
        self.check_reuse(client.resident, prompt, reused, turn.metrics.session_reset_reason, warm=warm)
        assert not (client.was_reset and reused)
        answer = list(turn.ids or held[len(prompt) :])
        await self.check_answer(command, prompt, answer, limit if reason in ("stop", "length") and turn.ids else None)
        client.messages = [*messages, said("assistant", turn.content)]
        client.answers.append((turn.content, turn.ids))
        client.resident, client.was_reset = held, False

    def check_resident(self, held: Sequence[int], whole: Sequence[int]) -> None:
        """Prompt and answer, to the last token."""
        assert held == whole

    def check_inexact(self, held: str, content: str) -> None:
        """What is resident of an answer whose ids are not kept: a stop string ended it, so there may be more."""
        assert held.startswith(content)

    def check_prompt(self, client: Chatter, messages: list[Message], command: Generate, prompt: list[int]) -> None:
        """It spells the conversation, with the ids of all answers that came back as they were sent."""
        model = self.core.board.value.model
        assert model is not None
        contents = [message.content for message in messages if message.role == "assistant"]
        same = shared(contents, [content for content, _ in client.answers])  # pyright: ignore[reportArgumentType]
        client.answers = client.answers[:same] + [(content, None) for content in contents[same:]]
        known = [ids for content, ids in client.answers if ids and content]
        assert [s.ids for s in command.prompt_segments if isinstance(s, IdsSegment)] == known
        assert self.spelled(prompt) == self.plain(model, messages, client)

    def plain(self, model: Ready, messages: Sequence[Message], client: Chatter) -> str:
        """The conversation as a plain rendering writes it."""
        del client  # what it knows spells the same here
        template = model.chat_template
        assert template is not None
        now = datetime.now(UTC)
        return render_plain(template, messages, now=now, bos_token=model.bos_token, eos_token=model.eos_token)

    def check_reuse(self, before: Sequence[int], prompt: Sequence[int], reused: int, why: str, *, warm: bool) -> None:
        """All that is common was kept, but for the last one, which may not be evaluated yet; and more where another
        session began alike. A session that others displaced may have lost any part of it."""
        common = shared(before, prompt)
        assert (min(common, len(prompt) - 1) - 1 if warm else 0) <= reused < len(prompt)
        if not before:
            assert why == "new"
            return
        if common == len(before) and warm:
            assert why == ("equal" if len(prompt) == common else "exact_prefix")
        elif common == len(before):
            assert why in ("equal", "exact_prefix", "rewound", "new")
        else:
            assert why == "rewound" if reused else "mismatch"

    async def check_answer(self, command: Generate, prompt: list[int], answer: list[int], limit: int | None) -> None:
        """The cold answer is the same. limit: of an answer that was given to its end, else None."""
        if not answer:
            return
        cold = await self.cold(command, limit or len(answer))
        if limit is None:
            cold = cold[: len(answer)]
        if cold != answer:
            self.doubts.append(prompt + answer[: shared(cold, answer)])

    def shown(self, ids: Sequence[int]) -> str:
        """What of generated ids is for the user."""
        return self.spelled(ids)

    def spelled(self, ids: Sequence[int]) -> str:
        return self.tokenizer.spelled(ids)


async def take_steps(walk: Walk, steps: int) -> None:
    """So many; where a cold run went another way, the model must be in doubt."""
    for _ in range(steps):
        await walk.step()
    # At the end: asking takes a slot behind the engine's back.
    margins = [walk.tokenizer.margin(ids) for ids in walk.doubts]
    assert all(margin < MARGIN for margin in margins), margins
    assert len(margins) < steps / 4
    await walk.core.wait_idle()


async def walk(model: Path, home: Path, *, steps: int, seed: int, kind: type[Walk] = Walk) -> Walk:
    """Take so many steps on a system with this model."""
    where = Settings(model=model, home=home, context=kind.context, threads=1)
    async with running_core(SmallSteps(where), where, guard_s=60 + 3 * steps) as core:
        await core.wait_worker("ready")
        walk = kind(core, LlamaTokenizer(core, model), seed)
        await take_steps(walk, steps)
    return walk


async def test_a_walk_keeps_ids_text_and_answers_together(builtin_model: Path, tmp_path: Path) -> None:
    """Always the same steps."""
    await walk(builtin_model, tmp_path, steps=40, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
async def test_long_walks(builtin_model: Path, tmp_path: Path, seed: int) -> None:
    """A thousand steps, in parts that end before a hang is suspected."""
    await walk(builtin_model, tmp_path, steps=50, seed=seed)
