"""A server whose model has a hostile chat template: it answers everything else, and can be stopped and killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.faults.processes import GONE_WITHIN_S, Watched
from tests.server_process import HANG_GUARD_S, ServerProcess, children_of

Start = Callable[..., ServerProcess]
SCRIPT: dict[str, Any] = {
    "chat_template": "{% if 'hostile' in messages[0].content %}{{ 1 | round(2000000000, 'floor') }}{% endif %}"
    "{{ messages[0].content }}",
    "answers": [{"tokens": ["fine"]}],
}
LOOKS = 10


def chat(server: ServerProcess, text: str) -> httpx.Response:
    return server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]})


@contextmanager
def rendering(server: ServerProcess) -> Iterator[threading.Event]:
    """While one operation of the template runs; gives an event of its end."""
    ended = threading.Event()

    def ask() -> None:
        try:
            chat(server, "hostile")
        except httpx.TransportError:
            pass  # the server was ended
        finally:
            ended.set()

    asker = threading.Thread(target=ask)
    asker.start()
    server.wait_until(lambda state: state["requests"]["running"] + state["requests"]["queued"] > 0)
    yield ended
    asker.join(HANG_GUARD_S)
    assert ended.is_set()


def test_the_server_answers_and_stops_meanwhile(scripted_server: Start) -> None:
    """Its state is told again and again before the hostile chat has its error, and SIGTERM stops it."""
    server = scripted_server(SCRIPT)
    with rendering(server) as ended:
        for _ in range(LOOKS):
            assert server.get("/health").status_code == 200
        assert not ended.is_set()
        assert server.stop() == 0


def test_the_error_says_what_happened_and_the_next_request_works(scripted_server: Start) -> None:
    """400 `template_failed`."""
    server = scripted_server(SCRIPT)
    answer = chat(server, "hostile")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "template_failed"
    assert "took more than 5 s" in answer.json()["error"]["message"]
    assert chat(server, "hello").json()["choices"][0]["message"]["content"] == "fine"


def test_no_process_outlives_a_server_that_is_killed(scripted_server: Start) -> None:
    """SIGKILL of the main process, with a process that reads nothing and runs none of its own code."""
    server = scripted_server(SCRIPT)
    with rendering(server):
        watched = Watched(children_of(server.pid))
        server.process.send_signal(signal.SIGKILL)
        assert watched.left_after(GONE_WITHIN_S) == []
