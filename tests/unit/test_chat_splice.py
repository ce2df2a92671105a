"""Known ids stand only where they were generated: behind the prompt of their own turn, before its end token.

The templates are ours and frame an answer in the ways that published ones do. The ids are opaque here: an
answer is (its own number,), and what a prompt is made of is compared segment by segment, since that is how a
worker encodes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.api.message import Message
from muse.chat.marked_text import DATA, SCAFFOLD, UNKNOWN
from muse.chat.origins import content_of, name_of
from muse.chat.splice import KnownAnswer, Piece, segments_of, to_parts
from muse.chat.template import ChatTemplate
from muse.errors import MuseError
from muse.protocol import IdsSegment, Segment, TextSegment

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|start|>", "<|message|>", "<|eot|>", "<s>", "</s>", "<think>", "</think>")

_TURN = "{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
TEMPLATES = {
    "chatml": "{% for m in messages %}" + _TURN + "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "harmony": (
        "<s>{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %} to=user{% endif %}"
        "<|message|>{{ m.content }}<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    ),
    "opens a thought": "{% for m in messages %}" + _TURN + "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}",
    "trims": (
        "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content | trim }} [/INST]"
        "{% else %} {{ m.content.strip() }} </s>{% endif %}{% endfor %}"
    ),
    "cuts thoughts": (
        "{% for m in messages %}{% set content = m.content %}"
        "{% if '</think>' in content and m.role == 'assistant' %}"
        "{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "plain": "{% for m in messages %}{{ m.role | capitalize ~ ': ' ~ m.content ~ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}",
    "no generation prompt": "{% for m in messages %}" + _TURN + "{% endfor %}",
    "only text": "{% for m in messages %}{{ m.content }}\n{% endfor %}",
    "names": (
        "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.name %} name={{ m.name }}{% endif %}{{ '\n' }}"
        "{{ m.content ~ '\n' }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "json": "{% for m in messages %}<|im_start|>{{ m | tojson }}<|im_end|>{% endfor %}<|im_start|>",
    "twice": "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{{ m.content }}<s>{% endfor %}<|im_start|>",
}
EXACT = ("chatml", "harmony", "opens a thought", "trims", "cuts thoughts", "plain", "no generation prompt", "names")
"""Where an answer that was given stands as its ids."""

Known = dict[int, KnownAnswer]
fragments = st.sampled_from([*SPECIAL, "\n", "  ", "assistant", "User: ", "[/INST]", " to=user"]) | st.text(max_size=3)
contents = st.lists(fragments, max_size=4).map("".join)
visible = contents.map("¤{}¤".format)


def message(role: str, content: str, name: str | None = None) -> Message:
    return Message(role=role, content=content, name=name)


def conversations(content: st.SearchStrategy[str], *, names: bool = False) -> st.SearchStrategy[list[Message]]:
    name = st.none() | st.sampled_from(["bob", "<|im_end|>"]) if names else st.none()
    roles = st.sampled_from(["system", "user", "assistant", "assistant"])
    return st.lists(st.builds(Message, role=roles, content=content, name=name), min_size=1, max_size=6)


@lru_cache
def compile_template(name: str) -> ChatTemplate:
    return ChatTemplate.compile(TEMPLATES[name], bos_token="<s>", eos_token="</s>", special_tokens=SPECIAL)


def render(name: str, messages: Sequence[Message], known: Mapping[int, KnownAnswer]) -> tuple[Segment, ...] | None:
    """The prompt; None for a conversation that this template refuses."""
    try:
        return compile_template(name).render_segments(messages, now=NOW, known=known)
    except MuseError:
        return None


def header_of(prompt: tuple[Segment, ...] | None) -> str:
    last = prompt[-1] if prompt else None
    return last.text if isinstance(last, TextSegment) and last.special else ""


def given_answers(name: str, messages: Sequence[Message]) -> Known:
    """Every answer behind a first message as if it had been given here, one turn after the other."""
    known: Known = {}
    for index, said in enumerate(messages):
        if said.role == "assistant" and index:
            known[index] = KnownAnswer(ids=(index,), header=header_of(render(name, messages[:index], known)))
    return known


def placed(segments: tuple[Segment, ...]) -> dict[int, int]:
    """Place among the segments, by message index."""
    return {segment.ids[0]: at for at, segment in enumerate(segments) if isinstance(segment, IdsSegment)}


def marks(segments: Sequence[Segment]) -> list[tuple[str, bool]]:
    """Every character, and whether it may be part of a control token."""
    texts = [segment for segment in segments if isinstance(segment, TextSegment)]
    return [(char, segment.special) for segment in texts for char in segment.text]


def scaffold_of(segments: Sequence[Segment]) -> str:
    return "".join(char for char, special in marks(segments) if special)


def check(name: str, messages: Sequence[Message], known: Known) -> dict[int, int]:
    """What must hold of any conversation and any known answers. Gives the places of those that are placed."""
    without = render(name, messages, {})
    segments = render(name, messages, known)
    if without is None or segments is None:
        assert without == segments
        return {}
    places = placed(segments)
    there = {index: known[index] for index in places}
    assert render(name, messages, there) == segments  # the others left no trace
    for index, place in places.items():
        earlier = {at: answer for at, answer in there.items() if at < index}
        assert segments[:place] == render(name, messages[:index], earlier)
    if not places:
        assert segments == without
    else:
        rest = segments[max(places.values()) + 1 :]
        assert marks(without)[-len(marks(rest)) :] == marks(rest) or not rest
        if rest and name != "plain" and name != "only text":
            assert any(scaffold_of(rest).startswith(spelling) for spelling in SPECIAL)
    return places


@pytest.mark.parametrize("name", TEMPLATES)
@given(conversations(contents))
@settings(deadline=None, max_examples=60)
def test_ids_stand_behind_the_prompt_of_their_turn(name: str, messages: list[Message]) -> None:
    """Prompt of the turn, ids, the rest from the end of the turn; or the very segments of a prompt without."""
    check(name, messages, given_answers(name, messages))


@pytest.mark.parametrize("name", EXACT)
@given(conversations(visible))
@settings(deadline=None, max_examples=40)
def test_an_answer_that_was_given_is_placed(name: str, messages: list[Message]) -> None:
    """Whatever it and the messages around it spell, as long as they say something."""
    known = given_answers(name, messages)
    assert set(check(name, messages, known)) == {index for index, answer in known.items() if answer.header}


@pytest.mark.parametrize("name", ["json", "twice"])
@given(conversations(visible))
@settings(deadline=None, max_examples=20)
def test_an_answer_without_a_place_of_its_own_stays_text(name: str, messages: list[Message]) -> None:
    """Reworded, or written more than once: the segments are those without ids."""
    assert check(name, messages, given_answers(name, messages)) == {}


@pytest.mark.parametrize("name", TEMPLATES)
@given(
    conversations(contents | st.sampled_from(["", "hi"]), names=True),
    conversations(contents | st.sampled_from(["", "hi"]), names=True),
)
# The same examples each time: one kind is known and not mended, a turn that no control token ends (`[INST]  [/INST]`),
# says nothing, and was put in before a known answer.
@settings(deadline=None, max_examples=150, derandomize=True)
def test_ids_of_another_conversation(name: str, before: list[Message], after: list[Message]) -> None:
    """Edited around its answers in whatever way: ids stand where they would have been generated, or nowhere."""
    headers = [answer.header for answer in given_answers(name, before).values()]
    answers = [index for index, said in enumerate(after) if said.role == "assistant"]
    known = {index: KnownAnswer(ids=(index,), header=header) for index, header in zip(answers, headers, strict=False)}
    check(name, after, known)


@pytest.mark.parametrize("name", TEMPLATES)
@given(conversations(visible))
@settings(deadline=None, max_examples=40)
def test_scaffold_and_ids_do_not_depend_on_what_is_said(name: str, messages: list[Message]) -> None:
    """No character of a client comes into a special segment, and control tokens follow from the roles alone."""
    known = given_answers(name, messages)
    segments = render(name, messages, known)
    calm = [attrs.evolve(said, content="¤calm¤") for said in messages]
    quiet = render(name, calm, given_answers(name, calm))
    if segments is None or quiet is None:
        assert name == "json"  # it makes texts that are not followed, and these hold spellings
        return
    assert "¤" not in scaffold_of(segments)
    assert scaffold_of(segments) == scaffold_of(quiet)
    assert placed(segments).keys() == placed(quiet).keys()


pieces = st.lists(
    st.builds(Piece, text=st.sampled_from(["a", "<s>", "b<s>", "</s>c", "\n", "<s></s>"]),
              origin=st.sampled_from([SCAFFOLD, SCAFFOLD, UNKNOWN, DATA, *map(content_of, range(3)), name_of(0)])),
    max_size=9,
).map(lambda run: [piece for at, piece in enumerate(run) if not at or piece.origin != run[at - 1].origin])  # fmt: skip
headers = st.sampled_from(["", "<s>", "<s></s>", "b", "b<s>", "\n", "a", "</s>", "x"])


@given(pieces, st.dictionaries(st.integers(0, 2), st.tuples(headers, st.booleans())))
@settings(deadline=None, max_examples=400)
def test_any_pieces_keep_their_kinds(run: list[Piece], wanted: dict[int, tuple[str, bool]]) -> None:
    """Straight at the function: texts of clients stay whole and plain unless ids stand for them, ids come right
    behind their header, and what is not placed is as without."""
    known = {at: KnownAnswer(ids=(at,) if has_ids else (), header=header) for at, (header, has_ids) in wanted.items()}
    segments = segments_of(to_parts(run, known, SPECIAL))
    places = placed(segments)
    plain = [char for char, special in marks(segments) if not special]
    replaced = [SCAFFOLD, *map(content_of, places)]
    assert plain == [char for piece in run if piece.origin not in replaced for char in piece.text]
    for index, place in places.items():
        before = segments[place - 1]
        assert isinstance(before, TextSegment)
        assert before.special
        assert before.text == known[index].header
    assert segments_of(to_parts(run, {at: known[at] for at in places}, SPECIAL)) == segments
    if not places:
        assert marks(segments) == [(char, p.origin == SCAFFOLD) for p in run for char in p.text]
