"""The actor kernel: addresses, mailboxes and one-shot reply ports over trio memory channels.

An actor is an async function that owns its state and reads one bounded inbox. Others hold its
Address. `ask` sends a message that carries a ReplyPort and waits for the single answer; `tell_nowait`
sends and goes on. Requests go down the tree, answers come back through ports by a synchronous send,
so no two actors can wait for each other.

Nothing here restarts anything: a core actor that raises is a bug and ends its nursery, and with it
the system (design: only the worker process is restarted).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Generic, TypeVar, cast

import attrs
import trio

from muse.errors import MuseError, Unavailable

M = TypeVar("M")
T = TypeVar("T")

INBOX_SIZE: Final = 256
"""Messages an inbox holds. `ask` waits when it is full; `tell_nowait` answers 503 then."""


class ReplyPort(Generic[T]):
    """Where one question is answered: made with the question, used once.

    The actor calls `answer` or `fail` exactly once, from any of its tasks, and never waits. If the
    asker was cancelled meanwhile, `closed` is true and answering does nothing.
    """

    __slots__ = ("_receive", "_send")

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[T | MuseError](1)

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
        with suppress(trio.BrokenResourceError):  # the asker left: a normal outcome, not a fault
            self._send.send_nowait(value)
        self._send.close()

    async def wait(self) -> T:
        """The asker's side: wait for the answer; used by Address.ask only."""
        with self._receive:
            try:
                # An answer that is there already is taken even by a cancelled asker: what it stands for
                # (a turn that was started) needs somebody who ends it.
                value = self._receive.receive_nowait()
            except trio.WouldBlock:
                value = await self._receive.receive()
        if isinstance(value, MuseError):
            raise value.without_frames()  # others may get the same one
        return value


@attrs.frozen(kw_only=True)
class Question(Generic[T]):
    """Base of messages that have an answer of type T."""

    port: ReplyPort[T] = attrs.field(factory=ReplyPort[T], eq=False, repr=False)


@attrs.define(slots=True, eq=False)
class Address(Generic[M]):
    """Where an actor's messages are sent. May be copied freely; closing is the system's business."""

    name: str
    _send: trio.MemorySendChannel[M]

    async def ask(self, question: Question[T]) -> T:
        """Send a question and wait for its answer.

        Cancelled while waiting: the port closes, and whether the actor acts on the message is its
        own decision (it can see `port.closed`). Raises the MuseError the actor answered with, or
        Unavailable when the actor ended without answering (the system is stopping).
        """
        try:
            # Python has no type for "an M that is a Question": which questions an actor takes, its own
            # `match` with assert_never checks.
            await self._send.send(cast("M", question))
            return await question.port.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel):
            raise _stopping() from None

    async def tell(self, message: M) -> None:
        """Send, waiting only while the inbox is full. Raises Unavailable when the actor has ended."""
        try:
            await self._send.send(message)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise _stopping() from None

    def tell_nowait(self, message: M) -> None:
        """Send without waiting. Raises Unavailable when the inbox is full or the actor has ended."""
        try:
            self._send.send_nowait(message)
        except trio.WouldBlock:
            raise Unavailable("overloaded", f"The {self.name} has too many messages waiting.") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise _stopping() from None

    def close(self) -> None:
        """End the actor's inbox: its loop finishes what is queued and returns."""
        self._send.close()


def _stopping() -> Unavailable:
    return Unavailable("stopping", "The server is shutting down.")


class Mailbox(Generic[M]):
    """An address and the inbox behind it: `Mailbox[Messages]("name")`."""

    __slots__ = ("address", "inbox")

    def __init__(self, name: str, size: int = INBOX_SIZE) -> None:
        send, receive = trio.open_memory_channel[M](size)
        self.address: Final = Address[M](name, send)
        self.inbox: Final = receive


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
