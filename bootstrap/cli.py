"""The command line of the set-up: which command, what it prints when something ends it, and the exit code.

Exit codes: 0 done, 1 a stage or check failed, 2 the command line was wrong, 128 + n ended by signal n.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap import launch
from bootstrap.console import Console, plain
from bootstrap.faults import SetupFault, StageFailed, Stopped, UsageFault
from bootstrap.layout import Layout, layout_from
from bootstrap.set_up import is_set_up, set_up
from bootstrap.stages import ENGINES, stages_for_run, stages_for_test

USAGE = """\
python3 -m bootstrap COMMAND

  run [OPTIONS]     set up what is missing, then start the server and the chat page
                    OPTIONS go to the server: --open, --no-open, --port N, --host ADDRESS,
                    --model FILE, --draft FILE, --keep-draft, --mmproj FILE, --context N,
                    --kv-memory MIB, --engine NAME, --log-level LEVEL
  test [OPTIONS]    set up what is missing, then check and test the project
                    --thorough also runs the longer tests, --full the slow ones, too;
                    --engines NAME[,NAME] runs the tests of other engines instead, each in its own
                    environment; everything else goes to pytest
  setup [--tests] [--engine NAME]
                    only set up (with --tests also what `test` needs, with --engine also that
                    engine's environment: executorch)
  native --source DIR
                    patch a checkout of ExecuTorch, so that its Muse Glimmer worker, which you build yourself,
                    can be cancelled; --undo takes the patch out again
  doctor            report what is there and what is not

Environment: MUSE_HOME    where everything is kept (default: .runtime in the project)
             MUSE_PYTHON  the Python to build the environment from (default: search)
"""


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code (`run` does not return when the server starts)."""
    for stream in (sys.stdout, sys.stderr):
        # Paths may hold what the terminal's encoding cannot show; that must not end a set-up.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    console = Console()
    layout = layout_from(os.environ)
    try:
        return _dispatch(list(arguments), layout, console)
    except UsageFault as fault:
        sys.stderr.write(f"{fault}\n")
        return 2
    except StageFailed as failed:
        _explain(
            layout, console, f"Set-up stopped in stage {failed.number} of {failed.total}, {failed.title}.", failed.fault
        )
        return 1
    except SetupFault as fault:
        _explain(layout, console, "Set-up could not go on.", fault)
        return 1
    except (Stopped, KeyboardInterrupt) as stopped:
        signum = stopped.signum if isinstance(stopped, Stopped) else signal.SIGINT
        console.line("Stopped. The same command goes on from here.")
        return 128 + signum


def _dispatch(arguments: list[str], layout: Layout, console: Console) -> int:
    command = arguments.pop(0) if arguments else "help"
    if command in ("help", "-h", "--help"):
        console.line(USAGE.rstrip())
        return 0
    if command == "run":
        return _run(arguments, layout, console)
    if command == "test":
        return _test(arguments, layout, console)
    if command == "setup":
        return _setup(arguments, layout, console)
    if command == "native":
        from bootstrap import native  # noqa: PLC0415 - `run` should not pay for it at every start

        return native.run(native.parse(arguments), layout, console)
    if command == "doctor":
        _refuse(arguments)
        from bootstrap import doctor  # noqa: PLC0415 - `run` should not pay for it at every start

        return doctor.report(layout, console)
    raise UsageFault(f"There is no command {command!r}.\n\n{USAGE.rstrip()}")


def _run(arguments: list[str], layout: Layout, console: Console) -> int:
    engine = _own_environment(_value_of("--engine", arguments))
    stages = stages_for_run(layout, engine)
    if not is_set_up(stages):
        if {"-h", "--help"} & set(arguments):
            console.line(USAGE.rstrip())
            return 0
        if engine:
            _check_artifact(engine, _value_of("--model", arguments))
        set_up(layout, stages, purpose="run", console=console)
    launch.serve(layout, arguments)
    return 0


def _check_artifact(engine: str, model: str) -> None:
    """Before a gigabyte is fetched for it; all else is checked by the server."""
    if not model:
        raise UsageFault(f"--engine {engine} needs --model: the folder of a .pte artifact.")
    if not Path(model).exists():
        raise UsageFault(f"There is nothing at {model}: --engine {engine} needs the folder of a .pte artifact.")


def _test(arguments: list[str], layout: Layout, console: Console) -> int:
    from bootstrap import checks  # noqa: PLC0415 - `run` should not pay for it at every start

    options = checks.parse(arguments)
    if not options.engines:
        set_up(layout, stages_for_test(layout), purpose="test", console=console)
        return checks.run_checks(layout, options, console)
    codes: list[int] = []
    for engine in options.engines:
        set_up(layout, stages_for_test(layout, engine), purpose="test", console=console)
        codes.append(checks.run_engine_tests(layout, engine, options, console))
    return max(codes)


def _setup(arguments: list[str], layout: Layout, console: Console) -> int:
    engine = _value_of("--engine", arguments)
    if engine and engine not in ENGINES:
        raise UsageFault(f"No engine {engine!r} has an environment to set up; there is one for {', '.join(ENGINES)}.")
    with_tests = "--tests" in arguments
    _refuse(
        [argument for argument in arguments if argument not in ("--tests", "--engine", f"--engine={engine}", engine)]
    )
    stages = (stages_for_test if with_tests else stages_for_run)(layout, engine)
    if not set_up(layout, stages, purpose="setup", console=console):
        console.line("Everything is set up.")
    return 0


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """The value of an option, in either form; empty when it is not there."""
    for place, argument in enumerate(arguments):
        if argument == option:
            if place + 1 == len(arguments):
                raise UsageFault(f"{option} needs a value.")
            return arguments[place + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return ""


def _own_environment(engine: str) -> str:
    return engine if engine in ENGINES else ""


def _refuse(arguments: list[str]) -> None:
    if arguments:
        raise UsageFault(f"Not understood: {' '.join(arguments)}\n\n{USAGE.rstrip()}")


def _explain(layout: Layout, console: Console, headline: str, fault: SetupFault) -> None:
    console.line()
    console.line(headline)
    console.line(f"What failed: {plain(fault.what)}")
    for line in fault.evidence:
        console.line(f"    {plain(line)[:300]}")
    advice = plain(fault.advice)
    console.line(f"What to do: {advice}{'' if advice.endswith('.') else '.'}")
    if layout.log.exists():
        console.line(f"The log: {layout.shown(layout.log)}")
