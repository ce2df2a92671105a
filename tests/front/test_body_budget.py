"""Invariant: all bodies that are held at once stay within a bound; small ones pass; every end gives its share back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from actors.front.body import BODY, read_data
from actors.front.body_budget import FREE_BYTES, START_S, BodyBudget, BodyShare
from muse.errors import Unavailable
from muse.sizes import BODIES_BYTES, BODY_BYTES, DRAFT_BYTES, IMAGES_BYTES, KIB, MIB
from tests.front.harness import HANG_S, PATIENT, Client, Front, running

TOTAL = 300 * KIB
LIMITS = attrs.evolve(PATIENT, body_bytes=200 * KIB, bodies_bytes=TOTAL, linger_bytes=MIB)
LARGE = 150 * KIB
JSON = "Content-Type: application/json"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(clock: Clock) -> BodyBudget:
    return BodyBudget(TOTAL, 100.0, clock)


def test_declared_lengths_count_at_once(budget: BodyBudget) -> None:
    """Of uploads that begin together those that cannot fit are refused before they send anything."""
    with budget.share(LARGE), budget.share(LARGE):
        with pytest.raises(Unavailable) as caught, budget.share(LARGE):
            pass
        assert (caught.value.status, caught.value.code) == (503, "bodies_too_large_together")
        assert caught.value.retry_after_s
        with budget.share(FREE_BYTES) as small:
            budget.grow(small, FREE_BYTES)
    assert budget.held_bytes() == 0


def test_a_chunked_body_counts_as_it_comes(budget: BodyBudget) -> None:
    """Its length is declared nowhere."""
    with budget.share(0) as share, budget.share(LARGE), budget.share(100 * KIB):
        budget.grow(share, FREE_BYTES)
        with pytest.raises(Unavailable):
            budget.grow(share, 1)


def test_an_upload_that_stalls_holds_only_what_it_sent(budget: BodyBudget, clock: Clock) -> None:
    """Its place is given to others, and when it goes on it is refused if there is none left."""
    with budget.share(LARGE) as stalled:
        budget.grow(stalled, 70 * KIB)
        assert budget.held_bytes() == LARGE
        clock.now = START_S + 60
        assert budget.held_bytes() == 70 * KIB
        with budget.share(200 * KIB), pytest.raises(Unavailable):
            budget.grow(stalled, 70 * KIB)


def test_a_place_that_was_lost_does_not_come_back(budget: BodyBudget, clock: Clock) -> None:
    """An upload that catches up counts with what has come: others may have taken its place."""
    with budget.share(LARGE) as late:
        clock.now = START_S + 1
        with budget.share(200 * KIB) as other:
            budget.grow(other, 200 * KIB)
            budget.grow(late, 70 * KIB)
            assert budget.held_bytes() == 270 * KIB
            with pytest.raises(Unavailable):
                budget.grow(late, LARGE - 70 * KIB)


def test_an_upload_that_keeps_pace_cannot_be_pushed_out(budget: BodyBudget, clock: Clock) -> None:
    """What was admitted comes to its end."""
    with budget.share(LARGE) as share:
        for second in range(1, 101):
            clock.now = float(second)
            budget.grow(share, LARGE // 100)
            with pytest.raises(Unavailable), budget.share(TOTAL - LARGE + 1):
                pass


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["begin", "chunked", "grow", "end"]),
            st.integers(0, 5),
            st.integers(0, LARGE),
            st.floats(0, 30),
        ),
        max_size=60,
    )
)
def test_what_has_come_never_exceeds_the_bound(steps: list[tuple[str, int, int, float]]) -> None:
    """Whatever begins, sends, stalls and ends in whatever order, but for the small bodies that do not count."""
    clock = Clock()
    budget = BodyBudget(TOTAL, 100.0, clock)
    open_shares: list[tuple[object, BodyShare]] = []
    for action, index, size, pause_s in steps:
        clock.now += pause_s
        try:
            if action in ("begin", "chunked"):
                context = budget.share(size if action == "begin" else 0)
                open_shares.append((context, context.__enter__()))
            elif open_shares:
                context, share = open_shares[index % len(open_shares)]
                if action == "grow":
                    budget.grow(share, size)
                else:
                    open_shares.remove((context, share))
                    context.__exit__(None, None, None)  # type: ignore[attr-defined]
        except Unavailable:
            if action == "grow":  # as the gate does: its request ends
                open_shares.remove((context, share))
                context.__exit__(None, None, None)  # type: ignore[attr-defined]
        assert sum(share.received for _, share in open_shares if share.received > FREE_BYTES) <= TOTAL


def test_a_body_is_gone_once_it_was_taken() -> None:
    """What is made of it is held by its request, and not the bytes as well."""

    class Request:
        scope: ClassVar = {"state": {BODY: bytearray(b"{}")}}

    assert read_data(Request()) == b"{}"
    assert not Request.scope["state"]
    assert read_data(Request()) == b""


def test_one_request_of_every_kind_fits_the_limits() -> None:
    """Each limit leaves room for what the one before it allows."""
    assert IMAGES_BYTES * 4 // 3 < BODY_BYTES
    assert DRAFT_BYTES < BODY_BYTES <= BODIES_BYTES // 4


# ---------------------------------------------------------------- over sockets


async def hold(front: Front, client: Client) -> None:
    """A large body whose request waits in its route."""
    await client.send(client.head("POST", "/wait", JSON, f"Content-Length: {LARGE}") + b" " * LARGE)


async def begin_upload(front: Front, client: Client) -> None:
    await client.send(client.head("POST", "/size", JSON, f"Content-Length: {LARGE}") + b" ")


async def answer_of(front: Front, size: int, path: str = "/size") -> bytes:
    async with await front.connect() as client:
        await client.send(client.head("POST", path, JSON, f"Content-Length: {size}"))
        with suppress(trio.BrokenResourceError):  # refused meanwhile
            await client.send(b" " * size)
        return await client.read_until(b"\r\n\r\n")


async def wait_status(front: Front, size: int, status: bytes) -> None:
    """Ask until this is the answer: the server notices an end a moment later."""
    while not (await answer_of(front, size)).startswith(b"HTTP/1.1 " + status):
        await trio.sleep(0.005)


@pytest.mark.parametrize("begin", [hold, begin_upload])
async def test_beyond_the_bound_a_large_body_is_refused_and_a_small_one_passes(
    begin: Callable[[Front, Client], Awaitable[None]],
) -> None:
    """503 with Retry-After before it is read; and when the others have left, it passes."""
    async with running(LIMITS) as front:
        clients = [await front.connect() for _ in range(2)]
        for client in clients:
            await begin(front, client)
        with trio.fail_after(HANG_S):
            await wait_status(front, LARGE, b"503 ")
            assert (await answer_of(front, 1000)).startswith(b"HTTP/1.1 200 ")
            clients[0].reset()
            await wait_status(front, LARGE, b"200 ")
            clients[1].stream.socket.close()


async def test_a_refused_body_is_told_when_to_come_again() -> None:
    """By the header, in the envelope, and the connection ends, since the body is unread."""
    async with running(attrs.evolve(LIMITS, bodies_bytes=100 * KIB)) as front, await front.connect() as client:
        await client.send(client.head("POST", "/size", JSON, f"Content-Length: {LARGE}", "Expect: 100-continue"))
        answer = await client.read_all()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: " in answer
    assert b"bodies_too_large_together" in answer


@pytest.mark.parametrize("path", ["/size", "/ignore", "/echo", "/crash", "/missing"])
async def test_every_end_of_a_request_gives_its_share_back(path: str) -> None:
    """Answered, unread, refused, failed: ten times as much as fits passes one after the other."""
    async with running(attrs.evolve(LIMITS, bodies_bytes=LARGE)) as front:
        for _ in range(10):
            with trio.fail_after(HANG_S):
                while (await answer_of(front, LARGE, path)).startswith(b"HTTP/1.1 503 "):
                    await trio.sleep(0.005)
