"""Stamps: small JSON files that say from what a result was made.

A stamp is written last, whole or not at all, so its presence means that the step before it was finished. A stamp
that cannot be read counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def fingerprint(*inputs: str | bytes | Path) -> str:
    """Hash of the inputs in order: texts, bytes, and files by content. A missing file is an input of its own."""
    total = hashlib.sha256()
    for item in inputs:
        if isinstance(item, Path):
            try:
                part = b"file " + item.read_bytes()
            except FileNotFoundError:
                part = b"no file"
        elif isinstance(item, bytes):
            part = b"bytes " + item
        else:
            part = b"text " + item.encode()
        total.update(hashlib.sha256(part).digest())
    return total.hexdigest()


def read_stamp(path: Path) -> dict[str, Any]:
    """The stamp's fields, or an empty dict when there is no usable stamp."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_stamp(path: Path, fields: dict[str, Any]) -> None:
    """Put the stamp in place atomically; its folder is made if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with partial.open("w", encoding="utf-8") as out:
        json.dump(fields, out, indent=1, sort_keys=True)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
