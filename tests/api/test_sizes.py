"""Requests far too large, to a real server: refused at once, and nobody else notices."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import httpx

from tests.server_process import HANG_GUARD_S, ServerProcess

MIB = 1024 * 1024
HEADERS = {"content-type": "application/json"}


def chat(text: str) -> bytes:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    return json.dumps(body, ensure_ascii=False).encode()


def resident_mib(server: ServerProcess) -> float:
    """Memory of the main process (Linux)."""
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096 / MIB


def test_huge_requests_are_refused_and_leave_nothing(muse_server: ServerProcess) -> None:
    """By the built-in model: megabytes of one text in three alphabets, and of brackets; the same worker goes on."""
    server = muse_server
    epoch = server.wait_ready()["worker"]["epoch"]

    def post(body: bytes) -> tuple[int, str]:
        answer = httpx.post(f"{server.url}/v1/chat/completions", content=body, headers=HEADERS, timeout=HANG_GUARD_S)
        return answer.status_code, answer.json()["error"]["code"]

    assert httpx.post(f"{server.url}/v1/chat/completions", content=chat("hi"), headers=HEADERS).status_code == 200
    before = resident_mib(server)
    for text in (
        "Съешь ещё этих мягких булок. " * (24 * MIB // 29),
        "The quick brown fox, and so on. " * (8 * MIB // 32),
        "".join(random.Random(1).choices("ACGT", k=2 * MIB)) * 11,
        "\x00\x01" * (4 * MIB // 6),  # no token in this vocabulary for the second of them
    ):
        assert post(chat(text)) == (400, "context_length_exceeded")
    answers: list[tuple[int, str]] = []
    brackets = b"[" + b"[]," * (8 * MIB // 3) + b"1]"
    threads = [threading.Thread(target=lambda: answers.append(post(brackets))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [(400, "invalid_json")] * 6
    assert server.get("/health").json()["worker"]["epoch"] == epoch
    deadline = time.monotonic() + HANG_GUARD_S
    while resident_mib(server) > before + 20:  # given back a moment later
        assert time.monotonic() < deadline, f"{resident_mib(server):.0f} MiB, {before:.0f} before"
        time.sleep(0.1)
