"""A model that speaks Harmony, through a real worker: channels, exact ids, answer now, going on after a death."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.reply import Reply, Sign
from actors.sessions.messages import AnswerNow
from actors.transcripts.messages import ShowSession
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from tests.actors.conftest import Core
from tests.actors.test_resume import dying
from tests.actors.test_sessions import finished, start

CoreFactory = Callable[..., AbstractAsyncContextManager[Core]]
TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %} to=user{% endif %}<|message|>"
    "{{ m.content }}<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
THOUGHT = [" to=", "self", "<|message|>", "Two and", " two", "<|eom|>", "<|start|>", "assistant", " to=user"]
WORDS = [*THOUGHT, "<|message|>", "It is ", "four", " <|message|", ">", "."]
SCRIPT: dict[str, Any] = {
    "special_tokens": ["<|eot|>", "<|start|>", "<|message|>", "<|eom|>"],
    "chat_template": TEMPLATE,
    "answers": [{"tokens": WORDS}],
}


def request(*contents: str, **fields: Any) -> ChatRequest:
    """Turns of user and assistant, beginning with the user."""
    messages = [
        {"role": "assistant" if number % 2 else "user", "content": content} for number, content in enumerate(contents)
    ]
    return parse_chat_request({"messages": messages, **fields}, SamplingDefaults())


def said(reply: Reply) -> tuple[str, str]:
    return reply.text("reasoning"), reply.text("answer")


async def test_reasoning_and_answer_are_parted_and_a_look_alike_is_text(core: CoreFactory) -> None:
    """Control tokens never show; the same spelling made of ordinary tokens does."""
    async with core(SCRIPT) as running:
        reply = await start(running, request("2 + 2?"))
        outcome = await finished(reply)
        assert said(reply) == ("Two and two", "It is four <|message|>.")
        assert outcome.metrics.thinking_tokens
        assert outcome.metrics.completion_tokens == len(WORDS)


async def test_the_second_turn_is_an_exact_prefix_reasoning_inside(core: CoreFactory) -> None:
    """The client hands back the visible answer alone; the ids bring the reasoning and their own header."""
    async with core(SCRIPT) as running:
        first = await start(running, request("2 + 2?", session_id="s"))
        before = (await finished(first)).metrics
        second = await start(running, request("2 + 2?", said(first)[1], "Sure?", session_id="s"))
        metrics = (await finished(second)).metrics
        assert metrics.session_reset_reason == "exact_prefix"
        assert metrics.reused_prompt_tokens == before.prompt_tokens + before.completion_tokens
        edited = await start(running, request("2 + 2?", "Five.", "Sure?", session_id="s"))
        assert (await finished(edited)).metrics.session_reset_reason == "rewound"


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "text"])
@pytest.mark.parametrize(
    "token", [pytest.param(token, marks=pytest.mark.slow if token % 3 else ()) for token in range(len(WORDS))]
)
async def test_a_death_anywhere_changes_no_channel(core: CoreFactory, tmp_path: Path, token: int, ids: bool) -> None:
    """Inside headers and between messages too, with ids and without."""
    words = WORDS if ids else [word for word in WORDS if word not in (" <|message|", ">")]
    answer = {"tokens": words, "ids": ids, "faults": [dying(tmp_path, token=token)] if token < len(words) else []}
    async with core({**SCRIPT, "answers": [answer]}) as running:
        reply = await start(running, request("2 + 2?"))
        outcome = await finished(reply)
        assert said(reply) == ("Two and two", "It is four <|message|>." if ids else "It is four.")
        assert outcome.metrics.resumed == (token < len(words))


async def test_answer_now_ends_the_thought(core: CoreFactory) -> None:
    """The channel is closed properly and the answer begins (the script's is its own beginning once more)."""
    endless = {"tokens": [*THOUGHT[:3], *["hm "] * 5000], "token_ms": 2}
    async with core({**SCRIPT, "answers": [endless]}) as running:
        reply = await start(running, request("2 + 2?", max_tokens=400))
        while "hm" not in reply.text("reasoning"):
            await reply.wait_news(reply.end, reply.sign_version)
        assert await running.sessions.ask(AnswerNow(reply_id=reply.id))
        await finished(reply)
        assert reply.text("reasoning").replace("hm ", "") == ""
        assert reply.text("answer").endswith("hm hm ")


async def test_a_thinking_budget_that_ends_anywhere_cuts_no_answer_off(core: CoreFactory) -> None:
    """Also where it is used up by the end of the thought itself: then there is nothing to close, and the turn goes
    on as it was."""
    async with core({**SCRIPT, "answers": [{"tokens": WORDS, "token_ms": 20}]}) as running:
        for limit in range(1, 9):
            reply = await start(running, request("2 + 2?", muse={"max_thinking_tokens": limit}))
            outcome = await finished(reply)
            assert outcome.finish_reason == "stop"
            assert "Two and two".startswith(said(reply)[0])
            assert said(reply)[1].endswith("It is four <|message|>.")


async def test_answer_now_behind_the_thought_only_goes_on(core: CoreFactory, tmp_path: Path) -> None:
    """The model has ended it by itself: there is nothing to close, and the answer comes whole."""
    paused = tmp_path / "paused"
    place = THOUGHT.index("<|start|>")
    pause = {"at": "token", "token": place, "do": "delay", "ms": 1000, "counter": str(paused), "times": 1}
    async with core({**SCRIPT, "answers": [{"tokens": WORDS, "faults": [pause]}]}) as running:
        reply = await start(running, request("2 + 2?"))
        while not paused.exists():  # the end of the thought, which does not show, has been sent then
            await trio.sleep(0.01)
        while not reply.text("reasoning").endswith("two"):
            await reply.wait_news(reply.end, reply.sign_version)
        assert await running.sessions.ask(AnswerNow(reply_id=reply.id))
        assert (await finished(reply)).finish_reason == "stop"
        assert said(reply) == ("Two and two", "It is four <|message|>.")


async def test_a_thought_that_was_cut_is_continued(core: CoreFactory) -> None:
    """The new reply has the rest; the session and the receipt know what came before."""
    async with core(SCRIPT) as running:
        cut = await start(running, request("2 + 2?", session_id="s", max_tokens=4))
        before = (await finished(cut)).metrics
        assert before.thinking_unfinished
        assert before.thinking_ms is not None
        rest = await start(running, parse_chat_request({"muse": {"continue": cut.id}}, SamplingDefaults()))
        metrics = (await finished(rest)).metrics
        assert (said(cut), said(rest)) == (("Two and", ""), (" two", "It is four <|message|>."))
        assert (metrics.earlier_tokens, metrics.earlier_thinking_tokens) == (4, before.thinking_tokens)
        assert metrics.earlier_thinking_ms == pytest.approx(before.thinking_ms)
        view = await running.transcripts.ask(ShowSession(session_id="s"))
        assert (view.turns[1].reasoning, view.turns[1].content) == ("Two and two", "It is four <|message|>.")


async def test_no_more_thinking_closes_a_cut_thought_at_once(core: CoreFactory) -> None:
    """`max_thinking_tokens` 0 with `continue`: not one more token of it."""
    async with core(SCRIPT) as running:
        cut = await start(running, request("2 + 2?", max_tokens=4))
        await finished(cut)
        body = {"muse": {"continue": cut.id, "max_thinking_tokens": 0}}
        rest = await start(running, parse_chat_request(body, SamplingDefaults()))
        metrics = (await finished(rest)).metrics
        assert rest.text("reasoning") == ""
        assert rest.text("answer").endswith("It is four <|message|>.")
        assert (metrics.thinking_tokens, metrics.thinking_ms) == (0, None)


async def test_the_sign_of_decoding_tells_what_the_thought_took(core: CoreFactory) -> None:
    """Once it is over, as the receipt will; a continued one counts from its beginning."""
    async with core({**SCRIPT, "answers": [{"tokens": WORDS, "token_ms": 5}]}) as running:
        cut = await start(running, request("2 + 2?", max_tokens=4))
        await finished(cut)
        assert cut.sign == Sign(phase="decode")
        rest = await start(running, parse_chat_request({"muse": {"continue": cut.id}}, SamplingDefaults()))
        metrics = (await finished(rest)).metrics
        assert metrics.thinking_ms is not None
        assert rest.sign is not None
        assert rest.sign.thinking_tokens == metrics.earlier_thinking_tokens + (metrics.thinking_tokens or 0)
        assert rest.sign.thinking_ms == pytest.approx(metrics.earlier_thinking_ms + metrics.thinking_ms, abs=0.01)


async def test_a_cut_anywhere_changes_no_channel(core: CoreFactory) -> None:
    """Half a header is no text, and what follows a cut belongs where it would have belonged."""
    async with core(SCRIPT) as running:
        for budget in range(1, len(WORDS)):
            cut = await start(running, request("2 + 2?", max_tokens=budget))
            assert (await finished(cut)).finish_reason == "length"
            rest = await start(running, parse_chat_request({"muse": {"continue": cut.id}}, SamplingDefaults()))
            await finished(rest)
            thought, answer = said(cut)
            assert (thought + said(rest)[0], answer + said(rest)[1]) == ("Two and two", "It is four <|message|>.")
