"""Hands over to the server: this process becomes it, so signals and the exit code need nobody in between."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from bootstrap.layout import Layout


def server_environment(layout: Layout) -> dict[str, str]:
    """The environment of everything that runs from the project folder with the set-up's Python.

    The user's own module path is replaced, since packages on it would shadow the locked ones. The home folder is
    named, so that server and set-up can never mean different ones.
    """
    env = dict(os.environ)
    for name in ("PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        env.pop(name, None)
    env["PYTHONPATH"] = str(layout.project)
    env["MUSE_HOME"] = str(layout.home)
    return env


def serve(layout: Layout, arguments: Sequence[str]) -> None:
    """Become `muse serve`; returns never (raises OSError when the environment's Python cannot be started).

    The current folder stays the user's, so that relative paths in the arguments mean what they say; safe path mode
    keeps modules that lie there from being imported.
    """
    python = str(layout.venv_python)
    env = server_environment(layout)
    env["PYTHONSAFEPATH"] = "1"
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(python, [python, "-m", "muse", "serve", *arguments], env)
