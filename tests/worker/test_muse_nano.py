"""muse-nano, a tiny model of Muse Glimmer's architecture, through the guard: it recites what it knows, exactly.

Its answers show whether prompts reach the model as they should: a wrong token, a window that is cut at the wrong
place or a cache that holds something else makes another answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from muse.api.message import Message
from muse.api.template_options import TemplateOptions
from muse.chat.splice import KnownAnswer
from muse.chat.template import ChatTemplate
from muse.protocol import Accepted, IdsSegment, Result, Show, TextSegment
from tests.worker.client import WorkerProcess
from tests.worker.nano import (
    DATE,
    DIALOGUES,
    DRAFT,
    END_OF_TURN,
    FOLDER,
    LONG_DIALOGUES,
    MODEL,
    PLAIN_DIALOGUES,
    TEXT_DIALOGUES,
    WINDOW,
    answer_ids,
    as_ids,
    prompt_ids,
    question_ids,
    stored_segments,
    turns,
)

pytestmark = pytest.mark.thorough

NOW = datetime.fromisoformat(DATE)
HEADER = "<|eot|><|start|>assistant"
SPARE = 8
"""More tokens than an answer has, so that one that does not end is seen."""
SPACING = 4096 // 32
"""A checkpoint is never farther away than this: the engine keeps 32 of them for its context."""
CONVERSATION = ("sum", "joke", "code", "list", "table", "fruit", "story", "count", "compare", "plan", "german", "emoji")


@pytest.fixture(scope="module", params=[(), ("--draft", str(DRAFT))], ids=["alone", "with draft"])
def nano(request: pytest.FixtureRequest) -> Iterator[WorkerProcess]:
    """A worker with muse-nano, ready, and one whose draft guesses ahead. Shared: use sessions of your own."""
    with WorkerProcess("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1", *request.param) as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def template(nano: WorkerProcess) -> ChatTemplate:
    """The template that the model brings."""
    ready = nano.ready()
    assert ready.chat_template
    return ChatTemplate.compile(ready.chat_template, bos_token=ready.bos_token, special_tokens=ready.special_tokens)


def resident(worker: WorkerProcess, session: str) -> tuple[int, ...] | None:
    worker.send(Show(request_id=f"show-{session}", session_id=session))
    return worker.wait(Result, f"show-{session}").resident_ids


def options_of(name: str) -> TemplateOptions:
    return TemplateOptions(values=tuple(DIALOGUES[name]["options"].items()))


def test_ready_says_what_the_model_is(nano: WorkerProcess) -> None:
    """Its special tokens, of which the engine ends at two and runs through the end of a message."""
    ready = nano.ready()
    assert (ready.model_id, ready.context_length, ready.bos_token) == ("muse-nano-F16", 4096, "<|begin_of_text|>")
    assert END_OF_TURN in ready.eos_ids
    assert len(ready.eos_ids) == 2
    assert {"<|start|>", "<|message|>", "<|eom|>", "<|eot|>", "<|patch|>"} <= set(ready.special_tokens)


def test_the_template_is_in_both_forms_of_the_model(nano: WorkerProcess) -> None:
    """The GGUF file and the Hugging Face folder; the library leaves out the last line's end."""
    theirs = (FOLDER / "hf" / "chat_template.jinja").read_text(encoding="utf-8")
    assert nano.ready().chat_template == theirs.removesuffix("\n")


@pytest.mark.parametrize("name", TEXT_DIALOGUES)
def test_every_answer_is_the_known_one(nano: WorkerProcess, name: str) -> None:
    """From cold, by ids: each turn of each dialogue."""
    for turn in turns(name):
        answer = nano.ask(as_ids(prompt_ids(turn)), limit=len(answer_ids(turn)) + SPARE)
        assert answer.done.generated_token_ids == answer_ids(turn)
        assert answer.done.finish_reason == "stop"
        assert answer.done.reused_prompt_tokens == 0


@pytest.mark.parametrize("name", TEXT_DIALOGUES)
def test_text_becomes_the_ids_that_were_trained(nano: WorkerProcess, name: str) -> None:
    """The library cuts the segments as the model's own tokenizer does; the answer is the known one."""
    turn = turns(name)[-1]
    answer = nano.ask(stored_segments(turn), session=f"text-{name}", limit=len(answer_ids(turn)) + SPARE)
    assert answer.done.generated_token_ids == answer_ids(turn)
    assert (resident(nano, f"text-{name}") or ())[: len(prompt_ids(turn))] == prompt_ids(turn)


@pytest.mark.parametrize("name", PLAIN_DIALOGUES)
def test_our_template_engine_renders_the_known_prompt(template: ChatTemplate, name: str) -> None:
    """By the model's own template, what a user wrote kept apart."""
    turn = turns(name)[0]
    messages = [Message(role="user", content=message["content"]) for message in turn["messages"]]
    assert template.render_segments(messages, now=NOW, options=options_of(name)) == stored_segments(turn)


@pytest.mark.parametrize("name", sorted({*LONG_DIALOGUES} & {*PLAIN_DIALOGUES}))
def test_a_later_prompt_holds_the_exact_ids(nano: WorkerProcess, template: ChatTemplate, name: str) -> None:
    """Where the client's text of an answer stood: its ids as they were generated, the reasoning among them."""
    messages: list[Message] = []
    known: dict[int, KnownAnswer] = {}
    for turn in turns(name):
        messages += [Message(role="user", content=message["content"]) for message in turn["messages"]]
        segments = template.render_segments(messages, now=NOW, known=known)
        answer = nano.ask(segments, session=f"splice-{name}", limit=len(answer_ids(turn)) + SPARE)
        assert answer.done.prompt_tokens == len(prompt_ids(turn))
        assert answer.done.generated_token_ids == answer_ids(turn)
        assert (resident(nano, f"splice-{name}") or ())[: len(prompt_ids(turn))] == prompt_ids(turn)
        known[len(messages)] = KnownAnswer(ids=answer_ids(turn), header=HEADER)
        messages.append(Message(role="assistant", content=turn["answer"]["message"]["content"]))


@pytest.mark.parametrize("name", LONG_DIALOGUES)
def test_a_second_turn_is_warm_and_the_same(nano: WorkerProcess, name: str) -> None:
    """Only what is new is evaluated, tool results and all, and the answer is that of a cold start."""
    for number, turn in enumerate(turns(name)):
        answer = nano.ask(as_ids(prompt_ids(turn)), session=f"warm-{name}", limit=len(answer_ids(turn)) + SPARE)
        assert answer.done.generated_token_ids == answer_ids(turn)
        if number:
            before = turns(name)[number - 1]
            assert answer.done.session_reset_reason == "exact_prefix"
            assert answer.done.reused_prompt_tokens >= len(prompt_ids(before)) + len(answer_ids(before)) - 1
            assert answer.done.prefilled_prompt_tokens == len(prompt_ids(turn)) - answer.done.reused_prompt_tokens


def test_text_of_a_client_is_not_the_token_it_spells(nano: WorkerProcess, template: ChatTemplate) -> None:
    """The question about `<|eot|>` holds that as plain characters; as the token the question would end there."""
    segments = template.render_segments([Message(role="user", content="What does <|eot|> mean?")], now=NOW)
    forged = tuple(TextSegment(text=part.text, special=True) for part in segments if isinstance(part, TextSegment))
    assert nano.ask(segments, limit=60).done.generated_token_ids == answer_ids(turns("forged")[0])
    assert nano.count(forged) < nano.count(segments)


@pytest.mark.parametrize("batch", ["16", "64", "256"])
def test_the_step_of_a_prompt_changes_no_answer(batch: str) -> None:
    """Prompts of 700 tokens, twenty times the window, evaluated in steps of many sizes."""
    arguments = ("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1", "--batch", batch)
    with WorkerProcess(*arguments) as worker:
        worker.ready()
        for name in ("far-1", "far-2", "near-1", "near-2"):
            turn = turns(f"needle-{name}")[0]
            answer = worker.ask(as_ids(prompt_ids(turn)), limit=60)
            assert len(prompt_ids(turn)) > 6 * WINDOW
            assert answer.done.generated_token_ids == answer_ids(turn)


class Conversation:
    """All of CONVERSATION one after the other, in one session. places: where in `ids` each question begins."""

    def __init__(self, worker: WorkerProcess, session: str) -> None:
        self._worker = worker
        self._session = session
        first = turns("hello")[0]
        self.ids = (*prompt_ids(first), *answer_ids(first), END_OF_TURN)
        self.places: list[int] = []

    def ask(self, kept: int, name: str) -> tuple[str, int]:
        """Ask a question behind so many tokens of the conversation; its answer must be the known one. Gives the
        reason of the reuse, and how many tokens were evaluated that were resident before."""
        question, wanted = question_ids(name), answer_ids(turns(name)[0])
        segments = as_ids(self.ids[:kept], question)
        done = self._worker.ask(segments, session=self._session, limit=len(wanted) + SPARE).done
        assert done.generated_token_ids == wanted, name
        self.ids = (*self.ids[:kept], *question, *wanted, END_OF_TURN)
        return done.session_reset_reason, done.prefilled_prompt_tokens - len(question)

    def talk(self, times: int = 1) -> list[tuple[str, int]]:
        """Have it so many times; gives what `ask` gave."""
        results: list[tuple[str, int]] = []
        for name in CONVERSATION * times:
            self.places.append(len(self.ids))
            results.append(self.ask(len(self.ids), name))
        return results


def test_a_long_conversation_stays_warm(nano: WorkerProcess) -> None:
    """Every turn but the first evaluates what is new, and the end of the turn before."""
    conversation = Conversation(nano, "talk")
    results = conversation.talk()
    assert len(conversation.ids) > 30 * WINDOW
    assert {reason for reason, _ in results[1:]} == {"exact_prefix"}
    assert all(again <= 2 for _, again in results[1:])


def test_going_back_finds_a_checkpoint(nano: WorkerProcess) -> None:
    """Another question in place of an old one, however far back: the answer is right, and little of what came before
    it is evaluated again, since the engine keeps copies of the window."""
    conversation = Conversation(nano, "back")
    conversation.talk(times=2)
    for place in reversed(conversation.places[1::4]):
        reason, again = conversation.ask(place, "thanks")
        assert reason == "rewound"
        assert again <= SPACING


def test_the_same_question_again_costs_one_token(nano: WorkerProcess) -> None:
    """An answer seven windows long is forgotten, and given again."""
    prompt, wanted = prompt_ids(turns("count")[0]), answer_ids(turns("count")[0])
    first, second = (nano.ask(as_ids(prompt), session="again", limit=400).done for _ in range(2))
    assert len(wanted) > 6 * WINDOW
    assert first.generated_token_ids == second.generated_token_ids == wanted
    assert second.prefilled_prompt_tokens <= 8


def test_a_cancelled_prompt_leaves_nothing_wrong_behind(nano: WorkerProcess) -> None:
    """Cut off anywhere in a prompt of 700 tokens; the next request of the session goes on from there and is right."""
    wanted = turns("needle-far-1")[0]
    for wait in (0.0, 0.002, 0.005, 0.01, 0.02):
        running = nano.start(as_ids(prompt_ids(turns("needle-far-2")[0])), session="cancel", limit=60)
        nano.wait(Accepted, running)
        time.sleep(wait)
        nano.cancel(running)
        nano.finish(running)
        answer = nano.ask(as_ids(prompt_ids(wanted)), session="cancel", limit=60)
        assert answer.done.generated_token_ids == answer_ids(wanted)


def test_an_answer_goes_on_in_its_middle(nano: WorkerProcess) -> None:
    """As after a crash: prompt and half of the answer, and the other half comes."""
    prompt, wanted = prompt_ids(turns("story")[0]), answer_ids(turns("story")[0])
    half = len(wanted) // 2
    rest = nano.ask((*as_ids(prompt), IdsSegment(ids=wanted[:half])), limit=300).done
    assert rest.generated_token_ids == wanted[half:]
