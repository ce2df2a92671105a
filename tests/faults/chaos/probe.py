"""A program that asks for the page's files and states all the time, in a process of its own, and measures.

    python -m tests.faults.chaos.probe http://127.0.0.1:3939

Its standard input ends it. Then it prints a JSON object: path to the list of milliseconds, and `faults`.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time
from typing import Final
from urllib.parse import urlsplit

PATHS: Final = ("/health", "/", "/app.js", "/api/runtime", "/health")
PAUSE_S: Final = 0.04


def main(url: str) -> None:
    """Measure until the standard input ends."""
    place = urlsplit(url)
    times: dict[str, list[float]] = {path: [] for path in PATHS}
    faults: list[str] = []
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    turn = 0
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        path = PATHS[turn % len(PATHS)]
        turn += 1
        begun = time.perf_counter()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                faults.append(f"{path}: status {response.status}")
        except (OSError, http.client.HTTPException) as fault:
            faults.append(f"{path}: {type(fault).__name__}: {fault}")
            connection.close()
        times[path].append((time.perf_counter() - begun) * 1000)
    print(json.dumps({"times": times, "faults": faults}))


if __name__ == "__main__":
    main(sys.argv[1])
