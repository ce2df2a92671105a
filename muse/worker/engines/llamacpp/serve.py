"""The native server's own process: `python -m muse.worker.engines.llamacpp.serve SETTINGS` (JSON).

It reports on its stdout with one JSON line, {"ready": true, ...} or {"error": text}, and serves until its
stdin ends or it is killed. Descriptor 1 is the standard error for everything native. The server object is
never destroyed: its teardown can hang.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from muse.worker.stdio import take_over


def main(settings: dict[str, Any]) -> None:
    """Load and serve. Does not return."""
    life_fd, report_fd = take_over()

    def report(line: dict[str, Any]) -> None:
        os.write(report_fd, json.dumps(line).encode() + b"\n")

    try:
        # Only after the descriptors are safe; by name, since the package has no types.
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as fault:
        report({"error": f"the package xllamacpp cannot be imported: {fault}"})
        os._exit(1)
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, settings))
    except Exception as fault:  # any: a binding's faults have no common root
        report({"error": f"{type(fault).__name__}: {fault}"})
        os._exit(1)
    devices = [[d["name"], d["description"]] for d in xllamacpp.get_device_info()]
    report({"ready": True, "version": xllamacpp.__version__, "devices": devices, "address": server.listening_address})
    while os.read(life_fd, 4096):
        pass
    os._exit(0)


def _parameters(xllamacpp: Any, settings: dict[str, Any]) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.hostnames = [settings["socket"]]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"] * settings["slots"]  # the server divides it by the slots
    params.n_batch = params.n_ubatch = settings["batch"]
    if settings["threads"]:  # else the library's choice: the fast cores
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    if settings["draft"]:
        _add_draft(xllamacpp, params.speculative, settings)
    if settings["mmproj"]:
        params.mmproj.path = settings["mmproj"]
    params.cache_ram_mib = settings["cache_mib"]
    if settings["checkpoints"] is not None:
        params.n_ctx_checkpoints = settings["checkpoints"]
        # When there is no room for one more, those that are closer together are given up, before the oldest. The
        # library's own spacing, 8,192 tokens, is made for few requests; each step of a prompt is one here.
        params.checkpoint_min_step = settings["context"] // max(settings["checkpoints"], 1)
    params.verbosity = settings["verbosity"]
    params.n_threads_http = settings["slots"] + 4
    params.ui = False
    params.cors_origins = ""
    params.cors_origins_explicit = True
    params.warmup = False  # the worker's first request does that
    params.cache_idle_slots = False
    params.sse_ping_interval = -1
    return params


def _add_draft(xllamacpp: Any, speculative: Any, settings: dict[str, Any]) -> None:
    speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_DFLASH]
    draft = speculative.draft
    draft.mparams.path = settings["draft"]
    draft.n_max = settings["draft_tokens"]  # the binding would draft 3, whatever the draft can do
    if settings["threads"]:
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = settings["threads"]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
