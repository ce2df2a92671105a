"""A client of the double that does nothing but write and read lines."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.native.doubles import make_artifact, make_program


class Raw:
    """A running double."""

    def __init__(self, folder: Path, *flags: str, **manner: Any) -> None:
        artifact = make_artifact(folder)
        theirs, self.control_fd = os.pipe()
        self.process = subprocess.Popen(
            [
                str(make_program(folder, **manner)),
                f"--model_path={artifact / 'model.pte'}",
                f"--tokenizer_path={artifact / 'tokenizer.json'}",
                "--bos_id=500",
                "--eos_id=501",
                *flags,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(theirs,),
            env={**os.environ, "EXECUTORCH_LLM_WORKER_CONTROL_FD": str(theirs)},
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()
        os.close(self.control_fd)

    def write(self, *lines: dict[str, Any]) -> None:
        """All in one piece."""
        assert self.process.stdin
        self.process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "it ended"
        return json.loads(line)

    def cancel_by_pipe(self, number: int) -> None:
        os.write(self.control_fd, struct.pack("<Q", number))

    def end(self) -> dict[str, Any]:
        """The next line that is no token."""
        while "token" in (line := self.read()):
            pass
        return line

    def ask(self, text: str = "", **fields: Any) -> dict[str, Any]:
        """Run a request to its last line."""
        self.write({"prompt": text, **fields} if "prompt_segments" not in fields else fields)
        return self.end()
