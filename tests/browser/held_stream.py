"""A server whose event streams say what a test wants and then wait, so that the page stays in a state that passes
quickly in life."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

from playwright.sync_api import Page


class HeldStream:
    """One event stream. What is said before somebody listens waits for the listener."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lines: queue.Queue[str | None] = queue.Queue()

    def event(self, name: str, content: Any) -> None:
        """Send an event."""
        self.lines.put(f"event: {name}\ndata: {json.dumps(content)}\n\n")

    def sign(self, **content: Any) -> None:
        """Send a sign of life, as the server does while an answer waits."""
        self.lines.put(f": muse {json.dumps(content)}\n\n")

    def end(self) -> None:
        """Close the connection."""
        self.lines.put(None)

    def replace(self, page: Page, pattern: str) -> None:
        """The next such request of the page gets this stream; later ones find nobody."""
        page.route(pattern, lambda route: route.abort("connectionrefused"))
        page.route(pattern, lambda route: route.continue_(url=self.url), times=1)


@contextmanager
def holding(head: str = "") -> Iterator[HeldStream]:
    """A stream to fill; all that is open ends with the context. head: more header lines, each with CRLF behind it."""

    class Listener(StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while line := self.rfile.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            self.rfile.read(length)
            always = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
            self.wfile.write(f"{always}{head}\r\n".encode())
            while (said := stream.lines.get()) is not None:
                self.wfile.write(said.encode())

    with ThreadingTCPServer(("127.0.0.1", 0), Listener) as server:
        stream = HeldStream(f"http://127.0.0.1:{server.server_address[1]}/")
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield stream
        finally:
            stream.end()
            server.shutdown()
            thread.join()
