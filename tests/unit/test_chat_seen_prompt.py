"""Whose the parts of a prompt are, and what its tokens were spent on."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.api.message import Message
from muse.api.template_options import NO_OPTIONS
from muse.api.tools import Tool
from muse.chat.seen_prompt import SHARES, SeenPrompt
from muse.chat.splice import KnownAnswer
from muse.chat.template import ChatTemplate
from muse.protocol import Accepted, IdsSegment, ImageSegment, Ready, Supports, TextSegment

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MODEL = Ready(
    protocol=1,
    engine="none",
    engine_version="1",
    model_id="m",
    context_length=1000,
    max_sessions=1,
    max_named_sessions=1,
    max_inflight_requests=1,
    supports=Supports(),
    chat_template=None,
    special_tokens=("<|im_start|>", "<|im_end|>"),
    bos_token="<s>",
    eos_token="<|im_end|>",
    eos_ids=(1,),
    device="none",
)
HEADER = "<|im_end|>\n<|im_start|>assistant\n"


def said(role: str, content: str) -> Message:
    return Message(role=role, content=content)  # pyright: ignore[reportArgumentType] - one of the roles


def seen(
    messages: tuple[Message, ...],
    *,
    tools: tuple[Tool, ...] = (),
    known: dict[int, KnownAnswer] | None = None,
    begun: str = "",
    added: int = 0,
    reused: int = 0,
) -> SeenPrompt:
    """A prompt in which each character is a token."""
    parts = ChatTemplate.fallback(special_tokens=MODEL.special_tokens).render_parts(
        messages, NOW, NO_OPTIONS, tools, known or {}
    )
    counts: list[int] = []
    for part in parts:
        match part.segment:
            case TextSegment(text=text):
                counts.append(len(text))
            case IdsSegment(ids=ids):
                counts.append(len(ids))
            case ImageSegment():
                raise AssertionError("there is none")
    counts += [len(begun) - 1, 1] if begun else []
    accepted = Accepted(
        request_id="r",
        prompt_tokens=sum(counts) + added,
        reused_prompt_tokens=reused,
        session_reset_reason="new",
        room=1,
        segment_tokens=tuple(counts),
    )
    return SeenPrompt(
        parts=parts, messages=messages, has_tools=bool(tools), begun=begun, model=MODEL, accepted=accepted
    )


def shares_of(prompt: SeenPrompt) -> dict[str, int]:
    """All that are not 0, in tokens, which are characters here."""
    shares = prompt.shares()
    assert shares is not None
    assert prompt.accepted is not None
    told = {share: getattr(shares, share) for share in SHARES}
    assert sum(told.values()) == prompt.accepted.prompt_tokens
    assert shares.length == MODEL.context_length
    return {share: tokens for share, tokens in told.items() if tokens}


def test_the_templates_own_text_is_a_share_of_its_own() -> None:
    """So each share is the sum of the parts that the prompt shows, and nothing else."""
    messages = (said("system", "S"), said("user", "Qq"), said("assistant", "Aaa"), said("user", "Uuuu"))
    assert shares_of(seen(messages)) == {
        "template": len("<|im_start|>system\n")
        + 2 * len("<|im_end|>\n<|im_start|>user\n")
        + 2 * len("<|im_end|>\n<|im_start|>assistant\n"),
        "system": len("S"),
        "history": len("Qq") + len("Aaa"),
        "question": len("Uuuu"),
    }


def test_an_earlier_answer_is_history_and_is_spelled_out() -> None:
    """Its tokens are those that were generated, however its text would be cut."""
    messages = (said("user", "Q"), said("assistant", "A"), said("user", "U"))
    prompt = seen(messages, known={1: KnownAnswer(ids=(5, 6, 7), header=HEADER, spelled="<x>hm</x>A")})
    (answer,) = [segment for segment in prompt.segments() if segment.kind == "answer"]
    assert (answer.text, answer.role, answer.message, answer.tokens) == ("<x>hm</x>A", "assistant", 1, 3)
    assert shares_of(prompt)["history"] == len("Q") + 3


def test_definitions_of_tools_are_told_from_the_system_message_by_their_length() -> None:
    """Where a template has no place of its own for them, both are one segment."""
    tool = Tool(name="clock", description="Tells the time of day", parameters="{}")
    long = seen((said("system", "s" * 4000), said("user", "Q")), tools=(tool,))
    assert [segment.role for segment in long.segments() if segment.kind == "text"] == ["system", "user"]
    short = seen((said("user", "Q"),), tools=(tool,))
    assert [segment.role for segment in short.segments() if segment.kind == "text"] == ["tools", "user"]
    assert set(shares_of(short)) == {"template", "tools", "question"}


def test_what_an_answer_goes_on_from_is_a_share_of_its_own() -> None:
    """In however many pieces the worker got it."""
    prompt = seen((said("user", "Q"),), begun="So far")
    assert prompt.segments()[-1].text == "So far"
    assert shares_of(prompt)["begun"] == len("So far")


def test_tokens_of_the_engine_stand_before_all() -> None:
    """What each part has is not touched by it."""
    bare, added = seen((said("user", "Q"),)), seen((said("user", "Q"),), added=1)
    first, *rest = added.segments()
    assert (first.kind, first.text, first.tokens) == ("scaffold", "<s>", 1)
    assert rest == bare.segments()


@given(st.integers(0, 60), st.booleans())
def test_what_is_reused_is_a_beginning(reused: int, has_begun: bool) -> None:
    """Each segment has its part of it, in their order."""
    segments = seen((said("user", "Q"),), begun="So far" if has_begun else "", reused=reused).segments()
    left = reused
    for segment in segments:
        assert segment.tokens is not None
        taken = min(left, segment.tokens)
        assert segment.reused == taken
        left -= taken


@pytest.mark.parametrize("told", [None, (), (1,), (1, 1, 10_000)])
def test_counts_that_cannot_be_right_are_not_shown(told: tuple[int, ...] | None) -> None:
    """Nothing is claimed then, and a note says so."""
    prompt = seen((said("user", "Q"),))
    assert prompt.accepted is not None
    doubtful = attrs.evolve(prompt, accepted=attrs.evolve(prompt.accepted, segment_tokens=told))
    assert {segment.tokens for segment in doubtful.segments()} == {None}
    assert doubtful.shares() is None
    assert doubtful.to_dict()["notes"] == ["The engine does not tell how many tokens each part has."]
