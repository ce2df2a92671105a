"""What is said of a folder that is no whole artifact, and of a program that is not Muse Glimmer's."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest

from muse.worker.engines.base import EngineFault
from muse.worker.engines.executorch.artifact import read_artifact
from muse.worker.engines.executorch.library import Program
from muse.worker.engines.executorch.program_facts import read_facts
from muse.worker.engines.executorch.vision import read_positions
from tests.worker.nano import FOLDER

TOKENIZER: Final = FOLDER / "hf" / "tokenizer.json"
BODY: Final = b"\0" * 24 + b"XnnpackBackend\0" + b"\0" * 25


def program_bytes(*, segments: int = 100, magic: bytes = b"eh00") -> bytes:
    """A head as programs have it, what it names, and a segment."""
    size = 40 + len(BODY)
    return struct.pack("<I4s4sIQQQ", 8, b"ET12", magic, 32, size, size, 100) + BODY + b"\1" * segments


def folder_with(folder: Path, **files: bytes | None) -> Path:
    """A whole artifact, but for what is given; None leaves a file out. Names have _ for the dot."""
    content: dict[str, bytes | None] = {
        "model_pte": program_bytes(),
        "tokenizer_json": TOKENIZER.read_bytes(),
        "chat_template_jinja": b"{{ messages }}",
    }
    for name, data in (content | files).items():
        if data is not None:
            (folder / ".".join(name.rsplit("_", 1))).write_bytes(data)
    return folder


def test_a_whole_folder_is_taken(tmp_path: Path) -> None:
    """With its backend, size and name; the table of positions may be missing."""
    found = read_artifact(folder_with(tmp_path))
    assert (found.backends, found.backend) == (("XnnpackBackend",), "XNNPACK (CPU)")
    assert found.size_bytes == len(program_bytes())
    assert found.name == tmp_path.name
    assert not found.positions.exists()
    assert found.template == "{{ messages }}"


def test_a_single_program_may_have_any_name(tmp_path: Path) -> None:
    """Two of them may not, unless one is named."""
    folder = folder_with(tmp_path, model_pte=None, muse_pte=program_bytes())
    assert read_artifact(folder).program.name == "muse.pte"
    (folder / "other.pte").write_bytes(program_bytes())
    with pytest.raises(EngineFault, match=r"several programs \(muse.pte, other.pte\).*model.pte"):
        read_artifact(folder)
    found = read_artifact(folder / "other.pte")
    assert (found.program.name, found.name) == ("other.pte", folder.name)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"model_pte": None}, "no program in .*model.pte was expected"),
        ({"tokenizer_json": None}, "tokenizer.json is missing"),
        ({"tokenizer_json": b"{}"}, "tokenizer.json is no tokenizer.json of Hugging Face"),
        ({"chat_template_jinja": None}, "chat_template.jinja is missing"),
        ({"chat_template_jinja": b"\xff"}, "no text in UTF-8"),
        ({"model_pte": b"GGUF" + b"\0" * 100}, "no ExecuTorch program"),
        ({"model_pte": b"ET"}, "no ExecuTorch program"),
        ({"model_pte": b""}, "no ExecuTorch program"),
        ({"model_pte": program_bytes(magic=b"\0\0\0\0")}, "old form"),
        ({"model_pte": program_bytes(segments=99)}, "cut off: it should have 204 bytes and has 203"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, files: dict[str, bytes | None], words: str) -> None:
    """The file, what is wrong with it, what was expected."""
    with pytest.raises(EngineFault, match=words) as caught:
        read_artifact(folder_with(tmp_path, **files))
    assert caught.value.fatal
    assert caught.value.code == "bad_request"


def test_a_place_where_nothing_is_is_named(tmp_path: Path) -> None:
    """With what was expected there."""
    with pytest.raises(EngineFault, match=r"there is no artifact at .*nowhere"):
        read_artifact(tmp_path / "nowhere")


Inputs = list[tuple[str, tuple[int, ...]]]
SOLO: Final[dict[str, Inputs]] = {
    "embed_text": [("int64", (1, 512))],
    "forward_from_embeddings": [("float16", (1, 512, 6656)), ("int64", (512,))],
}
DRAFTED: Final[dict[str, Inputs]] = {
    "embed_text": [("int64", (1, 512))],
    "target_forward_from_embeddings": [("float16", (1, 512, 6656)), ("int64", (512,))],
    "draft_forward": [("int64", (1, 16)), ("float16", (1, 512, 33280)), ("int64", (1,))],
}
VISION: Final[Inputs] = [
    ("float32", (1, 16384, 1176)),
    ("bfloat16", (1, 16384, 1536)),
    ("float32", (16384, 48)),
    ("float32", (16384, 48)),
    ("int64", (16384,)),
    ("int64", (16384,)),
    ("bool", (1, 1, 16384, 16384)),
    ("bool", (1, 1, 16384, 16384)),
    ("int64", (16384,)),
]
RESULTS: Final[dict[str, Inputs]] = {
    "embed_text": [("float16", (1, 512, 6656))],
    "forward_from_embeddings": [("float32", (1, 202048))],
    "target_forward_from_embeddings": [("float32", (1, 512, 202048)), ("float16", (1, 512, 33280))],
    "draft_forward": [("float32", (1, 16, 202048))],
    "vision_encoder": [("float16", (1, 4096, 6656))],
}
CONSTANTS: Final[dict[str, object]] = {
    "get_max_seq_len": 131072,
    "get_vocab_size": 202048,
    "get_max_prefill_chunk": 512,
    "get_activation_dtype": "float16",
    "has_vision_encoder": False,
    "use_sampling": False,
}
DRAFT_CONSTANTS: Final[dict[str, object]] = {
    "get_block_size": 16,
    "get_mask_token_id": 201818,
    "get_draft_sliding_window": 2048,
}
VISION_CONSTANTS: Final[dict[str, object]] = {
    "has_vision_encoder": True,
    "get_vision_hidden_size": 6656,
    "get_max_vision_patches": 16384,
}


class FakeProgram:
    """What `read_facts` asks of a program."""

    def __init__(self, methods: dict[str, Inputs], constants: dict[str, object], results: dict[str, Inputs]) -> None:
        self._methods = methods
        self._constants = constants
        self._results = results
        self.names = frozenset({*methods, *constants})

    def inputs(self, name: str) -> Inputs:
        return self._methods[name]

    def outputs(self, name: str) -> Inputs:
        return self._results[name]

    def constant(self, name: str) -> object:
        return self._constants[name]


def facts_of(methods: dict[str, Inputs], constants: dict[str, object], **results: Inputs) -> Any:
    return read_facts(cast("Program", FakeProgram(methods, constants, RESULTS | results)))


def test_the_published_solo_and_drafted_programs_are_told_apart() -> None:
    """By their methods, with the numbers of the contract."""
    solo = facts_of(SOLO, CONSTANTS)
    assert (solo.kind, solo.draft, solo.vision) == ("solo", None, None)
    assert (solo.context, solo.vocabulary, solo.chunk, solo.width) == (131072, 202048, 512, 6656)
    drafted = facts_of(DRAFTED | {"vision_encoder": VISION}, CONSTANTS | DRAFT_CONSTANTS | VISION_CONSTANTS)
    assert drafted.kind == "dflash"
    assert (drafted.draft.mask_id, drafted.draft.block, drafted.draft.window) == (201818, 16, 2048)
    assert (drafted.vision.latent, drafted.vision.rotary, drafted.vision.patches) == (1536, 48, 16384)
    assert drafted.vision.table_bytes == 6291456


def changed(key: str, value: object) -> Callable[[], Any]:
    return lambda: facts_of(SOLO, CONSTANTS | {key: value})


def seeing(constants: dict[str, object], *, patch: int = 1176, **results: Inputs) -> Callable[[], Any]:
    methods = SOLO | {"vision_encoder": [("float32", (1, 16384, patch)), *VISION[1:]]}
    return lambda: facts_of(methods, CONSTANTS | VISION_CONSTANTS | constants, **results)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: facts_of({"forward": [("float32", (1, 3))]}, {}), "no program of Muse Glimmer.*has forward"),
        (lambda: facts_of(SOLO | {"decode_from_embedding": []}, CONSTANTS), "made for CUDA"),
        (changed("use_sampling", True), "chooses its tokens itself"),
        (changed("get_activation_dtype", "float32"), "float16 or bfloat16 was expected"),
        (changed("get_activation_dtype", "bfloat16"), r"takes \(float16 .*bfloat16 of 3 axes"),
        (changed("get_max_seq_len", "long"), "get_max_seq_len is 'long'; a value of type int"),
        (changed("get_max_seq_len", True), "a value of type int"),
        (lambda: facts_of(SOLO, {"get_activation_dtype": "float16", "use_sampling": False}), "no get_max_prefill"),
        (lambda: facts_of(SOLO | {"embed_text": [("int32", (1, 512))]}, CONSTANTS), "embed_text takes"),
        (lambda: facts_of(SOLO, CONSTANTS | VISION_CONSTANTS), "there is no vision_encoder"),
        (seeing({"get_vision_hidden_size": 1536}), "is 1536; 6656, the width of the text's embeddings, was expected"),
        (seeing({}, patch=1000), "vision_encoder takes 1000 values of a patch; 1176 were expected"),
        (seeing({}, vision_encoder=[("float32", (1, 4096, 6656))]), "vision_encoder gives .float32 .*float16 of 3"),
        (lambda: facts_of(SOLO, CONSTANTS, forward_from_embeddings=[("float16", (1, 9))]), "gives .*float32 of 2 axes"),
        (lambda: facts_of(SOLO, CONSTANTS, embed_text=[("float32", (1, 512, 6656))]), "embed_text gives .float32"),
        (lambda: facts_of(DRAFTED, CONSTANTS | DRAFT_CONSTANTS, draft_forward=[]), "draft_forward gives"),
        (lambda: facts_of(SOLO | {"draft_forward": []}, CONSTANTS), "no program of Muse Glimmer"),
        (lambda: facts_of(DRAFTED, CONSTANTS), "no get_mask_token_id"),
    ],
)
def test_another_program_is_refused_by_name(make: Callable[[], Any], words: str) -> None:
    """The method or constant, what it is, what was expected."""
    with pytest.raises(EngineFault, match=words):
        make()


def test_a_table_of_another_program_is_refused(tmp_path: Path) -> None:
    """By its size."""
    facts = facts_of(SOLO | {"vision_encoder": VISION}, CONSTANTS | VISION_CONSTANTS).vision
    path = tmp_path / "pos_embed.bin"
    path.write_bytes(bytes(100))
    with pytest.raises(EngineFault, match=r"has 100 bytes, and 6291456 were expected"):
        read_positions(path, facts)
    path.write_bytes(bytes(facts.table_bytes))
    assert read_positions(path, facts).shape == (32, 32, 1536)
