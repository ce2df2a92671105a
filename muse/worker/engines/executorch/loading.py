"""Loading: the folder is checked, then the program, then both against each other; then first tokens are evaluated."""

from __future__ import annotations

import resource
import sys
import time
from typing import Final

import attrs
from llguidance import LLTokenizer

from muse.protocol import Ready, Sampling, Supports
from muse.worker.command_line import WorkerOptions
from muse.worker.engines.base import EngineFault, ReportLoading
from muse.worker.engines.executorch.artifact import Artifact, read_artifact
from muse.worker.engines.executorch.decoding import Array, Decoder
from muse.worker.engines.executorch.dflash import DraftedDecoder, drafted_at_once
from muse.worker.engines.executorch.distribution import NotANumber
from muse.worker.engines.executorch.library import Library, Program
from muse.worker.engines.executorch.models import DraftedProgram, SoloProgram
from muse.worker.engines.executorch.program_facts import ProgramFacts, read_facts
from muse.worker.engines.executorch.prompt import PromptEncoder
from muse.worker.engines.executorch.sampling import Sampler
from muse.worker.engines.executorch.solo import SoloDecoder
from muse.worker.engines.executorch.vision import PictureEncoder, read_positions
from muse.worker.hardware import processor_name
from muse.worker.hf_tokenizer import BEGIN, END_OF_TEXT, JsonTokenizer
from muse.worker.picture_size import PATCHES_OF_CELL
from muse.worker.pte_files import artifact_fault

_READ_BYTES: Final = 64 * 1024 * 1024
_READ_SHARE: Final = 0.5
"""Of the whole load, as far as anybody can tell beforehand."""


@attrs.frozen(kw_only=True)
class Loaded:
    """What exists only after a load. grammars: what answers are held by. chunk: prompt tokens evaluated at a time."""

    tokens: JsonTokenizer
    grammars: LLTokenizer
    prompts: PromptEncoder
    model: SoloProgram | DraftedProgram
    decoder: Decoder
    pictures: PictureEncoder | None
    facts: ProgramFacts
    context: int
    chunk: int

    def embed(self, ids: list[int]) -> Array:
        """Embeddings of at most a chunk."""
        return self.model.embed(ids)


def load(options: WorkerOptions, report: ReportLoading) -> tuple[Loaded, Ready]:
    """Load an artifact. Raises EngineFault."""
    assert options.model is not None
    began = time.monotonic()
    report(None, "looking at the artifact")
    artifact = read_artifact(options.model)
    tokens = artifact.tokenizer
    report(None, "starting ExecuTorch")
    library = Library(options.threads)
    _check_backends(artifact, library)
    _read_through(artifact, report)
    report(_READ_SHARE, "loading the program")
    program = Program(library, artifact.program)
    facts = read_facts(program)
    if tokens.size > facts.vocabulary:
        raise artifact_fault(
            f"{artifact.tokenizer_path} has {tokens.size} tokens and the program {facts.vocabulary}: they belong to "
            "different models"
        )
    context = facts.context if options.context is None else options.context
    if context > facts.context:
        raise artifact_fault(f"a context of {context} tokens was asked for, and this program holds {facts.context}")
    model: SoloProgram | DraftedProgram
    if facts.draft is None:
        model = SoloProgram(program, facts)
        decoder: Decoder = SoloDecoder(model, tokens.end_ids)
    else:
        model = DraftedProgram(program, facts)
        decoder = DraftedDecoder(model, facts.draft, tokens.end_ids)
    pictures = _load_pictures(options, artifact, program, facts)
    report(0.99, "first answer")
    _answer_once(decoder, model, tokens)
    most_cells = facts.vision.patches // PATCHES_OF_CELL if facts.vision and pictures else 0
    loaded = Loaded(
        tokens=tokens,
        grammars=tokens.for_grammars,
        prompts=PromptEncoder(tokens, context=context, most_cells=most_cells),
        model=model,
        decoder=decoder,
        pictures=pictures,
        facts=facts,
        context=context,
        chunk=facts.chunk if options.batch is None else min(options.batch, facts.chunk),
    )
    ready = Ready(
        protocol=1,
        engine="executorch",
        engine_version=library.versions,
        model_id=artifact.name,
        context_length=context,
        max_sessions=1,
        max_named_sessions=1,
        max_inflight_requests=1,
        supports=Supports(
            image=pictures is not None,
            ids_with_images=True,
            cancel=True,
            rewind=True,
            prefill_progress=True,
            grammar=True,
            penalties=True,
            draft=facts.draft is not None,
        ),
        chat_template=artifact.template.removesuffix("\n"),
        special_tokens=tuple(tokens.control.values()),
        bos_token=BEGIN,
        eos_token=END_OF_TEXT,
        eos_ids=tuple(sorted(tokens.end_ids)),
        backend=artifact.backend,
        device=processor_name(),
        files=artifact.files,
        draft_tokens=drafted_at_once(facts.draft) if facts.draft else None,
        memory_bytes=_memory_bytes(),
        longest_token_bytes=tokens.longest_token_bytes,
        max_image_cells=most_cells or None,
    )
    sys.stderr.write(
        f"executorch: {facts.kind} program, {artifact.size_bytes} bytes, {artifact.backend}, {library.versions}, "
        f"loaded in {time.monotonic() - began:.1f} s\n"
    )
    return loaded, ready


def _check_backends(artifact: Artifact, library: Library) -> None:
    missing = [name for name in artifact.backends if name not in library.backends]
    if missing:
        hint = ": it runs on a Mac with Apple silicon only" if missing[0] == "MLXBackend" else ""
        raise artifact_fault(
            f"{artifact.program} is made for {missing[0]}{hint}. The executorch of this machine has "
            f"{', '.join(sorted(library.backends))}"
        )


def _read_through(artifact: Artifact, report: ReportLoading) -> None:
    """Bring the file into the system's cache: loading it holds the interpreter, so nothing could be reported then."""
    block = bytearray(_READ_BYTES)
    done = 0
    try:
        with artifact.program.open("rb", buffering=0) as file:
            while count := file.readinto(block):
                done += count
                report(done / artifact.size_bytes * _READ_SHARE, "reading the program")
    except OSError as fault:
        raise artifact_fault(f"cannot read {artifact.program}: {fault.strerror or fault}") from fault


def _load_pictures(
    options: WorkerOptions, artifact: Artifact, program: Program, facts: ProgramFacts
) -> PictureEncoder | None:
    if facts.vision is None:
        return None
    if not artifact.positions.is_file():
        raise artifact_fault(
            f"{artifact.positions} is missing: this program sees pictures, and its table of positions, "
            f"{facts.vision.table_bytes} bytes, comes beside it"
        )
    table = read_positions(artifact.positions, facts.vision)
    return PictureEncoder(program, facts.vision, table, options.picture_positions, facts.width)


def _answer_once(decoder: Decoder, model: SoloProgram | DraftedProgram, tokens: JsonTokenizer) -> None:
    """Two tokens, since the second is the first that a draft has a part in: what is broken shows now, and nothing is
    left to be set up."""
    decoder.begin(Sampler(Sampling()), 0)
    try:
        decoder.prefill(model.embed([tokens.begin]))
        for _ in range(2):
            decoder.step()
    except NotANumber as fault:
        raise EngineFault("engine_error", "the program gives no numbers: it is damaged", fatal=True) from fault


def _memory_bytes() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
