"""launch.command: found from anywhere, with any Python, and its errors stay on the screen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).parents[2] / "launch.command"
HANG_GUARD_S = 60
REPORT = """\
import os, sys
print("CWD", os.getcwd())
print("ARGS", sys.argv[1:])
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with spaces that holds the launcher and a set-up that only reports how it was called."""
    folder = tmp_path / "my play ground"
    (folder / "bootstrap").mkdir(parents=True)
    (folder / "bootstrap" / "__init__.py").touch()
    (folder / "bootstrap" / "__main__.py").write_text(REPORT)
    shutil.copy2(LAUNCHER, folder / LAUNCHER.name)
    return folder


def launch(script: Path, *arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", str(script), *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_GUARD_S,
        check=False,
    )


def test_it_can_be_started_by_a_double_click() -> None:
    """Finder needs the executable bit and the first line."""
    assert os.access(LAUNCHER, os.X_OK)
    assert LAUNCHER.read_text().startswith("#!/bin/bash\n")


def test_it_uses_nothing_that_old_bash_lacks() -> None:
    """A Mac has bash 3.2: no associative arrays, no case conversion, no mapfile, no |&, no readlink -f."""
    text = "\n".join(line for line in LAUNCHER.read_text().splitlines() if not line.lstrip().startswith("#"))

    for newer in (
        "declare -A",
        "local -A",
        ",,}",
        "^^}",
        "mapfile",
        "readarray",
        "|&",
        "&>>",
        "readlink -f",
        "local -n",
        "[[",
    ):
        assert newer not in text


def test_it_runs_the_project_from_elsewhere(project: Path, tmp_path: Path) -> None:
    """Started by its full path, it works in its own folder and passes arguments on."""
    done = launch(project / "launch.command", "--port", "4000", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert f"CWD {project}" in done.stdout
    assert "ARGS ['run', '--open', '--port', '4000']" in done.stdout


def test_it_follows_links_to_itself(project: Path, tmp_path: Path) -> None:
    """An absolute link to a relative link to the file still finds the project."""
    (project / "near").symlink_to("launch.command")
    desktop = tmp_path / "desk top"
    desktop.mkdir()
    (desktop / "Playground").symlink_to(project / "near")

    done = launch(desktop / "Playground", cwd=desktop)

    assert done.returncode == 0, done.stderr
    assert f"CWD {project}" in done.stdout


def test_failure_is_said_and_passed_on(project: Path) -> None:
    """The exit code goes on, with a line that says so; a Ctrl-C is no failure."""
    failed = launch(project / "launch.command", cwd=project, CODE="7")
    stopped = launch(project / "launch.command", cwd=project, CODE="130")

    assert failed.returncode == 7
    assert "exit code 7" in failed.stderr
    assert stopped.returncode == 130
    assert stopped.stderr == ""


def test_without_python_it_says_what_to_do(project: Path, tmp_path: Path) -> None:
    """A machine whose Pythons are too old or stubs gets instructions, not a traceback."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dirname", "uname", "readlink"):
        (tools / name).symlink_to(shutil.which(name) or name)
    text = (project / "launch.command").read_text()
    # The absolute places to look in exist on test machines too.
    (project / "launch.command").write_text(
        text.replace("/opt/homebrew/bin /usr/local/bin", "/no").replace("/usr/bin;", "/no;")
    )
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)

    done = launch(project / "launch.command", cwd=project, PATH=str(tools), HOME=str(tmp_path))

    assert done.returncode == 1
    assert "No Python 3.9 or newer was found" in done.stderr
    assert "python3-venv" in done.stderr


def test_a_stray_copy_is_told_where_it_belongs(tmp_path: Path) -> None:
    """A copy on the desktop has no project around it."""
    shutil.copy2(LAUNCHER, tmp_path / "launch.command")

    done = launch(tmp_path / "launch.command", cwd=tmp_path)

    assert done.returncode == 1
    assert "keep launch.command in the project folder" in done.stderr


def test_apple_s_stub_is_not_started(project: Path, tmp_path: Path) -> None:
    """Without the developer tools, /usr/bin/python3 on a Mac only opens a dialog, so it is not even asked."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"uname": "echo Darwin", "xcode-select": "exit 2"}.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for name in ("dirname", "readlink"):
        (tools / name).symlink_to(shutil.which(name) or name)
    script = project / "launch.command"
    stub = tmp_path / "stub"
    stub.write_text(f"#!/bin/sh\ntouch '{tmp_path}/asked'\nexec '{sys.executable}' \"$@\"\n")
    stub.chmod(0o755)
    text = (
        script.read_text()
        .replace("/opt/homebrew/bin /usr/local/bin", "/no")
        .replace('"$HOME/.local/bin" /usr/bin;', '"$HOME";')
    )
    script.write_text(text.replace("/usr/bin/python3", str(tmp_path / "home" / "python3")))
    (tmp_path / "home").mkdir()
    stub.rename(tmp_path / "home" / "python3")

    done = launch(script, cwd=project, PATH=str(tools), HOME=str(tmp_path / "home"))

    assert done.returncode == 1
    assert not (tmp_path / "asked").exists()
