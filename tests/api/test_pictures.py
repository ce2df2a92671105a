"""Pictures through the whole stack: HTTP, prompt, worker process, llama.cpp with an image projector, and back.

The tiny test model knows three colours. What it answers tells which picture it saw, and whether it saw one.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.picture_files import STILL, data_url, plain, png_claiming, saved
from tests.server_process import HANG_GUARD_S, ServerProcess, read_until, worker_group_of
from tests.worker.nano import DATE, IMAGE_DIALOGUES, IMAGES, turns

QUESTION = "What colour is this?"
OPTIONS = {"current_date": DATE, "return_reasoning": True}


def part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def asking(url: str, question: str = QUESTION) -> dict[str, Any]:
    """A message with a picture and a question."""
    return {"role": "user", "content": [part(url), {"type": "text", "text": question}]}


def stored(name: str) -> str:
    """The picture of a dialogue."""
    (file,) = turns(name)[0]["images"]
    return data_url((IMAGES / file).read_bytes(), "jpeg" if file.endswith("jpg") else "png")


def coloured(colour: str, width: int = 56, height: int = 56) -> str:
    return data_url(saved(plain(colour=colour, size=(width, height)), "PNG"))


def body_of(messages: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"messages": list(messages), "chat_template_kwargs": OPTIONS, "temperature": 0, **fields}


def ask(server: ServerProcess, messages: Sequence[dict[str, Any]], **fields: Any) -> tuple[str, dict[str, Any]]:
    """The answer and its receipt."""
    answer = server.post("/v1/chat/completions", body_of(messages, **fields))
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"], answer.json()["muse_metrics"]


def refuse(server: ServerProcess, messages: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """The error, which is a plain 400, also where a stream was asked for."""
    for stream in (False, True):
        answer = server.post("/v1/chat/completions", body_of(messages, stream=stream, **fields))
        assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def epoch(server: ServerProcess) -> int:
    """Number of worker processes so far."""
    return server.get("/api/runtime").json()["worker"]["epoch"]


@pytest.mark.parametrize("name", IMAGE_DIALOGUES)
def test_it_says_what_it_sees(seeing_server: ServerProcess, name: str) -> None:
    """Every letter as memorised; the tokens of the prompt are those of the picture too."""
    turn = turns(name)[0]
    answer = seeing_server.post("/v1/chat/completions", body_of([asking(stored(name))])).json()
    message = answer["choices"][0]["message"]
    assert message["content"] == turn["answer"]["message"]["content"]
    assert message["reasoning_content"] == "\n\n".join(turn["answer"]["reasoning"])
    assert answer["usage"]["prompt_tokens"] == len(turn["prompt_ids"])
    assert answer["muse_metrics"]["images_scaled"] == 0


def test_a_further_turn_is_an_exact_prefix(seeing_server: ServerProcess) -> None:
    """Three pictures in a conversation, each sent again with every turn; only what is new is read."""
    messages: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for colour, name in (("red", "image-red"), ("blue", "image-blue"), ("green", "image-green")):
        messages.append(asking(stored(name)))
        content, receipt = ask(seeing_server, messages, session_id="three")
        assert content == f"It is {colour}."
        if before:
            assert receipt["session_reset_reason"] == "exact_prefix"
            assert receipt["reused_prompt_tokens"] >= before["prompt_tokens"] + before["completion_tokens"] - 1
        before = receipt
        messages.append({"role": "assistant", "content": content})
    shown = seeing_server.get("/v1/sessions/three").json()
    assert shown["exact_turns"] == 3
    assert shown["resident_tokens"] >= before["prompt_tokens"]


def test_a_replaced_picture_is_seen(seeing_server: ServerProcess) -> None:
    """In the question that is asked again, and in an older one, whose answer stays what it was."""
    first = asking(coloured("red"))
    assert ask(seeing_server, [first], session_id="replaced")[0] == "It is red."
    first = asking(coloured("green"))
    content, receipt = ask(seeing_server, [first], session_id="replaced")
    assert content == "It is green."
    assert receipt["session_reset_reason"] == "rewound"
    said = {"role": "assistant", "content": content}
    content, receipt = ask(
        seeing_server, [asking(coloured("red")), said, asking(coloured("blue"))], session_id="replaced"
    )
    assert content == "It is blue."
    assert receipt["session_reset_reason"] == "rewound"


def test_the_official_client_shows_a_picture(seeing_server: ServerProcess) -> None:
    """Whole and as a stream, in the parts that OpenAI documents."""
    with OpenAI(base_url=f"{seeing_server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        messages: Any = [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": stored("image-blue"), "detail": "auto"}},
                    {"type": "text", "text": QUESTION},
                ],
            }
        ]
        model, extra = client.models.list().data[0].id, {"chat_template_kwargs": {"current_date": DATE}}
        whole = client.chat.completions.create(model=model, messages=messages, temperature=0, extra_body=extra)
        assert whole.choices[0].message.content == "It is blue."
        stream = client.chat.completions.create(
            model=model, messages=messages, temperature=0, extra_body=extra, stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        assert "".join(pieces) == "It is blue."


def test_a_session_shows_its_pictures(seeing_server: ServerProcess) -> None:
    """As a page needs them to come back; what it shows is taken as a history, and as the beginning of a request."""
    question = [asking(coloured("red"))]
    ask(seeing_server, question, session_id="shown")
    shown = seeing_server.get("/v1/sessions/shown").json()["messages"]
    history = [{key: message[key] for key in ("role", "content")} for message in shown]
    assert history == [*question, {"role": "assistant", "content": "It is red."}]
    put = httpx.put(f"{seeing_server.url}/v1/sessions/shown", json={"messages": history}, timeout=HANG_GUARD_S)
    assert put.json() == {"session_id": "shown", "messages": 2}
    content, receipt = ask(seeing_server, [*history, asking(coloured("blue"))], session_id="shown")
    assert content == "It is blue."
    assert receipt["session_reset_reason"] == "exact_prefix"


def test_a_cut_answer_goes_on(seeing_server: ServerProcess) -> None:
    """With the picture that it is about."""
    question = [asking(coloured("green"))]
    cut = seeing_server.post("/v1/chat/completions", body_of(question, max_tokens=20, session_id="cut")).json()
    assert cut["choices"][0]["finish_reason"] == "length"
    rest = seeing_server.post("/v1/chat/completions", {"muse": {"continue": cut["id"]}, "temperature": 0}).json()
    whole = cut["choices"][0]["message"]["content"] + rest["choices"][0]["message"]["content"]
    assert whole == "It is green."


def test_pictures_that_cannot_fit_are_made_smaller_and_it_is_said(seeing_server: ServerProcess) -> None:
    """One of 1,792 x 1,792 points would take 4,096 tokens, all that the context holds."""
    _, receipt = ask(seeing_server, [asking(coloured("green", 1792, 1792))], max_tokens=1)
    assert receipt["images_scaled"] == 1
    assert 1024 < receipt["prompt_tokens"] < 4096


def test_what_cannot_fit_at_all_is_refused(seeing_server: ServerProcess) -> None:
    """As any prompt that is too long, with its tokens."""
    error = refuse(seeing_server, [asking(coloured("green", 700, 700))] * 70)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")
    assert error["prompt_tokens"] > error["context_length"] == 4096


@pytest.mark.parametrize(
    ("url", "param"),
    [
        ("https://example.com/a.png", "messages[1].content[0].image_url.url"),
        (data_url(b"GIF89a" + bytes(20), "gif"), "messages[1].content[0].image_url.url"),
        (data_url(STILL["png"](), "jpeg"), "messages[1].content[0].image_url.url"),
        (data_url(png_claiming(32_768, 32_768)), "messages[1].content[0].image_url.url"),
        (data_url(STILL["png"]()[:-40]), "messages[1].content"),
        (data_url(STILL["jpeg"]()[:400], "jpeg"), "messages[1].content"),
        (data_url(png_claiming(8_000, 8_000)), "messages[1].content"),
    ],
    ids=["address", "gif", "wrong type", "too large", "cut png", "cut jpeg", "no pixels"],
)
def test_a_wrong_file_is_refused_with_its_place(seeing_server: ServerProcess, url: str, param: str) -> None:
    """By the main process if its header tells, else by the worker, which lives on."""
    before = epoch(seeing_server)
    error = refuse(seeing_server, [asking(coloured("red")), asking(url)])
    assert (error["code"], error["param"]) == ("invalid_image", param)
    assert epoch(seeing_server) == before


def test_text_that_spells_a_control_token_is_refused_beside_pictures(seeing_server: ServerProcess) -> None:
    """By name and place; the same text without a picture is taken."""
    messages = [{"role": "system", "content": "Say what <|eot|> means."}, asking(coloured("red"))]
    error = refuse(seeing_server, messages)
    assert (error["code"], error["param"]) == ("control_token", "messages[0].content")
    assert "<|eot|>" in error["message"]
    ask(seeing_server, [messages[0], {"role": "user", "content": "?"}], max_tokens=1)


def test_a_model_that_is_blind_refuses_pictures(nano_server: ServerProcess) -> None:
    """By name, never left out; what would make it see is said where there is something."""
    error = refuse(nano_server, [{"role": "user", "content": "hi"}, asking(coloured("red"))])
    assert (error["code"], error["param"]) == ("unsupported_parameter", "messages[1].content")
    engine = nano_server.get("/api/runtime").json()["model"]["engine"]
    assert ("--mmproj" in error["message"]) == (engine == "llamacpp")


def test_a_cancel_while_it_looks(seeing_server: ServerProcess) -> None:
    """A large picture in a stream; the reply ends as cancelled, and the same worker gives the next one."""
    before = epoch(seeing_server)
    body = body_of([asking(coloured("green", 1500, 1500))], stream=True, session_id="cancel")
    with httpx.stream("POST", f"{seeing_server.url}/v1/chat/completions", json=body, timeout=HANG_GUARD_S) as stream:
        arriving = stream.iter_lines()
        comment = read_until(arriving, '"phase": "vision"')[-1]
        assert json.loads(comment.removeprefix(": muse ")) == {"phase": "vision", "processed": 0, "total": 1}
        assert seeing_server.post("/api/cancel", {"session_id": "cancel"}).json() == {"cancelled": True}
        lines = list(arriving)
    receipts = [json.loads(line[6:])["muse_metrics"] for line in lines if '"muse_metrics"' in line]
    assert [receipt["finish_reason"] for receipt in receipts] == ["cancelled"]
    assert ask(seeing_server, [asking(coloured("red"))], session_id="cancel")[0] == "It is red."
    assert epoch(seeing_server) == before


def test_clients_at_the_same_time_see_their_own(seeing_server: ServerProcess) -> None:
    """More than run at once: the others wait, their prompts counted with their pictures."""
    colours = ["red", "green", "blue"] * 3
    with ThreadPoolExecutor(len(colours)) as pool:
        answers = pool.map(lambda colour: ask(seeing_server, [asking(coloured(colour))])[0], colours)
        assert list(answers) == [f"It is {colour}." for colour in colours]


def test_the_answer_goes_on_when_its_worker_dies(seeing_server: ServerProcess) -> None:
    """Killed at its first words: the picture is sent again, and nothing is lost or said twice."""
    server = seeing_server
    for number in range(20):
        server.wait_idle()
        guard, resumed = worker_group_of(server.pid)[0], 0
        body = body_of([asking(stored("image-red"))], stream=True, session_id=f"dies-{number}")
        content = ""
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=HANG_GUARD_S) as stream:
            for line in stream.iter_lines():
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line[6:])
                delta = chunk["choices"][0]["delta"] if chunk["choices"] else {}
                if delta.get("reasoning_content") and guard:
                    os.killpg(guard, signal.SIGKILL)
                    guard = 0
                content += delta.get("content") or ""
                resumed += chunk.get("muse_metrics", {}).get("resumed", 0)
        assert content == "It is red."
        if resumed:
            return
    raise AssertionError("every kill came too late")
