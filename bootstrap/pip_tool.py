"""pip as set-up uses it: locked, hashed wheels only, and its failures in words.

Nothing is ever built from source: that would need compilers and take an hour for the engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bootstrap.children import Finished, Runner
from bootstrap.faults import SetupFault
from bootstrap.tool_failures import CHECK_NETWORK, FOREIGN_BYTES, MAKE_ROOM, Meaning, explain

# Seconds, not minutes, until a machine without a network says so; pip waits longer before each further try.
RETRIES = "3"

MEANINGS = (
    Meaning(
        r"(?s)DO NOT MATCH THE HASHES.*\btorch==",
        "the package index has no build of PyTorch for this machine's processor alone, only one for CUDA.",
        "Tell pip of a place that has PyTorch's builds for the CPU: set PIP_EXTRA_INDEX_URL to PyTorch's own index of "
        "them, or PIP_FIND_LINKS to a folder with the file",
    ),
    Meaning(
        r"DO NOT MATCH THE HASHES|Hash mismatch",
        "a downloaded package is not the one that was locked.",
        f"{FOREIGN_BYTES}, or `pip cache purge`",
    ),
    Meaning(r"No space left on device|Errno 28|Disk quota exceeded", "the disk is full.", MAKE_ROOM),
    Meaning(
        r"CERTIFICATE_VERIFY_FAILED|SSLError|invalid peer certificate",
        "the package index could not be reached safely (its certificate is not trusted here).",
        "Behind a company proxy, point PIP_CERT at the proxy's certificate file",
    ),
    Meaning(
        r"NewConnectionError|NameResolutionError|Max retries exceeded|name resolution|Read timed out|ConnectTimeout"
        r"|ProxyError|Connection refused|Connection reset|Network is unreachable|error sending request|dns error",
        "the package index could not be reached.",
        CHECK_NETWORK,
    ),
    Meaning(
        r"No matching distribution found|Could not find a version",
        "the package index has no file of a locked package for this machine.",
        "Check `pip config list` for an index that is switched off or lacks packages. The packages are there for "
        "macOS 13 or newer, and for Linux with glibc 2.31 or newer",
    ),
    Meaning(
        r"Permission denied|Errno 13",
        "a file could not be written.",
        "Check who owns the folder named above; set-up needs no root, and sudo leaves files of root behind",
    ),
)


def in_words(finished: Finished, tool: str) -> SetupFault:
    """The failure of pip, venv or uv as a fault."""
    return explain(finished, tool, MEANINGS)


def install(runner: Runner, python: Path, lock: Path, *, target: Path | None = None) -> None:
    """Install what a lock file pins, into the environment of `python` or into the folder `target`."""
    argv = [str(python), "-I", "-m", "pip", "install", *_locked(lock), "--no-warn-script-location"]
    argv += ["--target", str(target)] if target else []
    finished = runner.run(argv)
    if finished.code != 0:
        raise in_words(finished, "pip")


def download(runner: Runner, python: Path, lock: Path, folder: Path) -> None:
    """Bring the wheels that a lock file pins into a folder, past pip's own cache (they would lie there twice)."""
    argv = [str(python), "-I", "-m", "pip", "download", *_locked(lock), "--no-cache-dir", "--dest", str(folder)]
    finished = runner.run(argv, watched=runner.layout.scratch)
    if finished.code != 0:
        raise in_words(finished, "pip")


def _locked(lock: Path) -> Sequence[str]:
    return ("--require-hashes", "--no-deps", "--only-binary", ":all:", "--retries", RETRIES, "--requirement", str(lock))


def pins(lock: Path) -> dict[str, str]:
    """The packages of a lock that every machine gets: normalised name to version (pins with a condition left out)."""
    found: dict[str, str] = {}
    for line in lock.read_text().splitlines():
        match = re.match(r"^([A-Za-z0-9._-]+)==(\S+)\s*\\?$", line)
        if match:
            found[normal_name(match.group(1))] = match.group(2)
    return found


def hashes(lock: Path) -> list[str]:
    """All sha256 values in a lock file."""
    return re.findall(r"--hash=sha256:([0-9a-f]{64})", lock.read_text())


def normal_name(name: str) -> str:
    """A package name in the form in which names are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
