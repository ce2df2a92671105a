"""Every scripted case of the catalog against one long-lived server, and the table against the page."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.catalog import ROWS, TEXT, WORDS, Case, Recovers, Row, Sees, cases, markdown_table
from tests.faults.server import FaultServer, whole

pytestmark = pytest.mark.thorough

HERE = Path(__file__).resolve().parent
BY_RESTART = ("start", "load", "ready")
DEATHS_ON_THE_WAY = {Recovers.REPLACED: 1, Recovers.KILLED: 1, Recovers.IGNORED: 0, Recovers.NOT_NEEDED: 0}


@pytest.mark.parametrize(
    ("row", "case"),
    [pytest.param(row, case, id=case.name, marks=[pytest.mark.slow] * case.is_slow) for row, case in cases()],
)
def test_the_user_sees_what_the_table_says(fault_server: FaultServer, row: Row, case: Case) -> None:
    """Commit the fault, compare answer and recovery with the row; afterwards the system is well."""
    epoch = fault_server.epoch()
    fault_server.arm(case)
    restarted = case.phase in BY_RESTART
    if restarted:
        fault_server.restart()
    expected_epoch = epoch + restarted + DEATHS_ON_THE_WAY[row.recovers]
    if case.phase == "idle":
        fault_server.wait_epoch(expected_epoch)
    seen = fault_server.ask(case)
    assert fault_server.committed(case)
    assert seen.metrics is not None, seen
    match row.sees:
        case Sees.NOTHING | Sees.WAITS:
            assert whole(seen), seen
            # A worker that is being replaced, or dies right after its ready, may have had the request for a moment.
            assert seen.metrics["resumed"] <= {"start": 1, "load": 1, "ready": 2}.get(case.phase, 0)
        case Sees.GOES_ON:
            assert whole(seen), seen
            assert seen.metrics["resumed"] == 1
        case Sees.CANCELLED:
            assert seen.metrics["cancelled"] is True
            assert seen.error is None
            assert seen.text.startswith("word ")
            assert seen.done_markers == 1
        case _:
            pytest.fail(f"no scripted case can show {row.sees}")
    fault_server.wait_epoch(expected_epoch)
    fault_server.check_well()
    assert fault_server.epoch() == expected_epoch
    if row.recovers is Recovers.NOT_NEEDED and row.sees is Sees.WAITS:  # long enough to be seen
        assert any("loading" in comment for comment in seen.comments)


def test_no_barrier_was_hit(fault_server: FaultServer) -> None:
    """What the barriers around strangers log never happened: every fault above is an expected event."""
    log = fault_server.log()
    for bug in ("Traceback", "sink-failed", "turn-failed", "barrier"):
        assert bug not in log, log[max(0, log.find(bug) - 2000) : log.find(bug) + 2000]


def test_every_row_has_its_proof() -> None:
    """Each test that a row names exists, and each scripted row names the parametrised test above."""
    known: dict[Path, set[str]] = {}
    for row in ROWS:
        assert row.proof
        assert bool(row.cases) == any(name.startswith("test_catalog::") for name in row.proof), row.fault
        for name in row.proof:
            file, _, function = name.partition("::")
            path = (HERE / f"{file}.py").resolve()
            if path not in known:
                tree = ast.parse(path.read_text())
                known[path] = {
                    node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                }
            assert function in known[path], name


def test_the_architecture_page_shows_this_table() -> None:
    """Documentation cannot drift."""
    assert markdown_table() in (HERE.parents[1] / "ARCHITECTURE.md").read_text()


def test_the_words_spell_the_text() -> None:
    """The catalog's text is what its tokens are."""
    parts = [bytes.fromhex(word["hex"]) if isinstance(word, dict) else word.encode() for word in WORDS]
    assert b"".join(parts).decode() == TEXT
