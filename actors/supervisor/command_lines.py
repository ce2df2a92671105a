"""Command lines for the worker: a short one at once, a long one as the work that makes it, for a thread."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.supervisor.link import Line
from muse import protocol
from muse.protocol_codec import encode_command, prompt_chars

ENCODED_AT_ONCE: Final = 256 * 1024
"""Characters of a prompt that are encoded on the event loop: 0.3 ms. Longer ones are encoded in a thread."""


def line_of(command: protocol.WorkerCommand) -> Line:
    """What `WorkerLink.send` takes."""
    if prompt_chars(command) <= ENCODED_AT_ONCE:
        return encode_command(command)
    return partial(encode_command, command)
