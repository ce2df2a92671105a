"""Rendering of chat templates as isolated jobs (muse/isolated). For the isolated process only.

`compile` takes the bytes of `encode_template`, `render` those of `encode_request` (render_wire.py). Both raise what
ChatTemplate raises. A compiled template is kept in the process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from muse.chat.render_wire import decode_request, decode_template, encode_parts
from muse.chat.template import ChatTemplate


@lru_cache(maxsize=4)
def _template_of(encoded: bytes) -> ChatTemplate:
    """The template, compiled once: a large one takes up to 0.3 s."""
    template = decode_template(encoded)
    if template.source is None:
        return ChatTemplate.fallback(special_tokens=template.special_tokens)
    return ChatTemplate.compile(
        template.source,
        bos_token=template.bos_token,
        eos_token=template.eos_token,
        special_tokens=template.special_tokens,
    )


def _compile(payload: bytes) -> bytes:
    _template_of(payload)
    return b""


def _render(payload: bytes) -> bytes:
    request = decode_request(payload)
    template = _template_of(request.template)
    known = request.known
    if any(message.images for message in request.messages) and not request.ids_with_images:
        # Ids will be spelled out, and all of the prompt read as one text.
        template.check_spellings(request.messages)
        known = {index: answer for index, answer in known.items() if template.spelled_in(answer.reasoning) is None}
    return encode_parts(template.render_parts(request.messages, request.now, request.options, request.tools, known))


JOBS: Final = {"compile": _compile, "render": _render}
