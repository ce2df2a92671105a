"""The layers: who may import whom (ARCHITECTURE.md, "Layers"), read from the source itself."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
OF_THE_WORKER = (
    "muse.worker",
    "muse.protocol",
    "muse.errors",
    "muse.settings",
    "muse.exhaustion",
    "muse.attention",
    "muse.sizes",
)
MAY_START_ACTORS = {"muse/serve_command.py"}


def sources(package: str) -> list[Path]:
    return sorted((PROJECT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module with whether the import runs when the file is loaded."""
    tree = ast.parse(path.read_text(), str(path))
    late = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or _is_type_checking(node)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node not in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module, node not in late
            yield from ((f"{node.module}.{alias.name}", node not in late) for alias in node.names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


@pytest.mark.parametrize("path", sources("muse"), ids=name_of)
def test_the_core_does_not_know_the_actors(path: Path) -> None:
    """muse imports nothing from actors, but for the command that starts them, and that one late."""
    for module, at_load in imports(path):
        if module.split(".")[0] == "actors":
            assert name_of(path) in MAY_START_ACTORS, f"{path} imports {module}"
            assert not at_load, f"{path} imports {module} at load"


@pytest.mark.parametrize("path", sources("muse/worker"), ids=name_of)
def test_the_worker_knows_neither_trio_nor_the_front(path: Path) -> None:
    """A worker must start fast and fail alone."""
    for module, _ in imports(path):
        assert module.split(".")[0] not in {"trio", "quart", "quart_trio", "hypercorn", "actors"}, module
        if module.startswith("muse."):
            assert module.startswith(OF_THE_WORKER), module


@pytest.mark.parametrize("path", [*sources("bootstrap"), PROJECT / "muse/worker/guard.py"], ids=name_of)
def test_what_runs_before_the_installation_needs_only_the_standard_library(path: Path) -> None:
    """bootstrap runs before anything is installed; the guard must start at once."""
    for module, _ in imports(path):
        root = module.split(".")[0]
        assert root in sys.stdlib_module_names or root == "bootstrap", module


@pytest.mark.parametrize("path", sources("actors"), ids=name_of)
def test_actors_do_not_reach_into_the_engines(path: Path) -> None:
    """The main process makes no model call: it knows the worker's command line and protocol only."""
    for module, _ in imports(path):
        assert module.split(".")[0] not in {"xllamacpp", "mlx", "torch", "executorch"}, module
        assert not module.startswith("muse.worker.engines"), module


def module_path(module: str) -> Path | None:
    path = PROJECT / Path(*module.split("."))
    return next((found for found in (path.with_suffix(".py"), path / "__init__.py") if found.is_file()), None)


def test_the_main_process_renders_no_template() -> None:
    """Nothing that actors import, directly or not, runs Jinja on a model's template: that is for isolated processes."""
    pending = sources("actors")
    reached: set[Path] = set()
    while pending:
        path = pending.pop()
        if path in reached:
            continue
        reached.add(path)
        for module, _ in imports(path):
            assert module.split(".")[0] != "jinja2", f"{name_of(path)} imports {module}"
            found = module_path(module) if module.split(".")[0] in ("muse", "actors") else None
            if found is not None:
                pending.append(found)
    assert PROJECT / "muse/chat/render_wire.py" in reached
    assert PROJECT / "muse/chat/template.py" not in reached


@pytest.mark.parametrize("path", [*sources("actors"), PROJECT / "muse/serve_command.py"], ids=name_of)
def test_threads_are_started_in_one_place(path: Path) -> None:
    """The system may refuse a thread; `actors/threads.py` knows what to do then."""
    if name_of(path) == "actors/threads.py":
        return
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    imported = {module for module, _ in imports(path)}
    assert not used & {"to_thread", "Thread", "ThreadPoolExecutor", "run_in_executor"}
    assert not imported & {"threading", "concurrent.futures", "trio.to_thread", "asyncio"}
