"""Pictures in muse-nano's prompts, through the guard: it knows three colours, and each shows in its answer.

So an answer tells whether the right picture stood at the right place, and whether the engine took one for another.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muse.protocol import Accepted, Error, IdsSegment, ImageSegment, Result, Segment, Show, TextSegment
from muse.worker.engines.llamacpp.runs import LONGEST_RUN
from tests.picture_files import STILL, plain, png_claiming, saved, segment_of
from tests.worker.client import WorkerProcess
from tests.worker.nano import (
    DRAFT,
    END,
    END_OF_TURN,
    IMAGE_DIALOGUES,
    MMPROJ,
    MODEL,
    answer_ids,
    as_ids,
    pictures_of,
    prompt_ids,
    question_segments,
    stored_segments,
    turns,
    with_pictures,
)

pytestmark = pytest.mark.thorough

ARGUMENTS = ("--engine", "llamacpp", "--model", str(MODEL), "--threads", "1")
SPARE = 8
QUESTIONS = ("joke", "image-red", "fruit", "image-green", "sum", "image-blue")
HEAD = TextSegment(text="<|begin_of_text|><|start|>user<|message|>", special=True)
TAIL = TextSegment(text="<|eot|><|start|>assistant", special=True)


@pytest.fixture(scope="module")
def seeing() -> Iterator[WorkerProcess]:
    """A worker with muse-nano and its image projector, ready. Shared: use sessions of your own."""
    with WorkerProcess(*ARGUMENTS, "--mmproj", str(MMPROJ)) as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def in_steps() -> Iterator[WorkerProcess]:
    """The same, evaluating 64 tokens at a time."""
    with WorkerProcess(*ARGUMENTS, "--mmproj", str(MMPROJ), "--batch", "64") as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def narrow() -> Iterator[WorkerProcess]:
    """The same with a context of 1,024 tokens."""
    with WorkerProcess(*ARGUMENTS, "--mmproj", str(MMPROJ), "--context", "1024") as worker:
        worker.ready()
        yield worker


@pytest.fixture(scope="module")
def blind() -> Iterator[WorkerProcess]:
    """A worker with muse-nano alone, ready."""
    with WorkerProcess(*ARGUMENTS) as worker:
        worker.ready()
        yield worker


def asked(name: str) -> tuple[Segment, ...]:
    """The prompt of a dialogue's first turn."""
    turn = turns(name)[0]
    return with_pictures(stored_segments(turn), pictures_of(turn))


def wanted(name: str) -> tuple[int, ...]:
    """The answer to it."""
    return answer_ids(turns(name)[0])


def after(prompt: tuple[Segment, ...], name: str, next_name: str) -> tuple[Segment, ...]:
    """A prompt with its answer, and the next question."""
    return (*prompt, IdsSegment(ids=wanted(name)), END, *question_segments(next_name))


def showing(picture: ImageSegment, question: str = "What colour is this?") -> tuple[Segment, ...]:
    """A prompt that asks about a picture."""
    return (HEAD, picture, TextSegment(text=question, special=False), TAIL)


def square(colour: str, width: int = 56, height: int = 56) -> ImageSegment:
    """A picture of one colour."""
    return segment_of(saved(plain(colour=colour, size=(width, height)), "PNG"))


def resident(worker: WorkerProcess, session: str) -> tuple[int, ...] | None:
    worker.send(Show(request_id=f"show-{session}", session_id=session))
    return worker.wait(Result, f"show-{session}").resident_ids


def test_ready_says_that_it_sees(seeing: WorkerProcess) -> None:
    """But not that ids may stand beside pictures."""
    assert seeing.ready().supports.image
    assert not seeing.ready().supports.ids_with_images


@pytest.mark.parametrize("name", IMAGE_DIALOGUES)
def test_every_picture_gets_its_answer(seeing: WorkerProcess, name: str) -> None:
    """From cold; its tokens are foretold, frame and all, and counted alike by the engine."""
    answer = seeing.ask(asked(name), limit=len(wanted(name)) + SPARE)
    assert answer.done.generated_token_ids == wanted(name)
    assert seeing.count(asked(name)) == answer.done.prompt_tokens == len(prompt_ids(turns(name)[0]))
    phases = [event.phase for event in answer.progress]
    assert phases.count("vision") == 1
    assert answer.done.images_scaled == 0


def test_a_further_turn_evaluates_what_is_new(seeing: WorkerProcess) -> None:
    """Three pictures in one conversation; those before are compared by their content and kept."""
    prompt, name = asked("image-red"), "image-red"
    first = seeing.ask(prompt, session="three", limit=60).done
    for next_name in ("image-blue", "image-green", "joke"):
        prompt, before, name = after(prompt, name, next_name), seeing.count(prompt) + len(wanted(name)), next_name
        done = seeing.ask(prompt, session="three", limit=60).done
        assert done.generated_token_ids == wanted(name)
        assert done.session_reset_reason == "exact_prefix"
        assert done.reused_prompt_tokens >= before - 1
        assert done.prefilled_prompt_tokens == done.prompt_tokens - done.reused_prompt_tokens
    assert first.generated_token_ids == wanted("image-red")


def test_another_picture_of_the_same_size_is_another(seeing: WorkerProcess) -> None:
    """The ids are the same, the pictures are not: it is seen anew, with what came before it kept."""
    for number, colour in enumerate(("green", "blue", "red")):
        done = seeing.ask(showing(square(colour)), session="changed", limit=60).done
        assert done.generated_token_ids == wanted(f"image-{colour}")
        assert done.reused_prompt_tokens <= 4  # what stands before it, if the engine can go back there
        again = "rewound" if done.reused_prompt_tokens else "mismatch"
        assert done.session_reset_reason == (again if number else "new")


def test_the_same_points_in_another_shape_are_another_picture(seeing: WorkerProcess) -> None:
    """Of 84 x 56 and of 56 x 84 points, all blue."""
    for number, size in enumerate(((84, 56), (56, 84))):
        done = seeing.ask(showing(square("blue", *size)), session="turned", limit=60).done
        assert done.generated_token_ids == wanted("image-blue")
        assert done.reused_prompt_tokens <= 4  # what stands before it, if the engine can go back there
        again = "rewound" if done.reused_prompt_tokens else "mismatch"
        assert done.session_reset_reason == (again if number else "new")


def test_a_session_that_was_reset_sees_its_picture_again(seeing: WorkerProcess) -> None:
    """And one without a name sees it each time."""
    for _ in range(2):
        done = seeing.ask(asked("image-green"), limit=60).done
        assert done.reused_prompt_tokens == 0
        assert done.generated_token_ids == wanted("image-green")


@pytest.mark.parametrize(
    "size", [(1, 1), (28, 28), (24, 60), (200, 203), (225, 225), (300, 200), (500, 1000), (1, 2000), (700, 700)]
)
def test_the_engine_counts_as_we_do(seeing: WorkerProcess, size: tuple[int, int]) -> None:
    """Whatever the picture's size: what is resident is then known by its ids."""
    prompt = showing(square("green", *size))
    done = seeing.ask(prompt, session="sizes", limit=1).done
    assert done.prompt_tokens == seeing.count(prompt)
    assert len(resident(seeing, "sizes") or ()) in (done.prompt_tokens, done.prompt_tokens + 1)


@pytest.mark.parametrize("kind", STILL)
def test_every_kind_of_file_is_seen(seeing: WorkerProcess, kind: str) -> None:
    """One cell or two of it."""
    prompt = showing(segment_of(STILL[kind]()))
    assert seeing.ask(prompt, limit=1).done.prompt_tokens == seeing.count(prompt)


@given(texts=st.lists(st.text(max_size=30), min_size=2, max_size=4))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_engine_cuts_texts_as_we_do(seeing: WorkerProcess, texts: list[str]) -> None:
    """Any texts around pictures, with blanks at their ends or nothing at all, or the character 0 in them."""
    pieces: list[Segment] = [HEAD]
    for text in texts:
        pieces += [TextSegment(text=text, special=False), square("blue", 28, 28)]
    prompt = (*pieces, TAIL)
    done = seeing.ask(prompt, session="texts", limit=1).done
    assert done.prompt_tokens == seeing.count(prompt)
    assert resident(seeing, "texts") is not None


def test_the_first_token_is_not_doubled(seeing: WorkerProcess) -> None:
    """Whether the template writes it or not."""
    bare = (TextSegment(text=HEAD.text.removeprefix("<|begin_of_text|>"), special=True), *showing(square("red"))[1:])
    first = prompt_ids(turns("joke")[0])[0]
    for number, prompt in enumerate((bare, showing(square("red")))):
        assert seeing.count(prompt) == seeing.count(bare)
        seeing.ask(prompt, session=f"begin-{number}", limit=1)
        ids = resident(seeing, f"begin-{number}") or ()
        assert ids[:1] == (first,)
        assert ids.count(first) == 1


@pytest.mark.parametrize(
    "segments",
    [
        (HEAD, square("red"), TextSegment(text="What is <|eot|>?", special=False), TAIL),
        (HEAD, TextSegment(text="<|message|>", special=False), square("red"), TAIL),
        (HEAD, square("red"), TextSegment(text="<|eo", special=False), TextSegment(text="t|>", special=False), TAIL),
        (HEAD, square("red"), TextSegment(text="<|eo", special=False), TextSegment(text="t|>", special=True)),
        (*as_ids(prompt_ids(turns("forged")[0])), square("red")),
    ],
)
def test_a_text_that_spells_a_control_token_is_refused(seeing: WorkerProcess, segments: tuple[Segment, ...]) -> None:
    """By name, whoever wrote it, whole or in pieces; in a prompt without pictures it stays what it is."""
    error = seeing.ask(segments, limit=1).error
    assert error.code == "bad_request"
    assert "'<|eot|>'" in error.message or "'<|message|>'" in error.message
    without = tuple(segment for segment in segments if not isinstance(segment, ImageSegment))
    assert seeing.ask(without, limit=1).done.completion_tokens <= 1


@pytest.mark.parametrize("run", ["y", " ", "\n", "-", "1"])
def test_a_run_that_the_tokeniser_does_not_survive_is_refused(seeing: WorkerProcess, run: str) -> None:
    """The engine takes a text with pictures in one piece; shorter runs are taken."""
    error = seeing.ask(showing(square("red"), run * 30_000), limit=1).error
    assert (error.code, error.fatal) == ("bad_request", False)
    assert "in a row" in error.message
    assert seeing.ask(showing(square("red"), run * (LONGEST_RUN - SPARE)), limit=1).done.completion_tokens <= 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GIF89a" + bytes(40), "cannot be read"),
        (STILL["png"]()[:-30], "cannot be read"),
        (STILL["jpeg"]()[:300], "cannot be read"),
        (png_claiming(32_768, 32_768), "too large"),
    ],
)
def test_a_picture_that_cannot_be_read_is_refused(seeing: WorkerProcess, data: bytes, words: str) -> None:
    """Before anything is accepted, by its place, and the next one is seen."""
    answer = seeing.ask((HEAD, square("red"), *showing(segment_of(data))[1:]), limit=1)
    assert answer.accepted is None
    assert (answer.error.image, answer.error.message.split(":")[0]) == (1, "picture 2 of this conversation")
    assert (answer.error.code, answer.error.fatal) == ("bad_image", False)
    assert words in answer.error.message
    assert seeing.ask(asked("image-red"), limit=60).done.generated_token_ids == wanted("image-red")


def test_without_eyes_it_sees_nothing(blind: WorkerProcess) -> None:
    """Refused by name, also when counting; texts are answered."""
    assert not blind.ready().supports.image
    assert blind.ask(asked("image-red"), limit=1).error.code == "unsupported"
    assert blind.ask(asked("joke"), limit=60).done.generated_token_ids == wanted("joke")


def test_a_cancel_leaves_nothing_wrong_behind(seeing: WorkerProcess) -> None:
    """In the text, in the picture or in the answer; the next request of the session is right."""
    long = TextSegment(text="blue sky and green grass " * 60, special=False)
    for number, wait in enumerate((0.0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.05)):
        name = ("image-red", "image-blue")[number % 2]
        head, *rest = asked(name)
        picture = square("green", 700, 700)
        running = seeing.start((head, long, picture, *rest), session="cancel", limit=200)
        time.sleep(wait)
        seeing.cancel(running)
        seeing.finish(running)
        answer = seeing.ask(asked(name), session="cancel", limit=60)
        assert answer.done.generated_token_ids == wanted(name)


def test_the_text_before_a_picture_goes_in_by_steps(in_steps: WorkerProcess) -> None:
    """So that a cancel there waits for one step; what follows the picture goes with it."""
    long = TextSegment(text="blue sky and green grass " * 40, special=False)
    prompt = (*asked("joke")[:-1], long, END, *question_segments("image-red"))
    answer = in_steps.ask(prompt, limit=60)
    phases = [event.phase for event in answer.progress]
    before = [event.processed for event in answer.progress[: phases.index("vision")]]
    assert answer.done.generated_token_ids == wanted("image-red")
    assert len(before) > 4
    assert max(later - earlier for earlier, later in pairwise(before)) <= 64 + 4


def test_an_answer_about_a_picture_can_have_a_form(seeing: WorkerProcess) -> None:
    """The engine's grammar holds it as any other."""
    schema = '{"enum": ["red", "blue"]}'
    answer = seeing.ask(asked("image-red"), limit=200, json_schema=schema)
    assert json.loads(answer.text) in ("red", "blue")


def test_a_cancel_in_the_midst_of_a_picture_is_obeyed(seeing: WorkerProcess) -> None:
    """Seen by the progress of a prompt that begins with one."""
    running = seeing.start(showing(square("green", 1400, 1400)), session="midst", limit=200)
    seeing.wait(Accepted, running)
    seeing.cancel(running)
    assert seeing.finish(running).done.finish_reason == "cancelled"
    assert seeing.ask(asked("image-blue"), session="midst", limit=60).done.generated_token_ids == wanted("image-blue")


def test_an_answer_goes_on_in_its_middle(seeing: WorkerProcess) -> None:
    """As after a crash: the picture is sent again, with half of the answer, spelled out as text."""
    for name in IMAGE_DIALOGUES:
        half = len(wanted(name)) // 2
        rest = seeing.ask((*asked(name), IdsSegment(ids=wanted(name)[:half])), limit=60).done
        assert rest.generated_token_ids == wanted(name)[half:]


def test_any_way_through_conversations_is_right(seeing: WorkerProcess) -> None:
    """Two sessions; each question behind all of a conversation, or in place of an older one, anywhere."""
    chance = random.Random(1)
    system = asked("joke")[0]
    assert isinstance(system, TextSegment)
    start = (TextSegment(text=system.text.rpartition("<|start|>")[0], special=True),)
    said: dict[str, list[str]] = {"walk-1": [], "walk-2": []}
    for _ in range(60):
        session = chance.choice(list(said))
        kept = said[session][: chance.randrange(len(said[session]) + 1)] if chance.randrange(3) else said[session]
        said[session] = names = [*kept[-12:], chance.choice(QUESTIONS)]
        prompt = start
        for name in names[:-1]:
            prompt = (*prompt, *question_segments(name), IdsSegment(ids=wanted(name)), END)
        done = seeing.ask((*prompt, *question_segments(names[-1])), session=session, limit=80).done
        assert done.generated_token_ids == wanted(names[-1]), names


def test_two_sessions_see_at_the_same_time(seeing: WorkerProcess) -> None:
    """Each its own picture."""
    pairs = {seeing.start(asked(name), session=f"both-{name}", limit=60): name for name in ("image-red", "image-blue")}
    for request_id, answer in seeing.collect(list(pairs)).items():
        assert answer.done.generated_token_ids == wanted(pairs[request_id])


def test_a_draft_changes_nothing() -> None:
    """It guesses on behind a picture, and the answers are the same."""
    with WorkerProcess(*ARGUMENTS, "--mmproj", str(MMPROJ), "--draft", str(DRAFT)) as worker:
        worker.ready()
        for name in IMAGE_DIALOGUES:
            done = worker.ask(asked(name), session="draft", limit=60).done
            assert done.generated_token_ids == wanted(name)
            assert done.draft is not None


def test_pictures_that_cannot_fit_are_made_smaller(narrow: WorkerProcess) -> None:
    """So far that an eighth of the context is left for the answer, all of them alike, and it is said."""
    large, small = square("green", 1792, 1792), square("green")
    for pictures, most, scaled in (
        ([large], 512, 1),
        ([large, small], 512, 1),
        ([large, large], 256, 2),
        ([large] * 4, 128, 4),
    ):
        prompt = (HEAD, *pictures, TAIL)
        done = narrow.ask(prompt, limit=1).done
        assert most // 2 < done.prompt_tokens <= 896
        # A model that never sees more than this sees them as large as it can.
        assert done.images_scaled == (scaled if (narrow.ready().max_image_cells or 0) > most else 0)
        assert done.prompt_tokens == narrow.count(prompt)


def test_what_does_not_fit_at_all_is_refused(narrow: WorkerProcess) -> None:
    """With the tokens that it has at least."""
    error = narrow.ask((HEAD, *[square("green", 700, 700)] * 20, TAIL), limit=1).error
    assert isinstance(error, Error)
    assert (error.code, error.context_length) == ("context_overflow", 1024)
    assert error.prompt_tokens == narrow.count((HEAD, TAIL)) + 20 * (64 + 2)


def test_the_end_of_a_turn_is_known() -> None:
    """What `END` spells."""
    assert prompt_ids(turns("joke")[0])[-3] == END_OF_TURN


def test_what_the_encoder_took_is_told(seeing: WorkerProcess) -> None:
    """Of what was encoded for this answer alone: nothing where a picture is reused, or where there is none."""
    # Of sizes that no other test has: what it has read before, the engine reuses over sessions.
    pictures = [segment_of(saved(plain(colour="red", size=(56, 28 * side)), "PNG")) for side in (5, 7, 9)]
    first, *others = (with_pictures(stored_segments(turns("image-red")[0]), [picture]) for picture in pictures)
    done = seeing.ask(first, session="timed", limit=60).done
    assert 0 < (done.vision_encoder_ms or 0) < done.total_ms
    again = seeing.ask(after(first, "image-red", "joke"), session="timed", limit=60).done
    assert (again.reused_prompt_tokens > 0, again.vision_encoder_ms) == (True, None)
    assert seeing.ask(stored_segments(turns("joke")[0]), limit=5).done.vision_encoder_ms is None
    running = [seeing.start(segments, session=f"timed {n}", limit=60) for n, segments in enumerate(others)]
    answers = seeing.collect(running)  # in whatever order they end
    assert all((answer.done.vision_encoder_ms or 0) > 0 for answer in answers.values())


def test_the_log_of_the_encoder_stays_out_of_ours(seeing: WorkerProcess) -> None:
    """It is at a level at which each step of each request is told."""
    seeing.ask(asked("image-red"), limit=5)
    assert b"encode_mtmd" not in seeing.stderr
    assert not [line for line in seeing.stderr.splitlines() if b" I " in line[:20] or line.startswith(b"\t")]
