"""What drafts cost together is bounded, whatever is saved and forgotten."""

from __future__ import annotations

import random

import pytest

from actors.transcripts import drafts
from actors.transcripts.drafts import MAX_ADDED, Drafts
from actors.transcripts.messages import DraftPart, SaveDraft


def save(
    kept: Drafts, version: int, body: bytes, *, part: DraftPart = "text", session_id: str = "s", adds: bool = False
) -> bool:
    return kept.save(SaveDraft(session_id=session_id, part=part, version=version, body=body, adds=adds))


def test_all_drafts_together_stay_under_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one just saved is always kept; of the others those saved last, as many as fit, and no more goes than must."""
    monkeypatch.setattr(drafts, "MAX_ALL_BYTES", 100)
    monkeypatch.setattr(drafts, "MAX_DRAFTS", 5)
    chance = random.Random(1)
    kept = Drafts()
    model: dict[str, dict[str, bytes]] = {}
    for version in range(2000):
        session_id, part = chance.choice("abcdefgh"), chance.choice(("text", "files"))
        if not chance.randrange(8):
            kept.forget(session_id)
            model.pop(session_id, None)
            continue
        body = bytes(chance.randrange(60))
        assert save(kept, version, body, part="text" if part == "text" else "files", session_id=session_id)
        model[session_id] = {**model.pop(session_id, {}), part: body}
        while len(model) > 5 or (len(model) > 1 and sum(len(b) for m in model.values() for b in m.values()) > 100):
            del model[next(iter(model))]
        for name in "abcdefgh":
            assert kept.show(name, "text") == (model.get(name, {}).get("text"), ())
            assert kept.show(name, "files") == (model.get(name, {}).get("files"), ())


def test_what_is_added_stands_beside_until_something_newer_comes() -> None:
    """Also before there is anything, and where what it was added to comes later than it."""
    kept = Drafts()
    assert save(kept, 5, b"five", adds=True)
    assert kept.show("s", "text") == (None, (b"five",))
    assert save(kept, 3, b"three")
    assert save(kept, 7, b"seven", adds=True)
    assert not save(kept, 6, b"late", adds=True)
    assert not save(kept, 3, b"again")
    assert kept.show("s", "text") == (b"three", (b"five", b"seven"))
    assert save(kept, 6, b"six")
    assert kept.show("s", "text") == (b"six", (b"seven",))
    assert save(kept, 8, b"eight")
    assert kept.show("s", "text") == (b"eight", ())
    assert not save(kept, 8, b"old", adds=True)
    assert kept.show("s", "files") == (None, ())


def test_what_is_added_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In number and in size; what is refused changes nothing, and all of it is forgotten with its session."""
    monkeypatch.setattr(drafts, "MAX_ALL_BYTES", 100)
    kept = Drafts()
    assert save(kept, 1, bytes(60))
    assert save(kept, 2, bytes(40), adds=True)
    assert not save(kept, 3, bytes(1), adds=True)
    assert kept.show("s", "text") == (bytes(60), (bytes(40),))
    kept.forget("s")
    assert kept.show("s", "text") == (None, ())
    assert [save(kept, n, b"", adds=True) for n in range(MAX_ADDED + 1)] == [True] * MAX_ADDED + [False]
