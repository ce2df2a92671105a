"""A project folder in miniature: the real set-up code with tiny packages, page and model."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.layout import PROJECT, Layout
from tests.bootstrap import parts

HANG_GUARD_S = 90
MODEL = b"GGUF" + bytes(range(256)) * 400
MODEL_NAME = "tiny.gguf"
PAGE_SCRIPT = b'import{h}from"tiny/core";export{h};\n//# sourceMappingURL=tiny.mjs.map\n'
ECHO_SERVER = """\
import json, os, sys
print(json.dumps({"argv": sys.argv[1:], "cwd": os.getcwd(), "home": os.environ["MUSE_HOME"], "path": sys.path[:3]}))
sys.exit(7)
"""


def clean_environment() -> dict[str, str]:
    """The environment without what points at the project under test: no set-up here may touch its home folder."""
    foreign = ("PIP_", "MUSE_", "npm_", "PYTHONPATH", "PYTHONSAFEPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


@dataclass
class MiniProject:
    """Where the project lies, and how to run its set-up."""

    root: Path
    wheels: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        return Layout(project=self.root, home=self.root / ".runtime")

    @property
    def locks(self) -> Path:
        return self.layout.lock_files

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start `python -m bootstrap`; output in one stream."""
        return subprocess.Popen(
            [sys.executable, "-m", "bootstrap", *arguments],
            cwd=self.root,
            env={**clean_environment(), **self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **env: str) -> tuple[int, str]:
        """Run a command to its end; returns the exit code and the output."""
        with self.start(*arguments, **env) as child:
            output, _ = child.communicate(timeout=HANG_GUARD_S)
        return child.returncode, output

    def write_lock(self, name: str, *wheels: Path) -> None:
        (self.locks / f"{name}.txt").write_text("".join(parts.lock_line(wheel) for wheel in wheels))

    def tiny_wheel(self, name: str, version: str = "1.0") -> Path:
        """Make a wheel with one module and put it where pip finds it."""
        return parts.make_wheel(self.wheels, name, version, {f"{name}.py": f"VERSION = {version!r}\n".encode()})


def make(folder: Path) -> MiniProject:
    """Lay a project that needs no network; nothing is set up in it yet."""
    project = MiniProject(root=folder / "mini project", wheels=folder / "wheels")
    shutil.copytree(PROJECT / "bootstrap", project.root / "bootstrap", ignore=shutil.ignore_patterns("__pycache__"))
    project.write_lock("run", project.tiny_wheel("tiny_run"))
    project.write_lock("test", project.tiny_wheel("tiny_test"))
    carrier = parts.make_wheel(project.wheels, "tiny_model", "1.0", {f"tiny_model/{MODEL_NAME}": MODEL})
    project.write_lock("model", carrier)
    model = {
        "title": "Tiny",
        "wheel": carrier.name,
        "file": MODEL_NAME,
        "size_bytes": len(MODEL),
        "sha256": hashlib.sha256(MODEL).hexdigest(),
    }
    (project.locks / "model.json").write_text(json.dumps(model))
    scripts = {"dist/tiny.mjs": PAGE_SCRIPT, "dist/core.mjs": b"export const h = 1;\n"}
    parts.make_npm_folder(project.root / "web_dist", folder / "tiny.tgz", "tiny", scripts)
    checker = {"index.js": b"console.log('checked')\n"}
    parts.make_npm_folder(project.locks / "test-npm", folder / "pyright.tgz", "pyright", checker)
    listed = {
        "files": [
            {"from": "tiny/dist/tiny.mjs", "to": "tiny.js"},
            {"from": "tiny/dist/core.mjs", "to": "deep/core.js"},
        ],
        "specifiers": {"tiny/core": "./deep/core.js"},
    }
    (project.root / "web_dist" / "vendor.json").write_text(json.dumps(listed))
    (project.root / "muse").mkdir()
    (project.root / "muse" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    (project.root / "muse" / "__main__.py").write_text(ECHO_SERVER)
    project.env = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(project.wheels),
        "PIP_NO_CACHE_DIR": "1",
        "npm_config_offline": "true",
    }
    return project


def copy(original: MiniProject, folder: Path) -> MiniProject:
    """A copy that can be broken: project and wheels, with whatever was set up in the original."""
    project = MiniProject(root=folder / original.root.name, wheels=folder / "wheels")
    shutil.copytree(original.wheels, project.wheels)
    shutil.copytree(original.root, project.root, symlinks=True, ignore=shutil.ignore_patterns("venv"))
    # Links to the same files are enough for the environment: nothing writes into a file of it, only beside and over.
    shutil.copytree(original.layout.venv, project.layout.venv, symlinks=True, copy_function=os.link)
    project.env = {**original.env, "PIP_FIND_LINKS": str(project.wheels)}
    return project
