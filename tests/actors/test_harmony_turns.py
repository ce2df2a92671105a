"""A model that speaks Harmony, through a real worker: channels, exact ids, answer now, going on after a death."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from actors.reply import Reply
from actors.sessions.messages import AnswerNow
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
@pytest.mark.parametrize("token", range(len(WORDS)))
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
