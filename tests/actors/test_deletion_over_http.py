"""What was deleted is in no buffer of the HTTP front either, while the client's connection stays open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import trio
import trio.testing

from actors.clock import AttentiveClock
from actors.front.binding import bind
from actors.system import System, run_system
from muse.settings import Settings
from tests.actors.conftest import HANG_GUARD_S
from tests.memory_search import holders_of

pytestmark = pytest.mark.thorough

SECRET: Final = "rettel sevol ehs taht"
# A process of its own: what the client holds is not the server's. It waits for a line before it deletes.
CLIENT: Final = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
secret = sys.argv[2][::-1]
def send(method, path, body=None):
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status
chat = {"messages": [{"role": "user", "content": secret}], "session_id": "s"}
statuses = [
    send("POST", "/v1/chat/completions", body)
    for body in (chat, {**chat, "stream": True}, {**chat, "max_tokens": 10**8}, {**chat, "unknown": secret})
]
statuses.append(send("PUT", "/api/drafts/text/s", {"version": 1, "content": secret}))
statuses.append(send("GET", "/v1/sessions/s", {}))
print(statuses, flush=True)
sys.stdin.readline()
print(send("DELETE", "/v1/sessions/s", {}), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def clock() -> AttentiveClock:
    """The server's own: the search of the memory holds up the loop, for longer than an idle connection is kept where
    the machine is busy."""
    return AttentiveClock()


async def test_no_text_of_a_deleted_session_is_left_in_the_front(tmp_path: Path, clock: AttentiveClock) -> None:
    """After whole answers, streams, refused requests, drafts and a shown session over one connection."""
    script = tmp_path / "script.json"
    script.write_text("{}")
    settings = Settings(engine="scripted", model=script, home=tmp_path / "home")
    binding = bind("127.0.0.1", 0)
    command = [sys.executable, "-c", CLIENT, str(binding.port), SECRET]
    with trio.fail_after(HANG_GUARD_S):
        async with trio.open_nursery() as nursery:
            system: System = await nursery.start(run_system, settings, binding)
            client = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert client.stdin is not None
            assert client.stdout is not None
            assert await client.stdout.receive_some() == b"[200, 200, 400, 400, 200, 200]\n"
            assert holders_of(SECRET), "the search finds nothing"
            await client.stdin.send_all(b"\n")
            assert await client.stdout.receive_some() == b"200\n"
            await trio.testing.wait_all_tasks_blocked()
            left = holders_of(SECRET)
            assert not left
            await client.stdin.aclose()
            await client.wait()
            await client.stdout.aclose()
            system.stop.set()
