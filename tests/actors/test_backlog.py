"""Long events are taken in parts, in order, and others run in between."""

from __future__ import annotations

import trio

from actors.sessions.backlog import PART_CHARS, Backlog
from actors.supervisor.messages import RequestEvent
from muse.errors import MuseError, WorkerFault
from muse.protocol import Tokens

LONG = "0123456789" * PART_CHARS


def words(text: str, ids: tuple[int, ...] | None = (1, 2), *, control: bool = False) -> Tokens:
    return Tokens(request_id="r", ids=ids, text=text, control=control)


async def test_order_ids_and_text_stay() -> None:
    """What comes behind a long event waits for it, the fault that ends all as well; ids are counted once."""
    taken: list[RequestEvent | MuseError] = []
    backlog = Backlog()
    fault = WorkerFault("worker_lost", "Gone.")
    given = (words("a"), words(LONG), words("b", None), words(LONG, None), words(LONG, control=True), fault)
    for event in given:
        backlog.offer(event, taken.append)
    assert taken == [given[0]]
    assert backlog.is_waiting
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while backlog.is_waiting:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        await backlog.drain(taken.append)
    assert turns > 15
    assert not backlog.is_waiting
    tokens = [event for event in taken if isinstance(event, Tokens)]
    assert "".join(event.text for event in tokens) == "a" + LONG + "b" + LONG + LONG
    assert [event.ids for event in tokens if event.ids] == [(1, 2), (1, 2), (1, 2)]
    assert all(len(event.text) <= PART_CHARS or event.control for event in tokens)
    assert taken[-1] is fault
    backlog.offer(words("c"), taken.append)
    assert taken[-1] == words("c")
