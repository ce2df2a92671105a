"""The command line: `muse serve` and `muse bench`.

Exit status: 0 asked to stop, 1 fault, 2 wrong usage, 4 the port cannot be had.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from muse import __version__
from muse.settings import DEFAULT_HOST, DEFAULT_PORT, ENGINES, POSITION_ORDERS, Settings
from muse.standard_streams import secure_standard_streams

MAX_PORT: Final = 65535


def _port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= port <= MAX_PORT:
        raise argparse.ArgumentTypeError(f"{port} is not between 0 and {MAX_PORT} (0 picks a free one)")
    return port


def _at_least_one(of_what: str, too_few: str) -> Callable[[str], int]:
    """Reads a number of something, of which there must be one."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {of_what}") from None
        if number < 1:
            raise argparse.ArgumentTypeError(too_few)
        return number

    return read


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muse", description="A private chat server and page on your own machine.")
    parser.add_argument("--version", action="version", version=f"muse {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve the chat page and the API")
    serve.add_argument(
        "--host", default=DEFAULT_HOST, help="address to listen on (default: %(default)s, this machine only)"
    )
    serve.add_argument(
        "--port", type=_port, default=DEFAULT_PORT, help="port (default: %(default)s; 0 picks a free one)"
    )
    serve.add_argument(
        "--model", type=Path, help="model file, or the folder of a .pte artifact (default: the built-in model)"
    )
    serve.add_argument(
        "--draft", type=Path, metavar="FILE", help="the model's DFlash draft: guesses ahead, for more tokens a second"
    )
    serve.add_argument(
        "--keep-draft", action="store_true", help="keep the draft also when it is found to cost more than it gives"
    )
    serve.add_argument("--mmproj", type=Path, metavar="FILE", help="the model's image projector: for pictures")
    serve.add_argument(
        "--picture-positions",
        choices=POSITION_ORDERS,
        help="order of the positions in pictures that are not square (executorch; default: rows)",
    )
    serve.add_argument(
        "--engine", choices=ENGINES, default="llamacpp", help="what runs the model (default: %(default)s)"
    )
    serve.add_argument(
        "--worker-bin",
        type=Path,
        metavar="PROGRAM",
        help="with --engine native: your muse_glimmer_worker",
    )
    serve.add_argument(
        "--worker-arg",
        action="append",
        default=[],
        metavar="=--NAME=VALUE",
        help="with --engine native: a flag of that program's own, any number of times",
    )
    serve.add_argument("--model-id", metavar="NAME", help="with --engine native: what the model is called")
    serve.add_argument(
        "--context",
        type=_at_least_one("tokens", "the context must have at least one token"),
        metavar="TOKENS",
        help="tokens a conversation may have (default: what the model allows)",
    )
    serve.add_argument(
        "--kv-memory",
        type=_at_least_one("MiB", "conversations need at least 1 MiB"),
        metavar="MIB",
        help="most memory for conversations, in MiB (default: a quarter of this machine's)",
    )
    serve.add_argument(
        "--threads",
        type=_at_least_one("threads", "somebody has to compute: at least 1 thread"),
        metavar="N",
        help="threads that compute on the processor (default: the engine's choice)",
    )
    serve.add_argument(
        "--open", action=argparse.BooleanOptionalAction, default=False, help="open the page in the browser"
    )
    serve.add_argument("--log-level", choices=("DEBUG", "INFO", "WARNING", "ERROR"), default="INFO")
    commands.add_parser("bench", help="measure speed (see `muse bench --help`)", add_help=False)
    return parser


def _check_engine_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with a usage error where an engine has no use for an option."""
    if options.engine == "scripted" and options.mmproj is not None:
        parser.error("--engine scripted sees no pictures: leave --mmproj out")
    if options.engine != "executorch":
        if options.picture_positions is not None:
            parser.error("--picture-positions is for --engine executorch")
        return
    if options.model is None:
        parser.error("--engine executorch needs --model: the folder of a .pte artifact")
    for name in ("draft", "mmproj"):
        if getattr(options, name) is not None:
            parser.error(f"--engine executorch has that inside its artifact: leave --{name} out")
    if options.keep_draft:
        parser.error("--engine executorch does not watch its draft: leave --keep-draft out")
    if options.kv_memory is not None:
        parser.error("--engine executorch has the cache that its artifact was made with: leave --kv-memory out")


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()


def _check_native(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with a usage text when options are given that the engine would not look at, or others are missing."""
    if options.engine == "native":
        for option, value in (("--model", options.model), ("--worker-bin", options.worker_bin)):
            if value is None:
                parser.error(f"--engine native needs {option}")
        for name in ("draft", "keep_draft", "mmproj", "kv_memory", "threads"):
            if getattr(options, name):
                option = name.replace("_", "-")
                parser.error(f"--{option} is nothing to --engine native: the artifact brings what it needs")
    elif options.worker_bin or options.worker_arg or options.model_id:
        parser.error("--worker-bin, --worker-arg and --model-id are for --engine native")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    secure_standard_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["bench"]:
        from muse.bench.cli import main as bench  # noqa: PLC0415  # only who measures pays for it

        return bench(given[1:])
    parser = _parser()
    options = parser.parse_args(given)
    _check_native(parser, options)
    _check_engine_options(parser, options)
    settings = Settings(
        host=options.host,
        port=options.port,
        engine=options.engine,
        model=_absolute(options.model),
        draft=_absolute(options.draft),
        keep_draft=options.keep_draft,
        mmproj=_absolute(options.mmproj),
        picture_positions=options.picture_positions,
        context=options.context,
        kv_memory_mib=options.kv_memory,
        threads=options.threads,
        worker_bin=_absolute(options.worker_bin),
        worker_args=tuple(options.worker_arg),
        model_id=options.model_id,
        open_page=options.open,
    )
    if not Path(settings.worker_python).exists():
        sys.stderr.write(
            f"muse: the environment of {settings.engine} is not there ({settings.worker_python}): run "
            f"`python3 -m bootstrap setup --engine {settings.engine}`\n"
        )
        return 1
    # Imported late: the command line must answer --help and mistakes without loading the server.
    from muse.serve_command import serve  # noqa: PLC0415

    return serve(settings, log_level=options.log_level)
