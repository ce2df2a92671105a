"""What drafts cost together is bounded, whatever is saved and forgotten."""

from __future__ import annotations

import random

import pytest

from actors.transcripts import drafts
from actors.transcripts.drafts import Drafts


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
        assert kept.save(session_id, "text" if part == "text" else "files", version, body)
        model[session_id] = {**model.pop(session_id, {}), part: body}
        while len(model) > 5 or (len(model) > 1 and sum(len(b) for m in model.values() for b in m.values()) > 100):
            del model[next(iter(model))]
        for name in "abcdefgh":
            assert kept.show(name, "text") == model.get(name, {}).get("text")
            assert kept.show(name, "files") == model.get(name, {}).get("files")
