"""The virtual environment: made beside the old one, then put in its place.

What is known about an environment lies inside it (`muse-set-up/`), so it lives and dies with it:
`environment.json` says that the environment itself was finished and which Python it was made from, `NAME.json` that
the lock NAME was installed to the end.

pip may be killed half way. It cannot repair its own half (it trusts the folder of facts that it finds, whatever is
missing beside it), so a lock is only ever installed where no other package is than those of the locks below it.
Otherwise the environment is made anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bootstrap import interpreters, pip_tool, uv_tool
from bootstrap.children import Runner
from bootstrap.interpreters import Interpreter
from bootstrap.stamps import fingerprint, read_stamp, write_stamp

NOTES = "muse-set-up"
# What venv and uv put into a new environment.
SEEDS = frozenset({"pip", "setuptools", "wheel"})


@dataclass(frozen=True)
class Environment:
    """A virtual environment at a path; it may be missing or broken."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def note(self, name: str) -> Path:
        return self.path / NOTES / name

    def is_sound(self) -> bool:
        """Whether it was finished and its Python is still the one it was made from.

        A patch release of the system's Python keeps it sound, another minor version does not (the packages lie in a
        folder named after it).
        """
        made = read_stamp(self.note("environment.json"))
        if not made or not os.access(self.python, os.X_OK):
            return False
        if _identity(self.python) == made.get("identity"):
            return True
        found = interpreters.probe(str(self.python))
        return found is not None and list(found.version[:2]) == made.get("version")

    @property
    def made_from(self) -> str | None:
        """Path of the Python that it was made from, when it was finished."""
        return read_stamp(self.note("environment.json")).get("from")

    def holds_only(self, *locks: Path) -> bool:
        """Whether no package is installed but pip and those of the given locks."""
        allowed = SEEDS.union(*(pip_tool.pins(lock) for lock in locks))
        return allowed.issuperset(self.packages())

    def has(self, name: str, lock: Path) -> bool:
        """Whether the lock was installed to the end, as it is now, and no package of it was changed since."""
        if read_stamp(self.note(f"{name}.json")).get("lock") != fingerprint(lock):
            return False
        return not self.missing(lock)

    def missing(self, lock: Path) -> dict[str, str]:
        """The pins of a lock whose package is not installed, or in another version. A build of the version (what stands
        behind its +) is none."""
        present = {name: version.partition("+")[0] for name, version in self.packages().items()}
        return {name: version for name, version in pip_tool.pins(lock).items() if present.get(name) != version}

    def packages(self) -> dict[str, str]:
        """Normalised name to version of every installed package, from the names of their folders alone."""
        found: dict[str, str] = {}
        for folder in self.path.glob("lib/python3.*/site-packages/*.dist-info"):
            name, _, version = folder.name[: -len(".dist-info")].rpartition("-")
            found[pip_tool.normal_name(name)] = version
        return found

    def install(self, runner: Runner, name: str, lock: Path) -> None:
        """Install a lock on top of what is there; only sound where `holds_only` the locks below it."""
        pip_tool.install(runner, self.python, lock)
        write_stamp(self.note(f"{name}.json"), {"lock": fingerprint(lock)})


def create(runner: Runner, path: Path, locks: Mapping[str, Path]) -> Environment:
    """An environment at `path` that these locks (name to file) can be installed into; raises SetupFault.

    One that a killed set-up left there is taken when it holds nothing but pip and locks that were finished; anything
    else that lies there is gone.
    """
    fresh = Environment(path)
    interpreter, refused = interpreters.find_interpreter(runner.layout.home)
    if interpreter is None:
        interpreter = uv_tool.fetch_python(runner, refused)
    finished = [lock for name, lock in locks.items() if fresh.has(name, lock)]
    if fresh.is_sound() and fresh.made_from == interpreter.path and fresh.holds_only(*finished):
        return fresh
    shutil.rmtree(path, ignore_errors=True)
    if not _create_whole(runner, interpreter, path):
        shutil.rmtree(path, ignore_errors=True)
        if interpreter.venv and interpreter.pip:
            _create_in_two_steps(runner, interpreter, path)
        else:
            uv_tool.make_environment(runner, interpreter, path)
    stamp = {"identity": _identity(fresh.python), "version": list(interpreter.version[:2]), "from": interpreter.path}
    write_stamp(fresh.note("environment.json"), stamp)
    return fresh


def _create_whole(runner: Runner, interpreter: Interpreter, path: Path) -> bool:
    """Let `venv` do everything; False when this Python's ensurepip is missing or broken, as on many a Debian."""
    if not (interpreter.venv and interpreter.ensurepip):
        return False
    finished = runner.run([interpreter.path, "-I", "-m", "venv", str(path)], watched=path)
    if finished.code != 0 and not any("ensurepip" in line for line in finished.lines):
        raise pip_tool.in_words(finished, "venv")
    return finished.code == 0


def _create_in_two_steps(runner: Runner, interpreter: Interpreter, path: Path) -> None:
    """An empty environment, then pip into it with the Python's own pip."""
    finished = runner.run([interpreter.path, "-I", "-m", "venv", "--without-pip", str(path)], watched=path)
    if finished.code != 0:
        raise pip_tool.in_words(finished, "venv")
    packages = path / "lib" / f"python{interpreter.version[0]}.{interpreter.version[1]}" / "site-packages"
    pip_tool.install(runner, Path(interpreter.path), runner.layout.lock_files / "pip.txt", target=packages)


def put_in_place(fresh: Environment, target: Path) -> Environment:
    """Move a finished environment to where it is used, and the one that was there out of the way."""
    _point_scripts_at(fresh.path, target)
    old = target.with_name(target.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    fresh.path.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return Environment(target)


def recover(target: Path) -> None:
    """Undo the first half of `put_in_place`, should a set-up have been killed between its two renames."""
    old = target.with_name(target.name + ".old")
    if old.exists() and not target.exists():
        old.rename(target)


def _point_scripts_at(here: Path, target: Path) -> None:
    """Rewrite the own path in the environment's scripts (`activate`, pip's launchers), since it is about to move."""
    for script in (*(here / "bin").iterdir(), here / "pyvenv.cfg"):
        if script.is_symlink() or not script.is_file():
            continue
        content = script.read_bytes()
        if b"\0" not in content and os.fsencode(here) in content:
            script.write_bytes(content.replace(os.fsencode(here), os.fsencode(target)))


def _identity(python: Path) -> str | None:
    """What changes when the file behind the environment's Python is another one: path, size and time."""
    real = os.path.realpath(python)
    try:
        status = os.stat(real)  # noqa: PTH116 - of the string that goes into the stamp
    except OSError:
        return None
    return f"{real} {status.st_size} {status.st_mtime_ns}"
