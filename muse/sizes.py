"""How large a request may become on its way: body, JSON values, conversation, prompt, line to the worker.

Every other module takes these limits from here, so that each step fits what the step before may hand it:

    body (BODY_BYTES, all together BODIES_BYTES) -> JSON values (JSON_VALUES, JSON_ESCAPES) -> conversation (MAX_...)
    -> prompt (`is_too_long`) -> line to the worker (PROMPT_LINE_BYTES sent, COMMAND_BYTES read)

A text takes no more bytes in a line to the worker than it took in the body: both are JSON in UTF-8, and ours escapes
only what has to be escaped. A template may write a text twice (tools in two places), hence the factor of two.

Pure functions and numbers; sizes are bytes, or characters where a name says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

IMAGES_BYTES: Final = 40 * MIB
"""Files of all images of a request. In base64 they take 54 MiB of its body."""
DRAFT_BYTES: Final = 32 * MIB
"""One part of a draft. The largest image takes 27 MiB in base64."""
BODY_BYTES: Final = 64 * MIB
"""Body of one request: all images in base64, and 10 MiB of text; beyond: 413."""
BODIES_BYTES: Final = 4 * BODY_BYTES
"""Bodies of all requests that are being answered; beyond: 503."""

JSON_VALUES: Final = 250_000
"""Lists, objects and their members in one body. The largest sensible request, 32,768 messages of one text part, has
230,000 by the count of `muse.strict_json`. A list takes 2 bytes of JSON and 64 of memory, and decoding many small
values keeps the interpreter lock: 250,000 take 20 ms."""
JSON_ESCAPES: Final = 4 * MIB
"""Backslashes in one body. Decoding an escape takes 15 ns with the interpreter lock held; text of any language that is
escaped as `\\uXXXX` throughout has 4 Mi characters then, which is longer than any context."""

MAX_CONTEXT_TOKENS: Final = 131_072
"""Of the longest context that is served. What a conversation may hold follows from it, and is never less than what an
answer of ours may hold, so that it can come back. Texts, arguments and thoughts have no length limit of their own."""
MAX_MESSAGES: Final = MAX_CONTEXT_TOKENS // 4
"""Of a conversation: a message costs a template at least four tokens."""
MAX_CALLS: Final = MAX_MESSAGES
"""Of one message. To come back each needs a message with its result. An answer ends with its last possible call."""
MAX_ARGUMENT_VALUES: Final = 8 * MAX_CONTEXT_TOKENS
"""In all calls of one message, nested ones too: more than an answer has, where a token may be several brackets."""
MAX_UNREAD_CHARS: Final = 64 * MAX_CONTEXT_TOKENS
"""Of the arguments of one call, where the strict reader refuses them (muse/json_text.py). Longer than those of an
answer: a token has a few characters. A text of that length in one piece keeps the interpreter lock for 20 ms."""
MAX_NAME_CHARS: Final = 64
"""OpenAI's limit: of the name of a speaker. Names of functions have their own rule, for tools and calls alike."""
MAX_ID_CHARS: Final = 256
"""Of a call, and of a reply. Ours have fewer than 64."""
MAX_DETAILS_CHARS: Final = 64 * 1024
"""Of what is shown beside an answer, such as its metrics, without its reasoning. Ours have about 1,500."""

PROMPT_LINE_BYTES: Final = 2 * BODY_BYTES
"""Longest command line for a prompt as it is first sent; beyond: 400 `prompt_too_large`."""
COMMAND_BYTES: Final = PROMPT_LINE_BYTES + 16 * MIB
"""Longest command line that a worker reads. An answer that goes on is sent with the ids generated so far, 8 bytes each:
room for 2 Mi of them."""

PIECE_CHARS: Final = MIB
"""Long texts are worked on in pieces, so that other threads get the interpreter lock in between: 1 Mi characters take
1 to 3 ms."""

ORDINARY_BYTES: Final = frozenset((*b"\t\n\r", *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)))
"""What UTF-8 makes of characters that are not `_UNUSUAL`; small vocabularies lack tokens for other bytes."""
_UNUSUAL: Final = re.compile(r"[^\t\n\r\x20-\x7e\x80-\U0003ffff]")
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES: Final = '"\\\n\r\t\b\f'


def json_string_bytes(text: str) -> int:
    """Exact length of a text as JSON string in UTF-8, with its quotes, escaped as `muse.protocol_codec` does.

    Half a surrogate pair counts as the six bytes of its escape.
    """
    size = 2
    for start in range(0, len(text), PIECE_CHARS):
        piece = text[start : start + PIECE_CHARS]
        size += len(piece) if piece.isascii() else len(piece.encode("utf-8", "surrogatepass"))
        if _ESCAPED.search(piece):
            short = sum(map(piece.count, _SHORT_ESCAPES))
            control = sum(piece.count(chr(code)) for code in range(0x20) if chr(code) not in _SHORT_ESCAPES)
            size += short + 5 * control
    return size


def is_too_long(texts: Iterable[str], *, context_length: int, longest_token_bytes: int | None) -> bool:
    """Whether texts must have more tokens than the context, whatever they say: each token of a vocabulary that splits
    bytes stands for at most `longest_token_bytes` of them (None: the vocabulary is another, and nothing is known).

    A text with other characters than ordinary ones counts for nothing: small vocabularies leave these out.
    Texts of 64 Mi characters take up to 0.3 s, unless they fit.
    """
    if longest_token_bytes is None:
        return False
    # A character is at least one byte, so characters are enough to know.
    most = context_length * longest_token_bytes
    texts = list(texts)
    return sum(map(len, texts)) > most and sum(len(text) for text in texts if _is_ordinary(text)) > most


def _is_ordinary(text: str) -> bool:
    return not any(_UNUSUAL.search(text, start, start + PIECE_CHARS) for start in range(0, len(text), PIECE_CHARS))
