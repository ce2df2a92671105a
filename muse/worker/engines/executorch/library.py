"""The wheel and torch, behind plain arrays: the one module that touches them. Written for executorch 1.5.1.

Of the wheel only its extension module is imported. `executorch.runtime` is a thin layer over it that brings the whole
exporter along: four seconds more at each start, and a dozen packages. A method is loaded once and has its own caches,
so whoever evaluates must always use the same one.

A call holds the interpreter's lock until it is over, and nothing can end it before (contracts/pte-contract.md section
10).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from muse.exhaustion import reason_of
from muse.worker.child import plain
from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.decoding import Array

# ScalarType numbers of the runtime, which it shares with torch.
DTYPES: Final = {4: "int64", 5: "float16", 6: "float32", 11: "bool", 15: "bfloat16"}


_PLACE: Final = re.compile(r"^\[\S+\] ")
"""Where in its source a line of the log was written."""
_LAST_WORDS: Final = 3

Tensors = list[tuple[str, tuple[int, ...]]]


class Library:
    """torch and the wheel's extension module, imported when this is made. Raises EngineFault."""

    def __init__(self, threads: int | None) -> None:
        try:
            # First: the extension finds torch's libraries because they are loaded already.
            self.torch: Any = importlib.import_module("torch")
            self.binding: Any = importlib.import_module("executorch.extension.pybindings._C")
        except (ImportError, OSError) as fault:
            raise EngineFault(
                "bad_request",
                f"ExecuTorch is not installed here ({reason_of(fault)}): run "
                "`python3 -m bootstrap setup --engine executorch`",
                fatal=True,
            ) from fault
        if threads is not None:
            self.torch.set_num_threads(threads)
            self.binding._unsafe_reset_threadpool(threads)

    @property
    def versions(self) -> str:
        """Both versions in words."""
        return f"executorch {version('executorch')}, torch {self.torch.__version__}"

    @property
    def backends(self) -> frozenset[str]:
        """Names of the delegates that this wheel has."""
        return frozenset(self.binding._get_registered_backend_names())

    def view(self, tensor: Any) -> Array:
        """A tensor as an array over the same memory; bfloat16, which NumPy lacks, as the same bits in int16."""
        if tensor.dtype == self.torch.bfloat16:
            tensor = tensor.view(self.torch.int16)
        return tensor.numpy()

    def array(self, tensor: Any) -> Array:
        """The same as an array of its own."""
        return self.view(tensor).copy()

    def tensor(self, array: Array, dtype: str) -> Any:
        """An array as a tensor of that type, sharing its memory where the type allows it."""
        kind = getattr(self.torch, dtype)
        tensor = self.torch.from_numpy(np.ascontiguousarray(array))
        if kind == self.torch.bfloat16 and tensor.dtype == self.torch.int16:
            return tensor.view(kind)
        return tensor.to(kind)


class Program:
    """One `.pte` file. names: of its methods.

    Within one program object methods share their memory on the host, caches and results included, and would overwrite
    each other's. So a method that has caches, or whose result is looked at beyond another's call, is loaded from an
    object of its own; all others from one. Each object has memory for the largest of all methods, which is half a
    gigabyte where logits of a whole chunk come out, so there are no more than needed. The file is mapped, and the
    weights are the delegate's affair: a method has its own, whichever object it is loaded from (section 9).
    """

    def __init__(self, library: Library, path: Path) -> None:
        self.library = library
        self._path = path
        self._program = self._open()
        count: int = self._program.num_methods()
        self.names = frozenset(str(self._program.get_method_name(number)) for number in range(count))

    def _open(self) -> Any:
        binding = self.library.binding

        def load() -> Any:
            return binding._load_program(str(self._path), program_verification=binding.Verification.InternalConsistency)

        try:
            return load()
        except RuntimeError as fault:
            raise EngineFault(
                "bad_request",
                f"ExecuTorch cannot load {self._path}: {_reason(fault, load)}. It is damaged (fetch it again), or made "
                f"by another version than this one ({self.library.versions})",
                fatal=True,
            ) from fault

    def constant(self, name: str) -> object:
        """What a method without inputs gives."""
        return self._program.load_method(name)([])[0]

    def method(self, name: str, *, keeps: bool) -> Method:
        """Load a method: its weights and caches. keeps: it has caches, or its results are kept. Raises EngineFault."""
        program = self._open() if keeps else self._program
        try:
            return Method(program.load_method(name), name, program)
        except RuntimeError as fault:
            reason = _reason(fault, lambda: program.load_method(name))
            raise EngineFault(
                "engine_error", f"ExecuTorch cannot load the method {name} of this program: {reason}", fatal=True
            ) from fault

    def inputs(self, name: str) -> Tensors:
        """Type and largest shape of each input."""
        meta: Any = self._program.method_meta(name)
        return _described(meta.input_tensor_meta(number) for number in range(meta.num_inputs()))

    def outputs(self, name: str) -> Tensors:
        """Type and largest shape of each result."""
        meta: Any = self._program.method_meta(name)
        return _described(meta.output_tensor_meta(number) for number in range(meta.num_outputs()))


def _reason(fault: RuntimeError, again: Callable[[], object]) -> str:
    """Why a load failed. The exception has a number; the words are on the log alone, which is heard by failing once
    more."""
    log = io.StringIO()
    # The extension writes its log by Python's own standard error.
    with contextlib.redirect_stderr(log), contextlib.suppress(RuntimeError):
        again()
    lines = [_PLACE.sub("", line) for line in log.getvalue().splitlines()]
    return f"{fault} ({'; '.join(map(plain, lines[-_LAST_WORDS:]))})" if lines else str(fault)


def _described(infos: Iterable[Any]) -> Tensors:
    return [(DTYPES.get(info.dtype(), f"type {info.dtype()}"), tuple(info.sizes())) for info in infos]


class Method:
    """One loaded method."""

    def __init__(self, method: Any, name: str, program: Any) -> None:
        self._method = method
        self._name = name
        self._program = program  # must live as long

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run it on tensors. What it gives lies in its own memory and is true until its next call.

        Raises EngineFault."""
        try:
            return self._method(inputs, clone_outputs=False)
        except RuntimeError as fault:
            raise EngineFault("engine_error", f"ExecuTorch failed in {self._name}: {fault}") from fault
