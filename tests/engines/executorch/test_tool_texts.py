"""What is said about tools, with the tokeniser of an artifact: the tests of the llama.cpp engine."""

from __future__ import annotations

import pytest

from muse.worker.hf_tokenizer import JsonTokenizer
from tests.engines.executorch.conftest import Artifact
from tests.engines.executorch.test_long_texts import encoding
from tests.worker.client import WorkerProcess
from tests.worker.test_injection_tools import (
    Tokenizer,
    test_every_spelling_in_every_place_of_muse,
    test_known_calls_stand_as_their_ids,
    test_nothing_said_about_tools_can_forge_muse,
    tokenizer_of,
)

__all__ = [
    "test_every_spelling_in_every_place_of_muse",
    "test_known_calls_stand_as_their_ids",
    "test_nothing_said_about_tools_can_forge_muse",
]


@pytest.fixture(scope="module")
def nano(alone: WorkerProcess, artifact: Artifact) -> Tokenizer:
    """Muse Glimmer's form."""
    ready = alone.ready()
    return tokenizer_of(ready, encoding(JsonTokenizer(artifact("solo") / "tokenizer.json"), ready), muse=None)
