"""The headers that the patch adds, compiled and run: a cancel is found wherever it lies, and no line gets lost.

Needs a C++ compiler; without one the tests are skipped, unless MUSE_REQUIRE_COMPILER=1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bootstrap.insertions import read_patch
from bootstrap.layout import PROJECT
from bootstrap.native import PATCH

SOURCE = Path(__file__).with_name("worker_stdin_cases.cpp")
HANG_GUARD_S = 300
CASES = (
    "request_and_cancel_in_one_write",
    "cancel_split_anywhere",
    "cancel_after_the_terminal",
    "two_cancels",
    "end_in_decode",
    "end_inside_a_line",
    "other_line_is_kept",
    "long_line_stays_in_the_pipe",
    "cancel_across_the_end_of_the_buffer",
    "longest_line_that_is_taken",
    "descriptor_that_does_not_block",
    "signals_while_it_waits",
    "program_without_a_poll",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases, compiled against the headers as the patch writes them, every warning an error."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)
    if compiler is None:
        words = "no C++ compiler found (set CXX to its path)"
        if os.environ.get("MUSE_REQUIRE_COMPILER") == "1":
            pytest.fail(words)
        pytest.skip(words)
    folder = tmp_path_factory.mktemp("headers")
    for change in read_patch(PROJECT / PATCH).changes:
        if change.is_new_file:
            header = folder / "executorch" / change.path
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_bytes(change.applied_to(b""))
    warnings = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-pedantic", "-Werror")
    built = folder / "cases"
    compiling = [compiler, "-std=c++17", *warnings, "-I", folder, SOURCE, "-o", built, "-pthread"]
    said = subprocess.run(compiling, capture_output=True, text=True, timeout=HANG_GUARD_S)
    assert said.returncode == 0, said.stderr
    return built


@pytest.mark.parametrize("case", CASES)
def test_case_holds(program: Path, case: str) -> None:
    """One case in a process of its own, since the hook is the process's."""
    ran = subprocess.run([program, case], capture_output=True, text=True, timeout=HANG_GUARD_S)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_no_case_is_left_out(program: Path) -> None:
    """The list above is the program's."""
    ran = subprocess.run([program, "--list"], capture_output=True, text=True, timeout=HANG_GUARD_S)

    assert sorted(CASES) == ran.stdout.split()
