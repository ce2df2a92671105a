"""`bootstrap test`: the static checks, then pytest, whose summary is the last thing printed when all is well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bootstrap import node_tool
from bootstrap.console import Console
from bootstrap.faults import SetupFault, UsageFault
from bootstrap.launch import server_environment
from bootstrap.layout import Layout
from bootstrap.stages import ENGINES
from bootstrap.stages.npm_tools import NpmTools
from bootstrap.stop import StopRequest

POLL_S = 0.1
# How long a tool may take to end by itself after a Ctrl-C that it got from the terminal too.
TERMINAL_GRACE_S = 5.0

MOST_WORKERS = 5

# Which tests run, by the option that asks for it, as an expression of pytest's marks; without one, pyproject.toml says.
MARKS = {"--thorough": "not slow", "--full": ""}

# Engines that are known but have no environment yet.
PLANNED_ENGINES = ("mlx",)


@dataclass(frozen=True)
class TestOptions:
    """The command line of `bootstrap test`: everything it does not know goes to pytest. engines: whose tests to run,
    none: the ordinary ones. marks: one of MARKS, None without such an option."""

    marks: str | None
    engines: tuple[str, ...]
    pytest_arguments: tuple[str, ...]


def parse(arguments: Sequence[str]) -> TestOptions:
    """Take our own options out of the arguments; raises UsageFault on an engine nobody knows."""
    marks, engines, rest = None, "", []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument in MARKS:
            marks = MARKS[argument]
        elif argument == "--engines":
            if not waiting:
                raise UsageFault("--engines needs a name: executorch, mlx or all")
            engines = waiting.pop(0)
        elif argument.startswith("--engines="):
            engines = argument.partition("=")[2]
        else:
            rest.append(argument)
    return TestOptions(marks=marks, engines=_engines(engines), pytest_arguments=tuple(rest))


def run_checks(layout: Layout, options: TestOptions, console: Console) -> int:
    """Run everything, also after a failure; 0 when all passed."""
    python = str(layout.venv_python)
    node = node_tool.find_node(layout)
    if node is None:
        raise SetupFault(
            "Node, which the type checker runs on, is gone since set-up.",
            advice="Install Node again, or delete the cache folder in the home folder; then run the same command again",
        )
    checker = [node.node, str(NpmTools(layout).pyright), "--pythonpath", python]
    steps = {
        "ruff check": [python, "-m", "ruff", "check", "."],
        "ruff format": [python, "-m", "ruff", "format", "--check", "."],
        "pyright": checker,
    }
    failed: list[str] = []
    for name, argv in steps.items():
        console.line(f"== {name}")
        if _run(layout, argv) != 0:
            failed.append(name)
    console.line("== pytest")
    # The page's own tests look for Node on the path, where the one of the set-up is not.
    code = _run(layout, _pytest(python, options), node.environment)
    if failed:
        console.line(f"Failed before the tests: {', '.join(failed)} (see above).")
    return code or (1 if failed else 0)


def _pytest(python: str, options: TestOptions, *tests: str) -> list[str]:
    """The command line of pytest. Some files of tests run at a time; each may start servers, models and a browser.

    One more than there are cores: a test waits for a fifth of its time."""
    workers = min((os.cpu_count() or 1) + 1, MOST_WORKERS)
    argv = [python, "-m", "pytest", "-n", str(workers), "--dist", "loadfile"]
    marks = [] if options.marks is None else ["-m", options.marks]
    return [*argv, *marks, *tests, *options.pytest_arguments]


def run_engine_tests(layout: Layout, engine: str, options: TestOptions, console: Console) -> int:
    """Run the tests of one engine in its environment."""
    console.line(f"== pytest, {engine}")
    python = str(layout.engine(engine) / "bin" / "python")
    return _run(layout, _pytest(python, options, f"tests/engines/{engine}"))


def _run(layout: Layout, argv: Sequence[str], more: Mapping[str, str] | None = None) -> int:
    """Run a tool on the user's terminal to its end and return its exit code; raises Stopped when asked to end. more:
    of its environment.

    A Ctrl-C in a terminal reaches the tool as well, which then ends by itself; every other request is passed on.
    """
    sys.stdout.flush()
    env = {**server_environment(layout), **(more or {})}
    with StopRequest() as stop, subprocess.Popen(argv, cwd=layout.project, env=env) as child:
        passed_on_at = 0.0
        while True:
            try:
                code = child.wait(timeout=POLL_S)
                break
            except subprocess.TimeoutExpired:
                if stop.signum and not passed_on_at:
                    passed_on_at = time.monotonic() + (TERMINAL_GRACE_S if stop.signum == signal.SIGINT else 0.0)
                if passed_on_at and time.monotonic() >= passed_on_at:
                    child.send_signal(stop.signum)
                    passed_on_at = float("inf")
        stop.check()
    return code


def _engines(wanted: str) -> tuple[str, ...]:
    """The engines that were named. Raises UsageFault."""
    if not wanted:
        return ()
    known = (*ENGINES, *PLANNED_ENGINES)
    names = known if wanted == "all" else tuple(dict.fromkeys(wanted.split(",")))
    for name in names:
        if name not in known:
            raise UsageFault(f"There is no engine {name!r}; --engines knows {', '.join(known)} and all.")
    missing = [name for name in names if name not in ENGINES]
    if missing:
        raise UsageFault(
            f"The environment for {' and '.join(missing)} is not there yet: this version sets up "
            f"{', '.join(ENGINES)}. The tests of the built-in engine (llama.cpp) run without --engines."
        )
    return names
