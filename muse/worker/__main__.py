"""Start of a worker process: `python -m muse.worker --engine ENGINE ...`; see command_line.py."""

from __future__ import annotations

from muse.worker.stdio import take_over

_COMMANDS_FD, _EVENTS_FD = take_over()  # before any other import: a library may print

import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402

from muse.protocol import Error  # noqa: E402
from muse.protocol_codec import encode_event  # noqa: E402
from muse.worker import exits  # noqa: E402
from muse.worker.command_line import WorkerOptions, parse  # noqa: E402
from muse.worker.loop import ProtocolLoop  # noqa: E402
from muse.worker.stdio import EventWriter  # noqa: E402


def _run_scripted(options: WorkerOptions) -> None:
    from muse.worker.engines.scripted import ScriptedEngine  # noqa: PLC0415
    from muse.worker.engines.scripted_faults import FaultPlayer, FaultWriter  # noqa: PLC0415
    from muse.worker.engines.scripted_script import ScriptFault, read_script  # noqa: PLC0415

    assert options.script is not None
    writer = FaultWriter(_EVENTS_FD, encode_event)
    try:
        script = read_script(options.script)
    except ScriptFault as fault:
        writer.send(Error(request_id=None, code="bad_request", message=str(fault), fatal=True))
        os._exit(exits.LOAD_FAILED)
    player = FaultPlayer(writer)
    engine = ScriptedEngine(script, player, has_draft=options.draft is not None)
    ProtocolLoop(engine, writer, _COMMANDS_FD, player.before_command).run()


def _run_llamacpp(options: WorkerOptions) -> None:
    from muse.worker.engines.llamacpp.engine import LlamaCppEngine  # noqa: PLC0415

    writer = EventWriter(_EVENTS_FD, encode_event)
    ProtocolLoop(LlamaCppEngine(options, writer.send), writer, _COMMANDS_FD).run()


def _run_native(options: WorkerOptions) -> None:
    from muse.worker.engines.native.engine import NativeEngine  # noqa: PLC0415

    writer = EventWriter(_EVENTS_FD, encode_event)
    ProtocolLoop(NativeEngine(options, writer.send), writer, _COMMANDS_FD).run()


def _run_executorch(options: WorkerOptions) -> None:
    from muse.worker.engines.executorch.engine import ExecuTorchEngine  # noqa: PLC0415

    ProtocolLoop(ExecuTorchEngine(options), EventWriter(_EVENTS_FD, encode_event), _COMMANDS_FD).run()


_RUN = {
    "scripted": _run_scripted,
    "llamacpp": _run_llamacpp,
    "executorch": _run_executorch,
    "native": _run_native,
}


def main() -> None:
    """Run a worker; the process ends in here."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        options = parse(sys.argv[1:])
    except SystemExit as stop:
        os._exit(exits.USAGE if stop.code else exits.ASKED)
    _RUN[options.engine](options)


main()
