"""Answers held to a JSON Schema: the grammar for it, and the check that it can be followed.

Engines build their constraint with llguidance. Whether a client's schema can be followed is found out before a request
comes here (muse/structured); here the grammar is asked once more, and the answer is read in the end, letter by letter,
whatever the engine made of the grammar.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Final

from muse.worker.engines.base import EngineFault

# Spaces and line breaks between the parts are left out: free to make them, small models make nothing else.
_OPTIONS: Final = {"whitespace_flexible": False}
# Else the library has the engine tokenise text that can only be this: what spells a control token would become it, and
# llama.cpp's tokeniser does not survive a long run of one kind of character.
_HEAD: Final = '%llguidance {"no_forcing": true}\nstart: %json '


def grammar_text(schema_text: str) -> str:
    """The grammar of a schema that stands as JSON text. Its options are ours, whatever the schema has."""
    return _HEAD + json.dumps({**json.loads(schema_text), "x-guidance": _OPTIONS})


def grammar_of(schema_text: str) -> str:
    """The grammar of the answers that follow the schema. Raises EngineFault `bad_request`."""
    grammar = grammar_text(schema_text)
    check_followed(_matcher(grammar))
    return grammar


def check_followed(matcher: Any) -> None:
    """A matcher of llguidance's at its beginning must be able to go on. Raises EngineFault `bad_request`."""
    fault: str = matcher.get_error()
    if not fault and not any(matcher.compute_bitmask()):
        fault = "no answer follows it, or too many do"
    if fault := fault or matcher.get_error():
        reason = fault.splitlines()[0].removeprefix("at 2(8): ")
        raise EngineFault("bad_request", f"the engine cannot hold an answer to this schema: {reason}")


def check_answer(grammar: str, answer: bytes, *, complete: bool) -> None:
    """An answer, or the beginning of one, must follow its grammar. Raises EngineFault `engine_error`."""
    matcher = _matcher(grammar)
    letters = list(answer)
    follows = matcher.try_consume_tokens(letters) == len(letters)
    if not follows or (complete and not matcher.is_accepting()):
        raise EngineFault("engine_error", "the engine did not hold its answer to the schema it was given")


def _matcher(grammar: str) -> Any:
    """Reads bytes along a grammar."""
    # By name, since it is for this alone and costs time to load.
    library: Any = importlib.import_module("llguidance")
    return library.LLMatcher(library.LLTokenizer("byte"), grammar, log_level=0)
