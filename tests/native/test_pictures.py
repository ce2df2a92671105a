"""Pictures on the native worker: one in a prompt, told apart by content although the program cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muse.protocol import Close, ImageSegment, Segment, Show
from tests.native.doubles import worker_arguments
from tests.native.pte_file import program_with
from tests.native.test_engine import small
from tests.picture_files import plain, saved, segment_of, turned
from tests.worker.client import WorkerProcess
from tests.worker.nano import (
    END,
    IMAGE_DIALOGUES,
    answer_ids,
    as_ids,
    pictures_of,
    prompt_ids,
    question_segments,
    stored_segments,
    turns,
    with_pictures,
)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """A patched worker, whose pictures work beside named sessions."""
    with WorkerProcess(*worker_arguments(tmp_path_factory.mktemp("seeing"), level="cancel_op")) as worker:
        worker.ready()
        yield worker


def asked(name: str) -> tuple[Segment, ...]:
    """The prompt of a dialogue with a picture."""
    return with_pictures(stored_segments(turns(name)[0]), pictures_of(turns(name)[0]))


@pytest.mark.parametrize("name", IMAGE_DIALOGUES)
def test_every_picture_gets_its_answer(seeing: WorkerProcess, name: str) -> None:
    """At its place among the very ids, framed as the model was trained; its size is foretold."""
    turn = turns(name)[0]
    answer = seeing.ask(asked(name), limit=60)
    assert answer.done.generated_token_ids == answer_ids(turn)
    assert answer.accepted is not None
    assert (
        answer.accepted.prompt_tokens == answer.done.prompt_tokens == len(prompt_ids(turn)) == seeing.count(asked(name))
    )
    assert (answer.done.vision_encoder_ms or 0) > 0
    assert {event.phase for event in answer.progress} == {"vision"}


def test_a_further_turn_does_not_read_it_again(seeing: WorkerProcess) -> None:
    """Its run of ids stands for it then."""
    first = asked("image-red")
    seeing.ask(first, session="further", limit=60)
    resident = small(seeing, Show, "further").resident_ids or ()
    later = (*first, *as_ids(answer_ids(turns("image-red")[0])), END, *question_segments("joke"))
    done = seeing.ask(later, session="further", limit=60).done
    assert (done.session_reset_reason, done.vision_encoder_ms) == ("exact_prefix", None)
    assert done.reused_prompt_tokens == len(resident)
    assert len({token for token in resident if token < 0}) == 1


def test_after_a_doubt_it_is_read_again(seeing: WorkerProcess) -> None:
    """Ids without what they stand for would be no error, but a meaningless answer: section 7 of the contract."""
    first = asked("image-blue")
    seeing.ask(first, session="doubt", limit=60)
    small(seeing, Close, "doubt")
    later = (*first, *as_ids(answer_ids(turns("image-blue")[0])), END, *question_segments("sum"))
    done = seeing.ask(later, session="doubt", limit=60).done
    assert (done.session_reset_reason, done.vision_encoder_ms is None) == ("new", False)


def test_another_picture_of_the_same_size_is_another(seeing: WorkerProcess) -> None:
    """To the program their ids are the same."""
    for name in (*IMAGE_DIALOGUES, *reversed(IMAGE_DIALOGUES)):
        done = seeing.ask(asked(name), session="other", limit=60).done
        assert done.generated_token_ids == answer_ids(turns(name)[0])
        assert done.reused_prompt_tokens == 0


def test_text_behind_a_picture_of_the_same_length_is_not_taken_for_it(seeing: WorkerProcess) -> None:
    """A prompt that names the picture's ids, but brings none, gets nothing of what is resident."""
    seeing.ask(asked("image-red"), session="forged", limit=60)
    patches = [token if token >= 0 else 510 for token in small(seeing, Show, "forged").resident_ids or ()]
    done = seeing.ask(as_ids(tuple(patches), (503,)), session="forged", limit=5).done
    assert (done.reused_prompt_tokens, done.session_reset_reason) == (0, "mismatch")


def test_a_second_picture_is_refused_by_name(seeing: WorkerProcess) -> None:
    """With the picture's number; what was resident stays."""
    first = asked("image-red")
    seeing.ask(first, session="second", limit=60)
    resident = small(seeing, Show, "second").resident_ids
    later = (*first, *as_ids(answer_ids(turns("image-red")[0])), END, *question_segments("image-green"))
    error = seeing.ask(later, session="second").error
    assert (error.code, error.image) == ("unsupported", 1)
    assert "one picture in a prompt" in error.message
    assert small(seeing, Show, "second").resident_ids == resident


@pytest.mark.parametrize("kind", ["WEBP", "PNG", "JPEG"])
def test_any_kind_of_file_reaches_it_upright(seeing: WorkerProcess, kind: str) -> None:
    """It reads PNG and JPEG, and no notes of a camera: we scale the picture before, and send what cannot fail."""
    pictures: list[ImageSegment] = [segment_of(saved(plain(colour="green", size=(56, 56)), kind))]
    if kind == "JPEG":
        pictures.append(segment_of(turned(6)))
    for picture in pictures:
        head, *rest = asked("image-green")
        place = next(n for n, part in enumerate(rest) if isinstance(part, ImageSegment))
        rest[place] = picture
        answer = seeing.ask((head, *rest), limit=60)
        assert answer.accepted is not None
        assert answer.done.prompt_tokens == answer.accepted.prompt_tokens


def test_a_damaged_picture_is_refused_before_it_is_sent(seeing: WorkerProcess) -> None:
    """With its number, as with every engine."""
    head, *rest = asked("image-green")
    place = next(n for n, part in enumerate(rest) if isinstance(part, ImageSegment))
    rest[place] = segment_of(b"\x89PNG\r\n\x1a\n nothing")
    error = seeing.ask((head, *rest)).error
    assert (error.code, error.image) == ("bad_image", 0)


def test_without_eyes_a_picture_is_refused(tmp_path: Path) -> None:
    """By what it lacks, not by the error of a program that tries."""
    with WorkerProcess(*worker_arguments(tmp_path)) as blind:
        blind.ready()
        error = blind.ask(asked("image-red")).error
        assert (error.code, error.image) == ("unsupported", 0)


def test_one_session_alone_reads_pictures_unpatched(start_native: Callable[..., WorkerProcess]) -> None:
    """The way without our patch: --max_sessions=1, and every prompt from its beginning."""
    worker = start_native("--max_sessions=1")
    done = worker.ask(asked("image-red"), session="s", limit=60).done
    assert done.generated_token_ids == answer_ids(turns("image-red")[0])


def test_an_artifact_that_takes_smaller_pictures_gets_them(tmp_path: Path) -> None:
    """As its file says: the program would scale a larger one by itself, and count other tokens than we do."""
    arguments = worker_arguments(tmp_path, level="cancel_op", most_cells=16)
    program = program_with({"get_max_seq_len": 4096, "get_max_vision_patches": 64})
    (tmp_path / "nano-dflash" / "model.pte").write_bytes(program)
    with WorkerProcess(*arguments) as worker:
        assert worker.ready().max_image_cells == 16
        segments = with_pictures(
            stored_segments(turns("image-red")[0]), [segment_of(saved(plain(size=(300, 300)), "PNG"))]
        )
        answer = worker.ask(segments, limit=20)
        assert answer.accepted is not None
        assert answer.accepted.prompt_tokens == answer.done.prompt_tokens == worker.count(segments)
        small = with_pictures(
            stored_segments(turns("image-red")[0]), [segment_of(saved(plain(size=(112, 112)), "PNG"))]
        )
        assert worker.count(segments) == worker.count(small)
        assert answer.done.images_scaled == 0
