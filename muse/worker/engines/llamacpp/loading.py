"""Loading for the llama.cpp engine: the files are checked, the native server is started, and asked what it loaded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import attrs

from muse.protocol import FilePart, LoadedFile, Ready, Supports
from muse.worker.answer_matcher import MatcherTokens, matcher_tokens
from muse.worker.command_line import WorkerOptions
from muse.worker.engines.base import EngineFault, ReportLoading
from muse.worker.engines.llamacpp import encoding_times
from muse.worker.engines.llamacpp.client import Client, Refused
from muse.worker.engines.llamacpp.companions import block_size, read_draft, read_projector
from muse.worker.engines.llamacpp.gguf import ModelFile, ModelFileFault, read_model_file
from muse.worker.engines.llamacpp.memory import MIB, plan_memory
from muse.worker.engines.llamacpp.picture_prompt import PicturePromptEncoder
from muse.worker.engines.llamacpp.prefill_step import LARGEST, LAST_APART, PrefillStep
from muse.worker.engines.llamacpp.prompt import PromptEncoder
from muse.worker.engines.llamacpp.server import InnerServer
from muse.worker.engines.llamacpp.stream import ModelIds
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from muse.worker.picture_size import MOST_CELLS
from muse.worker.signs_of_life import signs_of_life

SCRATCH_SLOTS: Final = 1
"""Besides those of named sessions, so that a request without one does not need to take theirs."""
_LOG_WARNINGS: Final = 2


@attrs.frozen(kw_only=True, slots=False)
class Loaded:
    """What exists only after a load."""

    client: Client
    encoder: PromptEncoder
    pictures: PicturePromptEncoder | None
    ids: ModelIds
    context: int

    @cached_property
    def matcher_tokens(self) -> MatcherTokens:
        """For constrained answers that go on. Made when the first one does."""
        vocabulary = self.ids.vocabulary
        return matcher_tokens(vocabulary.spelled, control=vocabulary.control.keys(), end=self.ids.end)


@attrs.define(frozen=True, slots=True, kw_only=True)
class Files:
    """What is loaded: the model, and what may go with it."""

    model: ModelFile
    draft: ModelFile | None
    projector: ModelFile | None

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        return sum(file.size_bytes for file in self.facts)

    @property
    def facts(self) -> tuple[LoadedFile, ...]:
        """What each is called, and its size."""
        parts: dict[FilePart, ModelFile | None] = {
            "model": self.model,
            "draft": self.draft,
            "projector": self.projector,
        }
        return tuple(
            LoadedFile(part=part, name=file.path.name, size_bytes=file.size_bytes)
            for part, file in parts.items()
            if file is not None
        )


def read_files(options: WorkerOptions) -> Files:
    """Read the heads of the files. Raises EngineFault `bad_request` for what cannot be loaded."""
    assert options.model is not None
    try:
        model = read_model_file(options.model)
        return Files(
            model=model,
            draft=read_draft(options.draft, model) if options.draft else None,
            projector=read_projector(options.mmproj, model) if options.mmproj else None,
        )
    except ModelFileFault as fault:
        raise EngineFault("bad_request", str(fault), fatal=True) from fault


def load_model(
    options: WorkerOptions, files: Files, server: InnerServer, step: PrefillStep, report: ReportLoading
) -> tuple[Loaded, Ready]:
    """Start the native server with the files. Raises EngineFault."""
    model, draft, projector = files.model, files.draft, files.projector
    vocabulary = Vocabulary(model)
    slots = options.slots + SCRATCH_SLOTS
    plan = plan_memory(
        model,
        draft=draft,
        context=options.context,
        slots=slots,
        limit_mib=options.kv_mib,
        cache_mib=options.cache_mib,
        batch=options.batch or LARGEST,
    )
    if plan.checkpoints:
        step.apart = LAST_APART
    settings: dict[str, Any] = {
        "model": str(model.path),
        "draft": str(draft.path) if draft else None,
        "draft_tokens": block_size(draft) - 1 if draft else 0,
        "mmproj": str(projector.path) if projector else None,
        "slots": slots,
        "context": plan.context,
        "batch": (options.batch or LARGEST) + step.apart,
        "checkpoints": plan.checkpoints,
        "threads": options.threads,
        "cache_mib": plan.cache_bytes // MIB,
        "verbosity": _LOG_WARNINGS if projector is None else encoding_times.VERBOSITY,
    }
    started = server.start(settings, files.size_bytes, report)
    report(0.99, "first answer")
    client = Client(server.socket_path)
    try:
        # Reading the weights from a slow disk, the first answer may take minutes.
        with signs_of_life(server.cpu_seconds, lambda: report(0.99, "first answer")):
            props = client.call("GET", "/props")
            end = _warm_up(client)
            bos = _leading_bos(client)
    except Refused as fault:
        raise EngineFault("engine_error", f"llama.cpp refuses its first request: {fault}", fatal=True) from fault
    context = min(plan.context, int(props["default_generation_settings"]["n_ctx"]))
    ids = ModelIds(vocabulary=vocabulary, end=frozenset(end), has_draft=draft is not None)
    encoder = PromptEncoder(client, vocabulary, bos, context)
    pictures = None
    if projector is not None:
        pictures = PicturePromptEncoder(
            client=client,
            encoder=encoder,
            vocabulary=vocabulary,
            marker=props["media_marker"],
            bos_text=props.get("bos_token", ""),
            context=context,
        )
    loaded = Loaded(client=client, encoder=encoder, pictures=pictures, ids=ids, context=context)
    ready = Ready(
        protocol=1,
        engine="llamacpp",
        engine_version=f"xllamacpp {started['version']}",
        model_id=model.path.name.removesuffix(".gguf"),
        context_length=context,
        max_sessions=slots,
        max_named_sessions=options.slots,
        max_inflight_requests=options.slots,
        supports=Supports(
            image=pictures is not None,
            cancel=True,
            rewind=True,
            prefill_progress=True,
            grammar=True,
            penalties=True,
            draft=draft is not None,
        ),
        chat_template=props.get("chat_template") or None,
        special_tokens=tuple(filter(None, vocabulary.control.values())),
        bos_token=props.get("bos_token", ""),
        eos_token=props.get("eos_token", ""),
        eos_ids=tuple(sorted(end)),
        backend=_joined("Metal" if name.startswith("MTL") else name for name, _ in started["devices"]),
        device=_joined(description for _, description in started["devices"]),
        files=files.facts,
        draft_tokens=settings["draft_tokens"] or None,
        longest_token_bytes=vocabulary.longest_token_bytes(),
        memory_bytes=server.memory_bytes(),
        kv_bytes=plan.kv_bytes,
        kv_limit_bytes=plan.limit_bytes,
        max_image_cells=None if pictures is None else MOST_CELLS,
    )
    return loaded, ready


def _joined(names: Iterable[str]) -> str:
    """Each once."""
    return ", ".join(dict.fromkeys(filter(None, names)))


def _warm_up(client: Client) -> list[int]:
    """Make the server answer once (before that, ending it could hang), and learn from the answer at which ids
    it ends a generation: banning them makes it list them."""
    body = {"prompt": [0], "n_predict": 1, "ignore_eos": True, "cache_prompt": False, "id_slot": 0}
    answer = client.call(
        "POST",
        "/completion",
        body | {"response_fields": ["generation_settings/logit_bias"]},
    )
    return [bias["token"] for bias in answer["generation_settings/logit_bias"]]


def _leading_bos(client: Client) -> int | None:
    """The id this model wants at the beginning of every prompt, asked of its own tokeniser."""
    bare, full = (
        client.call("POST", "/tokenize", {"content": "a", "add_special": special})["tokens"]
        for special in (False, True)
    )
    return full[0] if len(full) > len(bare) and full[0] != bare[0] else None
