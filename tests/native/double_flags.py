"""The command line of the stand-in for upstream's worker, its log, and how a load of it fails."""

from __future__ import annotations

import os
import resource
import sys
from typing import Final, NoReturn

FLAGS: Final = {
    "model_path": "", "tokenizer_path": "", "data_path": "", "pos_embed_path": "", "max_image_bytes": "20971520",
    "max_sessions": "1", "warm_resume": "true", "bos_id": "200000", "eos_id": "200001", "artifact_mode": "auto",
    "dflash_block_length": "4", "dflash_n_draft": "3", "dflash_draft_argmax": "true", "cuda_graph": "false",
}  # fmt: skip
SWITCHES: Final = ("warm_resume", "dflash_draft_argmax", "cuda_graph")
NUMBERS: Final = ("max_image_bytes", "max_sessions", "bos_id", "eos_id", "dflash_block_length", "dflash_n_draft")


def log(level: str, words: str) -> None:
    sys.stderr.write(f"{level} 00:00:00.000001 executorch:double.py:1] {words}\n")
    sys.stderr.flush()


def fail(*words: str) -> NoReturn:
    """A load that fails: the reason, and then that it failed."""
    for line in words:
        log("E", line)
    sys.exit(1)


def abort() -> NoReturn:
    """Its own checks of its flags come before its log is set up, so that their reason is lost."""
    sys.stderr.write("PAL must be initialized before call to et_pal_current_ticks()\n")
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def read_flags(arguments: list[str]) -> dict[str, str]:
    """As the gflags library reads them: it ends with 1 at what it cannot read."""
    flags = dict(FLAGS)
    for given in arguments:
        name, _, value = given.lstrip("-").partition("=")
        if name in ("help", "version"):
            print("muse_glimmer_worker: ...")
            sys.exit(1 if name == "help" else 0)
        if name.removeprefix("no") in SWITCHES:
            name, value = name.removeprefix("no"), "false" if name.startswith("no") else value or "true"
        if name not in flags:
            sys.exit(f"ERROR: unknown command line flag '{name}'")
        if name in NUMBERS and not value.lstrip("-").isdigit():
            sys.exit(f"ERROR: illegal value '{value}' specified for int32 flag '{name}'")
        flags[name] = value
    return flags
