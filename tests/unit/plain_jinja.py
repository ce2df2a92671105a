"""A chat template rendered the way that Hugging Face's tokenizers do it, without any of our tracking.

Second implementation for comparison: what the product renders must be the same text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from muse.api.message import Message


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


@lru_cache
def _compile(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception  # pyright: ignore[reportArgumentType]
    return environment.from_string(source)


def render_plain(
    source: str,
    messages: Sequence[Message],
    *,
    now: datetime,
    add_generation_prompt: bool = True,
    bos_token: str = "",
    eos_token: str = "",
) -> str:
    """The whole prompt as one string. Raises what the template raises."""
    plain = [
        {"role": message.role, "content": message.content, **({"name": message.name} if message.name else {})}
        for message in messages
    ]
    return _compile(source).render(
        messages=plain,
        add_generation_prompt=add_generation_prompt,
        bos_token=bos_token,
        eos_token=eos_token,
        tools=None,
        documents=None,
        current_date=now.strftime("%Y-%m-%d"),
        strftime_now=now.strftime,
    )
