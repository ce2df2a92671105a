"""`bootstrap doctor`: what is there, what is not, and what to do; changes nothing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap import interpreters, native, node_tool, ports, setup_lock
from bootstrap.children import folder_size
from bootstrap.console import Console, megabytes
from bootstrap.environment import Environment
from bootstrap.faults import SetupFault
from bootstrap.layout import Layout
from bootstrap.processes import identity_of
from bootstrap.stages import ENGINES, BuiltInModel, Stage, stages_for_engine, stages_for_run, stages_for_test
from bootstrap.stamps import read_stamp

DEFAULT_PORT = 3939


def report(layout: Layout, console: Console) -> int:
    """Print the report; 0 when the server can be started from what is there, else 1."""
    console.line(f"Muse Glimmer Playground {_version(layout)}")
    _section(console, "Machine", _machine(layout))
    _section(console, "Tools", _tools(layout))
    broken = _stages(layout, console)
    _section(console, "Folders", _folders(layout))
    _section(console, "Now", _now(layout))
    console.line()
    if broken:
        console.line(f"Not ready: {', '.join(broken)}. What to do: python3 -m bootstrap setup")
        return 1
    console.line("Ready: python3 -m bootstrap run")
    return 0


def _section(console: Console, title: str, rows: Sequence[tuple[str, str]]) -> None:
    console.line()
    console.line(title)
    for name, value in rows:
        console.line(f"  {name:<22} {value}")


def _machine(layout: Layout) -> list[tuple[str, str]]:
    system = f"macOS {platform.mac_ver()[0]}" if sys.platform == "darwin" else f"Linux {platform.release()}"
    disk = shutil.disk_usage(_nearest(layout.home))
    return [
        ("system", f"{system}, {platform.machine()}, {os.cpu_count()} processors"),
        ("memory", _memory()),
        ("free disk", f"{megabytes(disk.free)} of {megabytes(disk.total)}"),
    ]


def _tools(layout: Layout) -> list[tuple[str, str]]:
    rows = [("this Python", f"{platform.python_version()} ({sys.executable})")]
    try:
        found, refused = interpreters.find_interpreter(layout.home)
        rows.append(("for the environment", str(found) if found else "none found; uv would have to fetch one"))
        rows += [("not usable", reason) for reason in refused]
    except SetupFault as fault:
        rows.append(("for the environment", fault.what))
    node = node_tool.find_node(layout)
    rows.append(
        ("Node", f"{node.version}, npm {node.npm_version} ({node.node})" if node else "none; set-up brings one")
    )
    return rows


def _stages(layout: Layout, console: Console) -> list[str]:
    """Print the state of each stage; returns the titles of those that keep the server from starting."""
    broken: list[str] = []
    needed = len(stages_for_run(layout))
    rows: list[tuple[str, str]] = []
    for place, stage in enumerate(stages_for_test(layout)):
        state = _state(layout, stage)
        if state != "ready" and place < needed:
            broken.append(stage.title)
        elif state != "ready":
            state += " (only `test` needs it)"
        rows.append((stage.title, state))
    rows += [(name, _engine(layout, engine)) for engine, name in ENGINES.items()]
    _section(console, "Set-up", rows)
    return broken


def _engine(layout: Layout, engine: str) -> str:
    """Whether an engine with an environment of its own is installed, in which version, or how to install it."""
    there = Environment(layout.engine(engine))
    install = f"python3 -m bootstrap setup --engine {engine}"
    if not there.path.exists():
        return f"not installed (only `run --engine {engine}` needs it). To install it: {install}"
    states = {stage.title: _state(layout, stage) for stage in stages_for_engine(layout, engine)}
    faults = [f"{title}: {state}" for title, state in states.items() if state != "ready"]
    if faults:
        return f"{'; '.join(faults)}. To repair it: {install}"
    return f"ready, version {there.packages()[engine]}"


def _state(layout: Layout, stage: Stage) -> str:
    try:
        if not stage.is_ready():
            return "missing or outdated"
    except SetupFault as fault:
        return f"broken: {fault.what}"
    if isinstance(stage, BuiltInModel) and not stage.is_intact():
        return "broken: the file's content has changed; delete it"
    return "ready"


def _folders(layout: Layout) -> list[tuple[str, str]]:
    rows = [("project", str(layout.project)), ("home", f"{layout.home}, {megabytes(folder_size(layout.home))}")]
    inside = sorted(layout.home.iterdir()) if layout.home.is_dir() else []
    rows += [(f"  {folder.name}/", megabytes(folder_size(folder))) for folder in inside if folder.is_dir()]
    rows.append(("page packages", megabytes(folder_size(layout.page / "vendor"))))
    patched = _patched_source(layout)
    if patched:
        rows.append(("native worker's source", patched))
    left = ", ".join(layout.shown(path) for path in layout.left_overs())
    if left:
        rows.append(("left over", f"{left} (of a set-up that was killed; `setup` clears it away)"))
    return rows


def _patched_source(layout: Layout) -> str:
    try:
        return native.summary(layout)
    except SetupFault as fault:
        return fault.what


def _now(layout: Layout) -> list[tuple[str, str]]:
    owner = setup_lock.living_owner(layout.setup_lock)
    port = "free" if ports.is_free(DEFAULT_PORT) else f"in use by {ports.owner_of(DEFAULT_PORT)}"
    rows = [("set-up running", owner or "no"), (f"port {DEFAULT_PORT}", port)]
    rows.append(("server", _server(layout)))
    return rows


def _server(layout: Layout) -> str:
    noted = read_stamp(layout.home / "server.json")
    pid = noted.get("pid")
    if not isinstance(pid, int) or identity_of(pid) is None:
        return "none running"
    return f"{noted.get('url')} (process {pid})"


def _memory() -> str:
    if sys.platform == "darwin":
        asked = subprocess.run(["/usr/sbin/sysctl", "-n", "hw.memsize"], stdout=subprocess.PIPE, check=False)
        return f"{megabytes(int(asked.stdout or b'0'))} in all"
    told = dict(re.findall(r"^(\w+):\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE))
    free, total = (megabytes(int(told.get(name, 0)) * 1024) for name in ("MemAvailable", "MemTotal"))
    return f"{free} available of {total}"


def _nearest(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _version(layout: Layout) -> str:
    try:
        text = (layout.project / "muse" / "__init__.py").read_text()
    except OSError:
        return "(the muse folder is missing)"
    found = re.search(r'^__version__[^=]*=\s*"([^"]+)"', text, re.MULTILINE)
    return found.group(1) if found else "(no version)"
