"""How much of a conversation is taken: never less than what an answer of ours may hold, so that it can come back.

All follow from the longest context that is served. Lengths of texts, arguments and thoughts have no limit of their own:
the body of the request has one, and so has its JSON (muse/strict_json.py), in which arguments are read as well.
"""

from __future__ import annotations

from typing import Final

from muse.sizes import JSON_VALUES

MAX_CONTEXT_TOKENS: Final = 131_072
"""Of the longest context."""
MAX_MESSAGES: Final = MAX_CONTEXT_TOKENS // 4
"""Of a conversation: a message costs a template at least four tokens."""
MAX_CALLS: Final = MAX_MESSAGES
"""Of one message. To come back each needs a message with its result. An answer ends with its last possible call."""
MAX_ARGUMENT_VALUES: Final = JSON_VALUES
"""In all calls of one message, nested ones too: as many as a body may have. More than an answer has tokens."""
MAX_NAME_CHARS: Final = 64
"""OpenAI's limit: of the name of a speaker. Names of functions have their own rule, for tools and calls alike."""
MAX_ID_CHARS: Final = 256
"""Of a call, and of a reply. Ours have fewer than 64."""
MAX_DETAILS_CHARS: Final = 64 * 1024
"""Of what is shown beside an answer, such as its metrics, without its reasoning. Ours have about 1,500."""
