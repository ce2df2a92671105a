"""The actor kernel: addresses, mailboxes and one-shot reply ports over trio memory channels.

An actor is an async function that owns its state and reads one bounded inbox. Others hold its
Address. `ask` sends a message that carries a ReplyPort and waits for the single answer; `tell_nowait`
sends and goes on. Requests go down the tree, answers come back through ports by a synchronous send,
so no two actors can wait for each other.

Nothing here restarts anything: a core actor that raises is a bug and ends its nursery, and with it
the system (design: only the worker process is restarted).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import attrs
import trio

from muse.errors import MuseError, Unavailable

M = TypeVar("M")
T = TypeVar("T")

INBOX_SIZE: Final = 256
"""Messages an inbox holds. `ask` waits when it is full; `tell_nowait` answers 503 then."""


@attrs.define(slots=True, eq=False)
class ReplyPort(Generic[T]):
    """The asker's end of one question, held by the actor that answers.

    The actor calls `answer` or `fail` exactly once, from any of its tasks, and never waits. If the
    asker was cancelled meanwhile, `closed` is true and answering does nothing.
    """

    _send: trio.MemorySendChannel[T | MuseError]

    @property
    def closed(self) -> bool:
        """True when the asker no longer waits."""
        return self._send.statistics().open_receive_channels == 0

    def answer(self, value: T) -> None:
        """Give the asker its answer."""
        self._deliver(value)

    def fail(self, fault: MuseError) -> None:
        """Raise `fault` at the asker."""
        self._deliver(fault)

    def _deliver(self, value: T | MuseError) -> None:
        try:
            self._send.send_nowait(value)
        except trio.BrokenResourceError:
            pass  # the asker left: a normal outcome, not a fault
        self._send.close()


@attrs.define(slots=True, eq=False)
class Address(Generic[M]):
    """Where an actor's messages are sent. May be copied freely; closing is the system's business."""

    name: str
    _send: trio.MemorySendChannel[M]

    async def ask(self, make: Callable[[ReplyPort[T]], M]) -> T:
        """Send `make(port)` and wait for the answer.

        Cancelled while waiting: the port closes, and whether the actor acts on the message is its
        own decision (it can see `port.closed`). Raises the MuseError the actor answered with, or
        Unavailable when the actor ended without answering (the system is stopping).
        """
        send, receive = trio.open_memory_channel[T | MuseError](1)
        with receive:
            port = ReplyPort[T](send)
            try:
                await self._send.send(make(port))
                value = await receive.receive()
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel):
                raise Unavailable("stopping", "The server is shutting down.") from None
        if isinstance(value, MuseError):
            raise value
        return value

    async def tell(self, message: M) -> None:
        """Send, waiting only while the inbox is full. Raises Unavailable when the actor has ended."""
        try:
            await self._send.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Unavailable("stopping", "The server is shutting down.") from None

    def tell_nowait(self, message: M) -> None:
        """Send without waiting. Raises Unavailable when the inbox is full or the actor has ended."""
        try:
            self._send.send_nowait(message)
        except trio.WouldBlock:
            raise Unavailable("overloaded", f"The {self.name} has too many messages waiting.") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Unavailable("stopping", "The server is shutting down.") from None

    def close(self) -> None:
        """End the actor's inbox: its loop finishes what is queued and returns."""
        self._send.close()

    def statistics(self) -> trio.MemoryChannelStatistics:
        """How full the inbox is (for /metrics and tests)."""
        return self._send.statistics()


def open_mailbox(name: str, message_type: type[M], size: int = INBOX_SIZE) -> tuple[Address[M], trio.MemoryReceiveChannel[M]]:
    """Make an address and the inbox behind it, for messages of `message_type`.

    The type is given for the checker's sake: the channel itself does not look at messages.
    """
    send, receive = trio.open_memory_channel[M](size)
    return Address[M](name, send), receive


class Signal:
    """A value's wake-up: any number of tasks wait for the next change, one task announces it.

    `notify` is synchronous, so state and announcement change together; a waiter that starts after
    the change must look at the state first (compare versions), as with any condition.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def notify(self) -> None:
        """Wake every task that waits now."""
        if self._event.statistics().tasks_waiting:
            self._event.set()
            self._event = trio.Event()

    async def wait(self) -> None:
        """Wait for the next `notify`."""
        await self._event.wait()
