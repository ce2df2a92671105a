"""What git says about a source folder that the user brings; only asks, changes nothing."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Network disks can be slow; a git that takes longer is taken for one that cannot answer.
ANSWER_WITHIN_S = 60.0


@dataclass(frozen=True)
class Checkout:
    """`commit` is empty when it is not known, then `unknown_why` says why; `changed` are tracked, changed files."""

    commit: str
    unknown_why: str
    changed: tuple[str, ...]


def look_at(folder: Path) -> Checkout:
    """Ask git about `folder`. A folder inside somebody else's checkout is not taken for one itself."""
    if not (folder / ".git").exists():
        return Checkout("", "it is no git checkout", ())
    commit, why = _ask(folder, "rev-parse", "--verify", "HEAD")
    if why:
        return Checkout("", why, ())
    status, _ = _ask(folder, "status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all")
    # Two letters and a blank before each name; a renamed file's old name is an entry of its own without them.
    changed = [entry[3:] for entry in status.split("\0") if entry[2:3] == " "]
    return Checkout(commit.strip(), "", tuple(changed))


def _ask(folder: Path, *arguments: str) -> tuple[str, str]:
    """git's answer, and why there is none."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        asked = subprocess.run(
            # Whoever has git watch their files would get a process that stays for each folder asked about.
            ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],
            env={**env, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except FileNotFoundError:
        return "", "there is no git on this machine"
    except subprocess.TimeoutExpired:
        return "", "git does not answer"
    if asked.returncode != 0:
        said = asked.stderr.decode(errors="replace").strip().splitlines()
        return "", f"git says: {said[0] if said else f'exit code {asked.returncode}'}"
    return asked.stdout.decode(errors="surrogateescape"), ""
