"""A program that asks for the page's files and states all the time, in a process of its own, and measures.

    python -m tests.faults.chaos.probe http://127.0.0.1:3939

Its standard input ends it. Then it prints a JSON object: path to the list of milliseconds, and `faults`. One of the
paths is no path: by how much a pause was too long, which tells how busy the machine was.
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
MACHINE: Final = "(the machine: a pause was too long by)"


def main(url: str) -> None:
    """Measure until the standard input ends."""
    place = urlsplit(url)
    times: dict[str, list[float]] = {path: [] for path in (*PATHS, MACHINE)}
    faults: list[str] = []
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    turn, paused = 0, time.perf_counter()
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        times[MACHINE].append((time.perf_counter() - paused - PAUSE_S) * 1000)
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
        paused = time.perf_counter()
        times[path].append((paused - begun) * 1000)
    print(json.dumps({"times": times, "faults": faults}))


if __name__ == "__main__":
    main(sys.argv[1])
