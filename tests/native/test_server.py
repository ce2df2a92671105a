"""The native engine through the whole stack: cancel, stop strings, refusals, what is said of it, its command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muse.cli import main
from tests.api.test_pictures import ask as ask_pictures
from tests.api.test_pictures import asking, coloured, refuse
from tests.native.conftest import serving
from tests.native.doubles import LEVELS, make_artifact
from tests.native.pte_file import program_with
from tests.picture_files import STILL, data_url
from tests.server_process import ServerProcess
from tests.worker.client import wait_for
from tests.worker.nano import DATE, turns

pytestmark = pytest.mark.thorough


def ask(server: ServerProcess, text: str, **fields: Any) -> dict[str, Any]:
    """A whole answer."""
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, **fields}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def epoch(server: ServerProcess) -> int:
    return server.get("/health").json()["worker"]["epoch"]


def test_runtime_says_what_runs(any_nano_server: ServerProcess) -> None:
    """The patch level, and what it means for cancels and pictures."""
    model = any_nano_server.get("/api/runtime").json()["model"]
    assert model["engine"] == "native"
    assert model["patch_level"] in LEVELS
    assert model["supports"]["cancel"] == (model["patch_level"] != "unpatched")
    assert model["engine_version"].startswith("muse_glimmer_worker")
    assert (model["thinks"], model["context_length"], model["device"] != "") == (True, 4096, True)
    assert [(file["part"], file["name"]) for file in model["files"]] == [("model", "model.pte")]
    assert model["load_ms"] > 0


def test_a_stop_string_ends_the_answer(any_nano_server: ServerProcess) -> None:
    """It is ours, matched in what is visible: upstream's own would match in thoughts and spoil the session."""
    body = ask(any_nano_server, "one two three", stop=["two"])
    choice = body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one ", "stop")
    assert ask(any_nano_server, "four")["choices"][0]["message"]["content"] == "four"


def test_a_client_that_leaves_frees_the_program(any_nano_server: ServerProcess) -> None:
    """In decode; the next one gets its own answer, from the same worker or, if need be, from a new one."""
    before = epoch(any_nano_server)
    with any_nano_server.stream_chat("a long story") as stream:
        assert any("story" in line for line in stream.iter_lines())
    assert ask(any_nano_server, "next")["choices"][0]["message"]["content"] == "next"
    any_nano_server.wait_idle()
    assert any_nano_server.get("/health").json()["worker"]["state"] == "ready"
    if any_nano_server.get("/api/runtime").json()["model"]["patch_level"] != "unpatched":
        assert epoch(any_nano_server) == before


def test_what_cannot_be_stopped_is_replaced_and_no_fault_of_the_model(tmp_path: Path) -> None:
    """Before any token, four times: as deaths these would mean `failed`. Who waits gets the answer of the new one."""
    reads = tmp_path / "reads"
    reads.touch()
    with serving(tmp_path, level="unpatched", chunk=1, chunk_ms=300, reads=str(reads)) as server:
        for number in range(4):
            before, begun = epoch(server), reads.stat().st_size
            with server.stream_chat("please " * 60):
                # A client that leaves before that costs nothing: the program has not heard of its request.
                wait_for(lambda begun=begun: reads.stat().st_size > begun)
            if number == 2:
                assert ask(server, "hi")["muse_metrics"]["resumed"] <= 1
            server.wait_until(lambda state, before=before: state["worker"]["epoch"] > before)
            server.wait_ready()


def test_a_crash_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """In an answer, once: the program dies by a signal, and the text is whole. More of it: test_recital.py."""
    with serving(tmp_path, dies_at=9, dies_once=str(tmp_path / "died")) as server:
        fields = {"chat_template_kwargs": {"current_date": DATE, "return_reasoning": True}, "session_id": "s"}
        turn = turns("plan")[0]
        body = ask(server, turn["messages"][0]["content"], **fields)
        message = body["choices"][0]["message"]
        assert message["content"] == turn["answer"]["message"]["content"]
        assert message["reasoning_content"] == "\n\n".join(turn["answer"]["reasoning"])
        assert body["muse_metrics"]["resumed"] == 1
        assert (tmp_path / "died").exists()


def test_what_the_engine_cannot_do_is_refused_by_name(any_nano_server: ServerProcess) -> None:
    """A JSON form, a forced call, penalties, min_p; and pictures where it is blind."""
    hello = [{"role": "user", "content": "hi"}]
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [tool], "tool_choice": "required"}, "tool_choice"),
        ({"repeat_penalty": 1.1}, "repeat_penalty"),
        ({"presence_penalty": 0, "frequency_penalty": 0.5}, "frequency_penalty"),
    ]
    for fields, param in refusals:
        refused = any_nano_server.post("/v1/chat/completions", {"messages": hello, **fields})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    refused = any_nano_server.post("/v1/chat/completions", {"messages": hello, "min_p": 0.2, "temperature": 1})
    assert (refused.status_code, "min_p" in refused.json()["error"]["message"]) == (400, True)


def test_a_picture_without_eyes_says_whose_fault_it_is(nano_server: ServerProcess) -> None:
    """There is no projector to be given here."""
    url = "data:image/png;base64,iVBORw0KGgo="
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    refused = nano_server.post("/v1/chat/completions", {"messages": [message]})
    assert refused.status_code == 400
    assert "mmproj" not in refused.text


def test_a_replaced_picture_is_seen(seeing_server: ServerProcess) -> None:
    """Of the same size; a second one beside it is refused, and the first conversation goes on."""
    for colour in ("red", "green", "blue"):
        content, receipt = ask_pictures(seeing_server, [asking(coloured(colour))], session_id="replaced")
        assert (content, receipt["reused_prompt_tokens"]) == (f"It is {colour}.", 0)
    said = {"role": "assistant", "content": "It is blue."}
    error = refuse(seeing_server, [asking(coloured("blue")), said, asking(coloured("red"))], session_id="replaced")
    assert (error["code"], error["param"]) == ("unsupported", "messages[2].content")
    follow = {"role": "user", "content": "Sure?"}
    content, receipt = ask_pictures(seeing_server, [asking(coloured("blue")), said, follow], session_id="replaced")
    assert (content, receipt["session_reset_reason"]) == ("Sure?", "exact_prefix")


def test_the_price_of_a_picture_is_the_artifacts(tmp_path: Path) -> None:
    """It may take smaller ones than others do; what is told beforehand is what the prompt then has."""
    make_artifact(tmp_path)
    (tmp_path / "nano-dflash" / "model.pte").write_bytes(program_with({"get_max_vision_patches": 64}))
    with serving(tmp_path, level="cancel_op", most_cells=16) as server:
        assert server.get("/api/runtime").json()["model"]["max_image_cells"] == 16
        assert server.get("/api/picture-tokens?width=700&height=700").json() == {"tokens": 18, "rows": 4, "columns": 4}
        _, receipt = ask_pictures(server, [asking(coloured("red", 700, 700))])
        assert (receipt["context"]["images"], receipt["images_scaled"]) == (18, 0)
        assert receipt["vision_encoder_ms"] > 0


def test_a_damaged_picture_is_refused_with_its_place(seeing_server: ServerProcess) -> None:
    """By the worker, which decodes it before the program sees it."""
    error = refuse(seeing_server, [{"role": "user", "content": "hi"}, asking(data_url(STILL["png"]()[:60]))])
    assert (error["code"], error["param"]) == ("invalid_image", "messages[1].content")


def test_a_prompt_shows_every_piece(any_nano_server: ServerProcess) -> None:
    """As with every engine: what the model saw, with counts."""
    body = ask(any_nano_server, "a <|eot|> b")
    seen = any_nano_server.get(f"/api/replies/{body['id']}/prompt").json()
    assert sum(part["tokens"] for part in seen["segments"]) == body["usage"]["prompt_tokens"]
    assert any(part["kind"] == "text" and part["text"] == "a <|eot|> b" for part in seen["segments"])
    assert json.dumps(seen)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--engine", "native", "--model", "x"], "needs --worker-bin"),
        (["--engine", "native", "--model", "x", "--worker-bin", "y", "--mmproj", "z"], "--mmproj is nothing to"),
        (["--engine", "native", "--model", "x", "--worker-bin", "y", "--keep-draft"], "--keep-draft is nothing to"),
        (["--engine", "native", "--worker-bin", "x"], "needs --model"),
        (["--engine", "native", "--worker-bin", "x", "--model", "x", "--draft", "y"], "--draft is nothing to"),
        (["--engine", "native", "--worker-bin", "x", "--model", "x", "--threads", "2"], "--threads is nothing to"),
        (["--worker-bin", "x"], "are for --engine native"),
        (["--model-id", "x"], "are for --engine native"),
    ],
)
def test_options_that_nobody_would_look_at_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name, before anything is started."""
    with pytest.raises(SystemExit) as stop:
        main(["serve", *arguments])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err
