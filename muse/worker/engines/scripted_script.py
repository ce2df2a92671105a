"""The script of the scripted engine: a JSON file, checked when it is read.

Format (every field is optional, unknown ones are refused):

    {"model_id": "scripted", "context_length": 65536, "slots": 2, "max_named_sessions": 2,
     "special_tokens": ["<|im_end|>", ...],      the first ends a turn
     "chat_template": "...",                     Jinja source; left out: a chat template of ChatML form
     "load_ms": 0, "load_steps": 4,              time to load, and how many loading events that makes
     "prefill_us_per_token": 0, "prefill_batch": 64,
     "faults": [FAULT, ...],                     those at "start", "load", "ready" and "idle"
     "answers": [ANSWER, ...]}                   the first whose `when` fits is given; [] echoes the prompt

    ANSWER: {"when": "text",                     fits if the last user text contains it; left out: always
             "tokens": ["It ", "rains", {"hex": "f09f"}, ...]  or  {"repeat": ["a "], "count": 20000},
             "token_ms": 0,                      before each token
             "batch": 1,                         tokens an event
             "ids": true,                        false: ids unknown, as engines do inside a character
             "faults": [FAULT, ...]}             those at "prefill" and "token"
    FAULT: see scripted_faults.py

A prompt that ends with the beginning of the answer is answered with the rest of it, compared by bytes: so
resuming a broken answer gives the undisturbed text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import attrs
import cattrs
from cattrs.errors import CattrsError, ClassValidationError

from muse.exhaustion import reason_of
from muse.worker.engines.scripted_faults import Fault

CHATML: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@attrs.define(frozen=True, slots=True, kw_only=True)
class Answer:
    """One scripted answer; tokens are the bytes of its words in order."""

    tokens: tuple[bytes, ...]
    when: str | None = None
    token_ms: float = 0.0
    batch: int = 1
    ids: bool = True
    faults: tuple[Fault, ...] = ()


@attrs.define(frozen=True, slots=True, kw_only=True)
class Script:
    """A whole script; times in the units of their names."""

    model_id: str = "scripted"
    context_length: int = 65536
    slots: int = 2
    max_named_sessions: int = 2
    grammar: bool = False  # claims to follow a JSON schema, and gives its answer all the same
    penalties: bool = True  # taken, as all sampling is, and without effect
    special_tokens: tuple[str, ...] = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")
    chat_template: str | None = CHATML
    load_ms: float = 0.0
    load_steps: int = 4
    prefill_us_per_token: float = 0.0
    prefill_batch: int = 64
    faults: tuple[Fault, ...] = ()
    answers: tuple[Answer, ...] = ()

    def answer_for(self, last_user_text: str) -> Answer | None:
        """The answer the script gives to a prompt, by its last user text; None: echo it."""
        return next((a for a in self.answers if a.when is None or a.when in last_user_text), None)


class ScriptFault(ValueError):
    """The script cannot be read; the text says what and where."""


def _words(value: Any, _type: Any) -> tuple[bytes, ...]:
    if isinstance(value, dict):
        spec = cast("Mapping[str, Any]", value)
        if set(spec) != {"repeat", "count"}:
            raise ValueError("tokens is a list, or an object with repeat and count")
        cycle = _words(spec["repeat"], None)
        count = int(spec["count"])
        return (cycle * (count // len(cycle) + 1))[:count]
    return tuple(_word(word) for word in cast("Sequence[Any]", value))


def _word(value: Any) -> bytes:
    if isinstance(value, dict):
        word = bytes.fromhex(str(cast("Mapping[str, Any]", value)["hex"]))
    else:
        word = str(value).encode("utf-8")
    if not word:
        raise ValueError("an empty token")
    return word


_converter = cattrs.Converter(forbid_extra_keys=True)
_converter.register_structure_hook_func(lambda kind: kind == tuple[bytes, ...], _words)


def read_script(path: Path) -> Script:
    """Read a script file. Raises ScriptFault."""
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict):
            raise TypeError("a script is an object")
        return _converter.structure(content, Script)
    except (OSError, ValueError, TypeError, KeyError, CattrsError) as fault:
        details = cattrs.transform_error(fault) if isinstance(fault, ClassValidationError) else [reason_of(fault)]
        raise ScriptFault(f"{path}: {'; '.join(details)}") from fault
