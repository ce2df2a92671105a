"""Settings of one server, and where it keeps its files."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Final, Literal

import attrs

from muse.sizes import BODY_BYTES

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 3939
BUILT_IN_MODEL: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROJECT_ROOT: Final = Path(__file__).resolve().parent.parent

EngineName = Literal["llamacpp", "executorch", "native", "scripted"]
ENGINES: Final[tuple[EngineName, ...]] = ("llamacpp", "executorch", "native", "scripted")
PositionOrder = Literal["rows", "columns"]
POSITION_ORDERS: Final[tuple[PositionOrder, ...]] = ("rows", "columns")
"""How the positions of a picture's patches are laid out (contracts/vision.md section 4)."""


def muse_home() -> Path:
    """The folder of everything we write: `$MUSE_HOME`, else `.runtime` in the project."""
    return Path(os.environ.get("MUSE_HOME") or PROJECT_ROOT / ".runtime").resolve()


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds of the server. Each protects memory or patience; none cuts anything silently."""

    queue: int = 32
    """Turns that may wait for the model; one more is answered 429 with Retry-After."""
    body_bytes: int = BODY_BYTES
    load_wait_s: float = 30.0
    """How long a non-stream request waits for a model that is loading before it gets a 503."""
    first_byte_s: float = 2.0
    """How long a stream request waits for the worker to accept the prompt before its headers go out.
    Within this time a prompt that does not fit is a plain 400; later it is an error event."""
    quiet_s: float = 10.0
    """Longest silence in a stream: a comment is sent then."""
    retry_after_s: int = 5
    unattended_s: float = 300.0
    """How long a detached reply goes on without anybody reading it."""


@attrs.frozen(kw_only=True)
class Settings:
    """What `muse serve` was asked for. model None: the built-in one. draft, mmproj: files that go with it, for guessing
    ahead and for pictures. keep_draft: also when it is found to cost more than it gives. picture_positions: for
    executorch, None: the engine's choice. context None: the model's own length, as far as the engine finds it sensible.
    kv_memory_mib: most memory for conversations, None: a share of the machine's. threads: that compute, None: the
    engine's choice. port 0: any free port. worker_bin: the native worker's program, worker_args: flags of its own for
    it, model_id: what its model is called."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    engine: EngineName = "llamacpp"
    model: Path | None = None
    draft: Path | None = None
    keep_draft: bool = False
    mmproj: Path | None = None
    picture_positions: PositionOrder | None = None
    context: int | None = None
    kv_memory_mib: int | None = None
    threads: int | None = None
    worker_bin: Path | None = None
    worker_args: tuple[str, ...] = ()
    model_id: str | None = None
    open_page: bool = False
    home: Path = attrs.field(factory=muse_home)
    limits: Limits = attrs.field(factory=Limits)

    @property
    def model_path(self) -> Path:
        """The model file that the worker loads."""
        return self.model if self.model is not None else self.home / "models" / BUILT_IN_MODEL

    @property
    def worker_python(self) -> str:
        """The Python that runs the worker: this one, if it has the engine's library; else that of the engine's own
        environment, whether or not it was set up (the worker's start tells)."""
        if self.engine != "executorch" or importlib.util.find_spec("executorch") is not None:
            return sys.executable
        return str(self.home / "engines" / self.engine / "bin" / "python")
