"""The image encoder's time by the native server's log: of the right slot, and nothing where the log does not tell."""

from __future__ import annotations

import pytest

from muse.worker.engines.llamacpp import encoding_times
from muse.worker.engines.llamacpp.encoding_times import EncodingTimes


def begin(slot: int, at: str, pictures: int = 1) -> str:
    return (
        f"0.00.{at} I slot encode_mtmd_: id  {slot} | task 2 | encoding mtmd batch from idx = 5, n_chunks = {pictures}"
    )


def end(at: str, batch: str = "1/1") -> str:
    return f"0.00.{at} I decoding image batch {batch}, n_tokens_batch = 4"


@pytest.fixture(autouse=True)
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding_times, "_WAIT_S", 0.0)


def test_each_slot_has_its_own() -> None:
    """And all pictures of a request are added up."""
    times = EncodingTimes()
    for line in (begin(0, "100.000"), end("102.500"), begin(1, "200.000"), end("201.000"), begin(0, "300.000", 2),
                 end("310.250", "1/2"), end("320.000", "2/2")):  # fmt: skip
        assert not times.read(line)
    assert times.take(1, 1) == pytest.approx(1.0)
    assert times.take(0, 3) == pytest.approx(12.75)
    assert times.take(0, 1) is None


def test_what_is_not_told_is_null() -> None:
    """Fewer pictures than were read, none at all, or those of the slot's request before."""
    times = EncodingTimes()
    times.read(begin(0, "100.000"))
    times.read(end("101.000"))
    assert times.take(0, 2) is None
    times.read(begin(0, "100.000"))
    times.read(end("101.000"))
    times.forget(0)
    assert times.take(0, 0) is None
    times.read(end("900.000"))
    assert times.take(0, 0) is None


def test_an_hour_is_no_border() -> None:
    """The log counts minutes on."""
    times = EncodingTimes()
    times.read("59.59.999.000 I slot encode_mtmd_: id  0 | task 2 | encoding mtmd batch from idx = 5, n_chunks = 1")
    times.read("60.00.001.000 I decoding image batch 1/1, n_tokens_batch = 4")
    assert times.take(0, 1) == pytest.approx(2.0)


def test_only_its_own_level_is_kept_back() -> None:
    """With further lines of what was kept back; warnings, errors and what was not logged are for everybody."""
    times = EncodingTimes()
    passed = ["0.00.1.1 W a", "0.00.1.1 E b", "GGML_ASSERT(x) failed", "  indented, behind what passed"]
    lines = [passed[0], "  indented, behind what passed", "0.00.100.000 I c", "\td", "0.00.100.001 I", *passed[1:3]]
    assert [line for line in lines if times.read(line)] == [passed[0], passed[3], *passed[1:3]]
