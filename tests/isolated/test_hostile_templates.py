"""Hostile chat templates, over the real process: each ends in an error that says why, and the next rendering works."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import attrs
import pytest
import trio
import trio.testing

from actors.isolated.pool import MAX_PROCESSES, IsolatedProcesses
from actors.transcripts.messages import BuildPrompt
from actors.transcripts.renderer import MODULE, Renderer
from muse.api.message import Message
from muse.errors import MuseError
from muse.protocol import Ready, TextSegment
from tests.actors.conversation_model import MODELS
from tests.server_process import isolated_of

HANG_GUARD_S = 120
HOSTILE_LIMIT_S = 0.15
NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES = (Message(role="user", content="Hello"),)
GOOD = MODELS[0]


def doubled(first: str, step: str, last: str) -> str:
    """A value that holds itself twice, sixty levels deep, and an operation on it."""
    return f"{{% set ns = namespace(x={first}) %}}{{% for i in range(60) %}}{step}{{% endfor %}}{last}"


def lists(last: str) -> str:
    return doubled("[1]", "{% set ns.x = [ns.x, ns.x] %}", last)


def tuples(last: str) -> str:
    return doubled("(1,)", "{% set ns.x = (ns.x, ns.x) %}", last)


DEEP = (
    "{% set ns = namespace(x=()) %}{% for i in range(60000) %}{% set ns.x = "
    + "(" * 10 + "ns.x" + ",)" * 10 + " %}{% endfor %}"
)  # fmt: skip

BEYOND_TIME = (
    "{{ 1 | round(2000000000, 'floor') }}",
    "{{ 1 | round(2000000000, 'ceil') }}",
    tuples("{{ [ns.x, ns.x] | unique | list }}"),
    tuples("{{ {ns.x: 1} }}"),
    *(lists(f"{{{{ ns.x | {name} }}}}") for name in ("upper", "trim", "replace('a', 'b')", "e", "title", "indent")),
    lists("{% set a = namespace(x=ns.x) %}" + lists("{{ ns.x == a.x }}")),
    "{{ ('ab' * 1000000).split('a') | map('replace', 'b', 'c' * 100) | join | length }}",
    "{% for i in range(99999) %}{% for j in range(9999) %}0123456789{% endfor %}{% endfor %}",
    "{{ " + ", ".join(["1"] * 80_000) + " }}",  # at compile time
)
BEYOND_MEMORY = (
    "{{ 'a'.encode() * 10 ** 9 }}",
    "{{ (1).to_bytes(10 ** 9, 'big') | length }}",
    "{{ 'a'.encode().center(10 ** 9) | length }}",
    "{{ 'a'.encode().zfill(10 ** 9) | length }}",
    "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x + [range(99999) | list] %}{% endfor %}",
)
OTHERWISE = (
    DEEP + "{{ {ns.x: 1} | length }}",  # the C stack overflows
    "{{ ('a'.encode() * 10 ** 6).replace('a'.encode(), 'b'.encode() * 10 ** 6) | length }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ 1e999 }}",
    "{{ '\\ud800' }}{{ messages[0].content }}",
    "{{ " + "(" * 100_000 + ")" * 100_000 + " }}",
    "{{ 1" + " + 1" * 50_000 + " }}",
    "{{ x" + "[0]" * 50_000 + " }}",
    "{{ '" + "a" * 200_000,
    "{#" * 100_000,
    "a" * 300_000,
)


def building(model: Ready) -> BuildPrompt:
    return BuildPrompt(session_id=None, messages=MESSAGES, model=model)


async def check_good(renderer: Renderer) -> None:
    """Another model's template renders as it should."""
    parts = await renderer.render(building(GOOD), NOW, {})
    assert "Hello" in "".join(part.segment.text for part in parts if isinstance(part.segment, TextSegment))


async def failure_of(renderer: Renderer, template: str) -> MuseError:
    with pytest.raises(MuseError) as caught:
        await renderer.render(building(attrs.evolve(GOOD, chat_template=template)), NOW, {})
    return caught.value


@asynccontextmanager
async def renderers() -> AsyncGenerator[tuple[Renderer, Renderer]]:
    """Two with the same processes: an impatient one for what is hostile, and one as the server has it."""
    processes = IsolatedProcesses(MODULE)
    with trio.fail_after(HANG_GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(processes.run)
            yield Renderer(processes, limit_s=HOSTILE_LIMIT_S), Renderer(processes)
            nursery.cancel_scope.cancel()


def shown(template: str) -> str:
    return template[-50:]


@pytest.mark.parametrize(
    ("templates", "words"),
    [(BEYOND_TIME, f"took more than {HOSTILE_LIMIT_S} s"), (BEYOND_MEMORY, "took more than 512 MiB of memory")],
    ids=["time", "memory"],
)
async def test_what_goes_beyond_a_limit_is_stopped(templates: Sequence[str], words: str) -> None:
    """400 `template_failed` that says which limit, and what to do; the next rendering works."""
    async with renderers() as (impatient, patient):
        for template in templates:
            fault = await failure_of(impatient if "memory" not in words else patient, template)
            assert (fault.code, fault.status) == ("template_failed", 400), shown(template)
            assert words in fault.detail, shown(template)
            assert "use another model file" in fault.detail
            await check_good(patient)


async def test_hanging_renderings_do_not_hold_up_the_others() -> None:
    """More than there are processes, and each is given more time than this test has."""
    async with renderers() as (_, patient):
        hanging = Renderer(patient._processes, limit_s=10 * HANG_GUARD_S)
        async with trio.open_nursery() as nursery:
            for template in BEYOND_TIME[: MAX_PROCESSES + 1]:
                message = building(attrs.evolve(GOOD, chat_template=template))
                nursery.start_soon(hanging.render, message, NOW, {})
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                await check_good(patient)
            nursery.cancel_scope.cancel()


async def test_everything_else_hostile_is_an_error_too() -> None:
    """A crash of the process, what the bounds inside refuse, and what does not compile."""
    codes: list[str] = []
    async with renderers() as (_, patient):
        for template in OTHERWISE:
            fault = await failure_of(patient, template)
            codes.append(fault.code)
            await check_good(patient)
    assert "internal_error" not in codes
    assert codes[0] == "template_failed"
    assert set(codes[-6:]) == {"template_invalid"}
    assert codes[4] == "template_unsupported"


async def test_a_template_that_hangs_while_it_compiles_is_given_up() -> None:
    """It is not what the next process begins with, so that other requests find one."""
    hanging = attrs.evolve(GOOD, chat_template=BEYOND_TIME[-1])
    async with renderers() as (impatient, patient):
        with pytest.raises(MuseError) as caught:
            await impatient.prepare(hanging)
        assert caught.value.code == "template_failed"
        await check_good(patient)


async def test_a_renderer_that_somebody_stops_or_kills() -> None:
    """SIGSTOP, SIGKILL: the request gets another process."""
    async with renderers() as (impatient, patient):
        await check_good(patient)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            os.kill(isolated_of(os.getpid())[-1], number)
            await check_good(impatient)
            await check_good(patient)
