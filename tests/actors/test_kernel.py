"""The kernel: one answer to each question, whoever leaves first."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from actors.kernel import Mailbox, Question, ReplyPort, Signal
from muse.errors import ClientFault, Unavailable


@attrs.frozen(kw_only=True)
class Double(Question[int]):
    number: int


async def test_ask_returns_what_the_actor_answers() -> None:
    """The answer comes back through the port of the message."""
    mailbox = Mailbox[Double]("doubler")
    address, inbox = mailbox.address, mailbox.inbox

    async def actor() -> None:
        async for message in inbox:
            message.port.answer(message.number * 2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor)
        assert await address.ask(Double(number=21)) == 42
        address.close()


async def test_a_fault_is_raised_at_the_asker() -> None:
    """fail() raises exactly that error on the other side."""
    mailbox = Mailbox[Double]("doubler")
    address, inbox = mailbox.address, mailbox.inbox
    fault = ClientFault("odd", "Odd.")

    async def actor() -> None:
        (await inbox.receive()).port.fail(fault)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor)
        with pytest.raises(ClientFault) as caught:
            await address.ask(Double(number=1))
        assert caught.value.envelope() == fault.envelope()


async def test_a_question_to_an_ended_actor_is_no_hang() -> None:
    """The asker hears `stopping`, whether the inbox was closed by its owner or by the system."""
    for end in ("inbox", "address"):
        mailbox = Mailbox[Double]("doubler")
        mailbox.inbox.close() if end == "inbox" else mailbox.address.close()
        with pytest.raises(Unavailable) as caught:
            await mailbox.address.ask(Double(number=1))
        assert caught.value.code == "stopping"


async def test_a_cancelled_asker_closes_the_port(autojump_clock: MockClock) -> None:
    """The actor can see that nobody waits, and answering anyway does no harm."""
    mailbox = Mailbox[Double]("doubler")
    address, inbox = mailbox.address, mailbox.inbox
    with trio.move_on_after(1):
        await address.ask(Double(number=1))
    message = await inbox.receive()
    assert message.port.closed
    message.port.answer(2)


async def test_a_full_inbox_refuses_tell_nowait() -> None:
    """Bounded: the sender hears it, nothing is dropped."""
    mailbox = Mailbox[Double]("doubler", size=1)
    address, inbox = mailbox.address, mailbox.inbox
    message = Double(number=1)
    address.tell_nowait(message)
    with pytest.raises(Unavailable) as caught:
        address.tell_nowait(message)
    assert caught.value.code == "overloaded"
    assert inbox.receive_nowait() is message


async def test_a_signal_wakes_everyone_who_waits(autojump_clock: MockClock) -> None:
    """notify reaches all current waiters once."""
    signal = Signal()
    woken: list[int] = []

    async def waiter(number: int) -> None:
        await signal.wait()
        woken.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(waiter, number)
        await trio.testing.wait_all_tasks_blocked()
        signal.notify()
    assert sorted(woken) == [0, 1, 2]


async def test_an_answer_given_before_the_cancel_is_not_lost() -> None:
    """The actor answers and only then the asker is cancelled: the asker has the answer, and its next
    checkpoint is cancelled."""
    mailbox = Mailbox[Double]("doubler")
    scope = trio.CancelScope()
    heard: list[int] = []

    async def actor() -> None:
        (await mailbox.inbox.receive()).port.answer(42)
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(actor)
        await trio.testing.wait_all_tasks_blocked()
        with scope:
            heard.append(await mailbox.address.ask(Double(number=21)))
            await trio.sleep_forever()
    assert heard == [42]
    assert scope.cancelled_caught


async def test_a_fault_that_is_kept_holds_no_frames_of_who_asked() -> None:
    """Everybody who asked gets a copy: the traceback of each would keep its frames alive as long as the fault is."""
    fault = ClientFault("nope", "No.", param="x", retry_after_s=3, data={"n": 1})
    for _ in range(2):
        port = ReplyPort[int]()
        port.fail(fault)
        with pytest.raises(ClientFault) as raised:
            await port.wait()
        assert raised.value is not fault
        assert (raised.value.envelope(), raised.value.retry_after_s) == (fault.envelope(), 3)
    assert fault.__traceback__ is None
