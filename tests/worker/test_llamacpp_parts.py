"""Parts of the llama.cpp engine without a model: reuse reasons, slots, lost ids, the socket client."""

from __future__ import annotations

import base64
import contextlib
import itertools
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse.protocol import ResetReason
from muse.worker.engines.base import EngineFault
from muse.worker.engines.llamacpp.client import Client, EngineGone, Refused
from muse.worker.engines.llamacpp.gguf import ModelFile
from muse.worker.engines.llamacpp.prefill_step import LARGEST, LAST_APART, SMALLEST, PrefillStep
from muse.worker.engines.llamacpp.runs import LONGEST_RUN, cut_runs, has_long_run
from muse.worker.engines.llamacpp.slots import SlotTable
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from muse.worker.residency import reset_reason

# Byte-level letters of the bytes used below: 0xF0 ð, 0x9F Ł, 0x8E İ (U+0130), 0x89 ī, 0xC3 Ã, 0xA9 ©
TOKENS = ["a", "ð", "Ł", "\u0130", "\u012b", "ðŁ", "\u0130\u012b", "Ã", "©", "<|end|>", "<row>", "[X]"]
KINDS = [1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 4]


def vocabulary(tokens: list[str] = TOKENS, template: bytes = b"[X]") -> Vocabulary:
    metadata = {
        "tokenizer.ggml.model": b"gpt2",
        "tokenizer.ggml.tokens": [token.encode() for token in tokens],
        "tokenizer.ggml.token_type": KINDS[: len(tokens)],
        "tokenizer.chat_template": template,
    }
    return Vocabulary(ModelFile(path=Path("m"), size_bytes=0, metadata=metadata))


@pytest.mark.parametrize(
    ("resident", "prompt", "reused", "reason"),
    [
        ((), (1, 2), 0, "new"),
        (None, (1, 2), 0, "dirty"),
        ((1, 2), (1, 2, 3), 2, "exact_prefix"),
        ((1, 2), (1, 2, 3), 1, "exact_prefix"),  # the last sampled token is never in the cache yet
        ((1, 2), (1, 2), 1, "equal"),
        ((1, 2, 3), (1, 2), 1, "rewound"),
        ((1, 2, 3), (1, 9, 9), 1, "rewound"),
        ((1, 2, 3, 4), (1, 2, 3, 4, 5), 1, "rewound"),
        ((1, 2), (9, 9), 0, "mismatch"),
        ((1, 2), (1, 2, 3), 0, "new"),  # lost to another session
    ],
)
def test_reset_reason(
    resident: tuple[int, ...] | None, prompt: tuple[int, ...], reused: int, reason: ResetReason
) -> None:
    """The reason follows from what was resident, the prompt, and what the engine really kept."""
    assert reset_reason(resident, prompt, reused) == reason


def test_a_session_keeps_its_slot_and_scratch_takes_another() -> None:
    """A scratch request does not displace a session while a free slot is left."""
    table = SlotTable(2, named=2)
    with table.taken("s") as first:
        pass
    with table.taken(None) as scratch:
        assert scratch != first
        with table.taken("s") as again:
            assert again == first
    with table.taken(None) as next_scratch:
        assert next_scratch == scratch


def test_the_slot_used_longest_ago_gives_way() -> None:
    """Among slots that hold sessions."""
    table = SlotTable(2, named=2)
    with table.taken("old") as old, table.taken("young"):
        pass
    with table.taken("new") as new:
        assert new == old


def test_named_sessions_leave_a_slot_to_scratch_requests() -> None:
    """With more slots than sessions may hold, a third session takes the place of the first, not the last slot."""
    table = SlotTable(3, named=2)
    with table.taken("a") as first:
        pass
    with table.taken("b") as second:
        pass
    with table.taken("c") as third:
        assert third is first
    with table.taken(None) as scratch, table.taken("b") as again, table.taken("c") as kept:
        assert scratch not in (first, second)
        assert (again, kept) == (second, third)


def test_all_slots_busy_is_a_refusal() -> None:
    """Nothing waits inside the worker."""
    table = SlotTable(1, named=1)
    with table.taken("a"), pytest.raises(EngineFault, match="busy"), table.taken("b"):
        pass


def test_reset_forgets_and_close_frees() -> None:
    """After a reset nothing may be reused once; a closed session's slot is the first to be given away."""
    table = SlotTable(2, named=2)
    with table.taken("s") as slot:
        table.remember("s", slot, [1, 2])
    assert slot.ids == [1, 2]
    assert table.resident("s").ids == [1, 2]
    table.reset("s")
    assert (table.resident("s").ids, table.resident("s").cold) == ((), True)
    with table.taken("s") as slot:
        table.remember("s", slot, [], cold=True)
    assert table.resident("s").cold
    with table.taken("t"):
        pass
    table.close("s")
    with table.taken("u") as given_away:
        assert given_away == slot
    assert not table.resident("s").cold


def test_the_prefill_step_follows_the_device() -> None:
    """It grows while steps are short and shrinks when one was too long, within its limits."""
    step = PrefillStep()
    sizes: list[int] = []
    for seconds in (0.05, 0.05, 0.2, 0.05, 0.05, 0.31, 0.31, 0.31, 0.31):
        step.took(step.size, seconds)
        sizes.append(step.size)
    assert sizes == [128, 256, 256, 512, LARGEST, 256, 128, SMALLEST, SMALLEST]


def test_a_fixed_or_a_partial_prefill_step_changes_nothing() -> None:
    """--batch fixes it; and less work than a step says nothing about one."""
    fixed, partial = PrefillStep(48), PrefillStep()
    fixed.took(48, 0.01)
    partial.took(SMALLEST - 1, 0.01)
    assert (fixed.size, partial.size) == (48, SMALLEST)


def test_a_step_holds_what_is_evaluated_apart() -> None:
    """So that the rest of it is a whole step, whose size alone follows the device."""
    step = PrefillStep()
    step.apart = LAST_APART
    assert step.tokens == SMALLEST + LAST_APART
    step.took(step.tokens, 0.01)
    assert step.tokens == 2 * SMALLEST + LAST_APART


@pytest.mark.parametrize("run", ["y", "Ab", "e\u0301", "你", "7", " ", "\n", " \n", "\t\r\n", "-", "_", "-=\U0001f389"])
def test_long_runs_are_cut(run: str) -> None:
    """At the same places however the text goes on; no piece has a longer one, and nothing is lost."""
    text = f"a word, {run * 2000}; and (one) more\n"
    pieces = cut_runs(text)
    assert "".join(pieces) == text
    assert len(pieces) > 2000 // LONGEST_RUN
    assert has_long_run(text)
    assert not any(map(has_long_run, pieces))
    longer = cut_runs(text + run * 2000)
    assert longer[: len(pieces) - 1] == pieces[:-1]


def test_ordinary_text_is_not_cut() -> None:
    """However long it is: prose with and without spaces, code, tables, and what is encoded."""
    prose = "The quick brown fox; it's 1,234 times. " * 100
    chinese = "你好，世界。今天天气很好，我们去公园吧！" * 100
    code = "def f(x):\n    return {'a': [x ** 2, 0x1F]}\n\n" * 100
    encoded = base64.b64encode(bytes(range(256)) * 20).decode()
    for text in (prose, chinese, code, "| a | b |\n|---|---|\n" * 200, encoded, "=" * LONGEST_RUN, ""):
        assert cut_runs(text) == [text]


def test_scaffold_tokens_are_control_tokens() -> None:
    """Control tokens, and user-defined ones that frame messages; not those that are only text."""
    assert set(vocabulary().control.values()) == {"<|end|>", "[X]"}


def test_cut_leaves_no_spelling_whole() -> None:
    """The pieces give the text and none holds a control token."""
    pieces = vocabulary().cut("a<|end|><|end|>[X]b")
    assert "".join(pieces) == "a<|end|><|end|>[X]b"
    assert not any("<|end|>" in piece or "[X]" in piece for piece in pieces)


@pytest.mark.parametrize(
    ("piece", "missing", "last", "ids"),
    [
        ("é", 1, 8, (7, 8)),
        ("🎉", 2, 4, (5, 3, 4)),
        ("🎉", 3, 4, (1, 2, 3, 4)),
        ("🎉", 1, 6, (5, 6)),
        ("aé", 1, 8, None),  # "a" ends no character half way: the engine would have sent it
        ("🎉", 1, 4, None),  # no token spells the first three bytes
        ("é", 1, 0, None),  # the last token is not the end of the piece
        ("\ufffd", 1, 8, None),
    ],
)
def test_lost_ids_are_recovered_only_with_proof(
    piece: str, missing: int, last: int, ids: tuple[int, ...] | None
) -> None:
    """One fitting sequence of the right length, or nothing. A shorter one could hide a control token, so
    (two missing, four bytes) has two readings when ð Ł İ stand alone and as ðŁ."""
    table = vocabulary()
    found = table.recover(piece, missing, last)
    shorter = {("🎉", 3, 4)}  # ðŁ İ fits as well
    assert found == (None if (piece, missing, last) in shorter else ids)


def test_nothing_is_recovered_from_ambiguous_texts() -> None:
    """Two ids with one text: no conclusion."""
    assert vocabulary(["Ã", "©", "Ã"]).recover("é", 1, 1) is None


class FakeServer:
    """Answers each connection with the given bytes, in the given pieces."""

    def __init__(self, path: Path, pieces: list[bytes]) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._pieces = pieces
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        # A reader knows the end of a stream before its last two bytes, and may be gone when they are sent.
        with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.recv(65536)
            for piece in self._pieces:
                connection.sendall(piece)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


def stream_of(path: Path, answer: bytes, cuts: list[int]) -> list[bytes]:
    """The events of an answer that arrives cut at the given places."""
    edges = [0, *sorted(cuts), len(answer)]
    server = FakeServer(path, [answer[a:b] for a, b in itertools.pairwise(edges)])
    stream = Client(str(path)).stream("/", {})
    events: list[bytes] = []
    try:
        while some := stream.events():
            events += some
    finally:
        stream.close()
        server.close()
        path.unlink()
    return events


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
BLOCKS = [b'data: {"n":1}\n\n', b": ping\n\n", b'data: {"n":2}\n\ndata: {"n":3}\n\n']
STREAM = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(block), block) for block in BLOCKS) + b"0\r\n\r\n"


@settings(deadline=None, max_examples=50)
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=4))
def test_a_stream_may_be_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    """The events are the same however the bytes arrive."""
    path = tmp_path_factory.mktemp("s") / "e.sock"
    assert stream_of(path, STREAM, cuts) == [b'{"n":1}', b'{"n":2}', b'{"n":3}']


def test_a_broken_off_stream_gives_what_was_whole(tmp_path: Path) -> None:
    """The end of the connection is the end of the events; whether it was due the reader knows."""
    assert stream_of(tmp_path / "e.sock", STREAM[:-20], []) == [b'{"n":1}']


def test_gathering_ends_with_the_stream(tmp_path: Path) -> None:
    """Waiting for more tokens does not outlast the answer: this wait would be ten times the hang limit."""
    server = FakeServer(tmp_path / "e.sock", [STREAM])
    stream = Client(str(tmp_path / "e.sock")).stream("/", {})
    stream.gather(600.0)
    assert len(stream.events()) == 3
    stream.close()
    server.close()


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"", EngineGone),
        (b"HTTP/1.1 200 OK\r\n\r\n", EngineGone),
        (b"rubbish\r\n\r\n", EngineGone),
        (CHUNKED + b"zz\r\n", EngineGone),
        (
            b"HTTP/1.1 400 Bad\r\nContent-Length: 40\r\n\r\n" + b'{"error":{"message":"no","type":"t","x":1}}'[:40],
            Refused,
        ),
    ],
    ids=["nothing", "no length", "no HTTP", "broken chunk", "refusal"],
)
def test_bad_answers_are_faults(tmp_path: Path, answer: bytes, fault: type[Exception]) -> None:
    """Nothing of the native server is taken on trust."""
    with pytest.raises(fault):
        stream_of(tmp_path / "e.sock", answer, [])


def test_no_server_is_a_fault(tmp_path: Path) -> None:
    """The socket is gone with the process."""
    with pytest.raises(EngineGone):
        Client(str(tmp_path / "none.sock")).call("GET", "/")
