"""The double keeps to the contract, oddities included: else what the driver does with it would prove nothing."""

from __future__ import annotations

import base64
import signal
from pathlib import Path

import pytest

from tests.native.doubles import LEVELS
from tests.native.raw import Raw
from tests.worker.nano import DIALOGUES, IMAGES

HELLO = DIALOGUES["hello"]["turns"][0]
PROMPT, ANSWER = HELLO["prompt_ids"], HELLO["answer"]["ids"]
LONG = "<|start|>user<|message|>a long story<|eot|><|start|>assistant"


def ids_of(*ids: list[int]) -> list[dict[str, list[int]]]:
    """A prompt of ids, which the worker begins itself."""
    return [{"ids": [token for part in ids for token in part][1:]}]


def png(name: str) -> dict[str, object]:
    data = base64.b64encode((IMAGES / name).read_bytes()).decode()
    return {"image": {"encoding": "base64", "mime_type": "image/png", "data": data}}


@pytest.mark.parametrize("level", LEVELS)
def test_the_ready_line_has_no_more_than_the_contract_says(tmp_path: Path, level: str) -> None:
    """Section 2, and one field more for each way of cancelling."""
    with Raw(tmp_path, "--max_sessions=3", level=level, vision=False) as double:
        ready = double.read()
    field = {"cancel_op": "supports_cancel_op", "control_pipe": "supports_cancel"}.get(level)
    expected = {"ready": True, "max_sessions": 3, "max_named_sessions": 2, "supports_image": False}
    assert ready == expected | ({field: True} if field else {})


def test_it_begins_every_prompt_itself(tmp_path: Path) -> None:
    """Section 3.1: one BOS more than was sent, control tokens read from text; section 5: ids without the end."""
    with Raw(tmp_path) as double:
        double.read()
        by_ids = double.ask(prompt_segments=ids_of(PROMPT))
        texts = [{"text": part["text"].removeprefix("<|begin_of_text|>")} for part in HELLO["prompt_segments"]]
        by_text = double.ask(prompt_segments=texts)
    assert by_ids["prompt_tokens"] == by_text["prompt_tokens"] == len(PROMPT)
    assert by_ids["generated_token_ids"] == by_text["generated_token_ids"] == ANSWER
    assert by_ids["finish_reason"] == "stop"


def test_it_resumes_by_the_rule_of_section_7(tmp_path: Path) -> None:
    """Named sessions alone; a stop string leaves one dirty and hides the ids."""
    with Raw(tmp_path, "--max_sessions=2") as double:
        double.read()

        def reason(*ids: list[int], **fields: object) -> tuple[str, int]:
            end = double.ask(prompt_segments=ids_of(*ids), session_id="s", **fields)
            assert end["reused_prompt_tokens"] + end["prefilled_prompt_tokens"] == end["prompt_tokens"]
            return end["session_reset_reason"], end["reused_prompt_tokens"]

        assert reason(PROMPT, max_new_tokens=2) == ("new", 0)
        assert reason(PROMPT, ANSWER[:2], max_new_tokens=1) == ("equal", 0)
        assert reason(PROMPT, ANSWER[:3], [503], max_new_tokens=1) == ("exact_prefix", len(PROMPT) + 3)
        assert reason(PROMPT, max_new_tokens=1) == ("mismatch", 0)
        double.write({"prompt_segments": ids_of(PROMPT), "session_id": "s", "stop": ["message|>"]})
        tokens = []
        while "token" in (line := double.read()):
            tokens.append(line["token"])
        assert "".join(tokens).endswith("<|")
        assert "generated_token_ids" not in line
        assert line["finish_reason"] == "stop"
        assert reason(PROMPT) == ("dirty", 0)
        assert double.ask(prompt_segments=ids_of(PROMPT))["session_reset_reason"] == "new"


def test_its_sessions_have_the_codes_of_section_8(tmp_path: Path) -> None:
    """Without named places, with all taken, and where the engine takes fewer than the flag."""
    with Raw(tmp_path) as double:
        double.read()
        assert double.ask("a", session_id="s")["code"] == "unsupported_session"
        assert double.ask("a", op="close") == {"error": "session_id required for op"}
    (tmp_path / "nano-dflash").rename(tmp_path / "other")
    with Raw(tmp_path, "--max_sessions=3", room_for=1) as double:
        double.read()
        assert double.ask(op="open", session_id="a") == {"opened": True, "session_id": "a"}
        assert double.ask(op="open", session_id="b")["code"] == "capacity_exhausted"
        assert double.ask(op="close", session_id="a") == {"closed": True, "session_id": "a"}
        assert double.ask(op="open", session_id="b") == {"opened": True, "session_id": "b"}
        assert double.ask(op="reset", session_id="unknown") == {"reset": True, "session_id": "unknown"}


FORMS = "exactly one of prompt / prompt_segments is required"
JSON_FAULT = "[json.exception."
BAD_REQUESTS: list[tuple[dict[str, object], str]] = [
    ({"prompt": "a", "prompt_segments": []}, FORMS),
    ({"op": "unknown"}, FORMS),
    ({"prompt_segments": [{}]}, "bad segment"),
    ({"prompt": "a", "top_p": 0}, "top_p must be finite and in (0, 1]"),
    ({"prompt": "a", "seed": 2**63}, "seed must be nonnegative"),
    ({"prompt": "a" * 100}, "prompt fills the context window; no room to generate"),
    ({"prompt_segments": [{"image": {"encoding": "base64", "mime_type": "image/png", "data": "AAAA"}}]},
     "image decode or vision encoding failed"),
    ({"prompt": "a", "stop": "a"}, JSON_FAULT),
    ({"prompt": "a", "op": None}, JSON_FAULT),
    ({"prompt": "a", "op": 7}, JSON_FAULT),
]  # fmt: skip


def test_a_bad_request_is_one_error_line(tmp_path: Path) -> None:
    """In the real one's words, and it keeps serving."""
    with Raw(tmp_path, context=64) as double:
        double.read()
        for request, words in BAD_REQUESTS:
            double.write(request)
            line = double.read()
            assert (list(line), line["error"].startswith(words)) == (["error"], True), line
        assert double.ask("a")["done"] is True


def test_it_takes_what_is_no_prompt(tmp_path: Path) -> None:
    """No segments at all, and ids that are none."""
    with Raw(tmp_path) as double:
        double.read()
        assert double.ask(prompt_segments=None)["prompt_tokens"] == 1
        assert double.ask(prompt_segments=[{"ids": [7.6, -1]}])["prompt_tokens"] == 3


def test_its_lines_are_compact_and_in_order(tmp_path: Path) -> None:
    """Keys by the alphabet, no blanks, characters as they are."""
    with Raw(tmp_path, "--max_sessions=2", level="cancel_op") as double:
        assert double.process.stdout
        expected = (
            '{"max_named_sessions":1,"max_sessions":2,"ready":true,"supports_cancel_op":true,"supports_image":true}'
        )
        assert double.process.stdout.readline() == expected.encode() + b"\n"
        double.write({"op": "open", "session_id": "ж"})
        assert double.process.stdout.readline() == '{"opened":true,"session_id":"ж"}\n'.encode()


@pytest.mark.parametrize(
    ("flag", "status", "out", "words"),
    [
        ("--no_such_flag=1", 1, b"", b"unknown command line flag 'no_such_flag'"),
        ("--max_sessions=two", 1, b"", b"illegal value 'two'"),
        ("--help", 1, b"muse_glimmer_worker", b""),
        ("--version", 0, b"muse_glimmer_worker", b""),
        ("--artifact_mode=foo", -signal.SIGABRT, b"", b"PAL must be initialized"),
        ("--max_image_bytes=0", -signal.SIGABRT, b"", b"PAL must be initialized"),
        ("--model_path=", -signal.SIGABRT, b"", b"PAL must be initialized"),
        ("--pos_embed_path=/no/pos_embed.bin", 1, b"", b"failed to create engine"),
    ],
)
def test_a_bad_flag_ends_it(tmp_path: Path, flag: str, status: int, out: bytes, words: bytes) -> None:
    """By its library's check, or by its own, which comes before its log."""
    with Raw(tmp_path, flag) as double:
        said, log = double.process.communicate(timeout=30)
    assert (double.process.returncode, said[:19]) == (status, out)
    assert words in log


def test_its_log_says_the_kind(tmp_path: Path) -> None:
    """Of the artifact, which the ready line does not tell."""
    with Raw(tmp_path, solo=True) as double:
        double.read()
        double.process.kill()
        assert b"detected autoregressive artifact" in double.process.communicate()[1]


def test_a_cancel_in_prefill_has_no_decode(tmp_path: Path) -> None:
    """No time of decode, and no rate of a prefill that was not finished."""
    with Raw(tmp_path, level="cancel_op", chunk=1, chunk_ms=5) as double:
        double.read()
        double.write({"prompt": LONG}, {"op": "cancel"})
        end = double.end()
    assert (end["cancelled"], end["decode_ms"], end["prefill_tok_s"]) == (True, 0, 0)
    assert end["prefill_ms"] == end["total_ms"] > 0


def test_the_pinned_one_answers_a_cancel_too_late_and_with_an_error(tmp_path: Path) -> None:
    """Section 12: the naive client takes that for the answer to its next request."""
    with Raw(tmp_path, level="unpatched") as double:
        double.read()
        double.write({"prompt": LONG, "max_new_tokens": 300}, {"op": "cancel"})
        assert double.end()["completion_tokens"] == 300
        assert double.read().keys() == {"error"}


def test_the_patched_one_ends_and_swallows_what_is_late(tmp_path: Path) -> None:
    """In decode with exact ids and a clean session, in prefill without; a line behind the cancel is kept."""
    with Raw(tmp_path, "--max_sessions=3", level="cancel_op", token_ms=1) as double:
        double.read()
        double.write({"prompt": LONG, "session_id": "s"})
        double.read()
        double.write({"op": "cancel"}, {"op": "cancel"}, {"op": "open", "session_id": "t"})
        end = double.end()
        assert (end["cancelled"], end["finish_reason"]) == (True, "stop")
        assert len(end["generated_token_ids"]) == end["completion_tokens"] > 0
        assert double.read() == {"opened": True, "session_id": "t"}
        double.write({"prompt": LONG, "session_id": "s"}, {"op": "cancel"})
        end = double.end()
        assert (end["cancelled"], end["completion_tokens"], "generated_token_ids" in end) == (True, 0, False)
        assert double.ask(LONG, session_id="s", max_new_tokens=1)["session_reset_reason"] == "dirty"


def test_the_patched_one_leaves_when_its_client_has(tmp_path: Path) -> None:
    """The end of input counts as a cancel: patch-points.md section 2."""
    with Raw(tmp_path, level="cancel_op", token_ms=1) as double:
        double.read()
        double.write({"prompt": LONG})
        double.read()
        out, _ = double.process.communicate(timeout=30)
        assert double.process.returncode == 0
        assert b'"cancelled":true' in out.splitlines()[-1]


def test_the_later_one_ends_by_its_pipe(tmp_path: Path) -> None:
    """Section 14: the right number alone, no ids, dirty."""
    with Raw(tmp_path, "--max_sessions=2", level="control_pipe", token_ms=1) as double:
        double.read()
        double.cancel_by_pipe(6)
        double.write({"prompt": LONG, "session_id": "s", "cancel_request_id": 7})
        for _ in range(20):
            assert "token" in double.read()
        double.cancel_by_pipe(7)
        end = double.end()
        assert (end["cancelled"], end["finish_reason"], "generated_token_ids" in end) == (True, "stop", False)
        assert double.ask(LONG, session_id="s", max_new_tokens=1)["session_reset_reason"] == "dirty"


def test_a_picture_is_read_where_it_can_be(tmp_path: Path) -> None:
    """Section 12: outside any session, so not with two of them, unless patched; then always from the beginning."""
    run = HELLO["prompt_ids"][1:5]
    for flags, level, works in (("", "unpatched", True), ("2", "unpatched", False), ("2", "cancel_op", True)):
        folder = tmp_path / f"{flags}{level}"
        folder.mkdir()
        with Raw(folder, *([f"--max_sessions={flags}"] if flags else []), level=level) as double:
            double.read()
            end = double.ask(prompt_segments=[{"ids": run}, png("red.png"), {"ids": run}])
            assert ("vision_encoder_ms" in end, "error" in end) == (works, not works)
            two = double.ask(prompt_segments=[png("red.png"), png("red.png")])
            assert "error" in two


def test_it_can_die(tmp_path: Path) -> None:
    """As a program that crashes."""
    with Raw(tmp_path, dies_at=3) as double:
        double.read()
        double.write({"prompt": LONG})
        assert double.process.wait(30) == -signal.SIGSEGV
