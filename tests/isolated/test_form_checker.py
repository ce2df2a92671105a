"""FormChecker: each form is checked once, in a process that may die, and a refusal is the client's error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from actors.front import form_checker
from actors.front.form_checker import FormChecker
from actors.isolated.process import JobLost, Reason
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.held_form import HeldForm
from muse.errors import ClientFault
from muse.structured.forms import CHECK, MODULE, AskedSchema, decode_asked, encode_held

HANG_GUARD_S = 60
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


@asynccontextmanager
async def running() -> AsyncIterator[FormChecker]:
    checker = FormChecker()
    with trio.fail_after(HANG_GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(checker.run)
            yield checker
            nursery.cancel_scope.cancel()


def asking(schema: dict[str, Any]) -> ChatRequest:
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return parse({"response_format": form})


def calling(*parameters: dict[str, Any]) -> ChatRequest:
    tools = [
        {"type": "function", "function": {"name": f"f{number}", "parameters": schema}}
        for number, schema in enumerate(parameters)
    ]
    return parse({"tools": tools, "tool_choice": "required"})


def parse(fields: dict[str, Any]) -> ChatRequest:
    return parse_chat_request({"messages": [{"role": "user", "content": "hi"}], **fields}, SamplingDefaults())


async def test_forms_are_checked_once() -> None:
    """A free answer and any object need no check, the others one; a verdict is remembered, good or bad."""
    async with running() as checker:
        assert await checker.check(parse({})) is None
        assert await checker.check(parse({"response_format": {"type": "json_object"}})) == HeldForm(
            schema='{"type":"object"}'
        )
        held = await checker.check(asking(OBJECT))
        assert held is not None
        assert json.loads(held.schema)["properties"] == OBJECT["properties"]
        assert await checker.check(asking(OBJECT)) is held
        faults: list[ClientFault] = []
        unique = {"type": "array", "uniqueItems": True}
        for _ in range(2):
            with pytest.raises(ClientFault) as caught:
                await checker.check(calling(OBJECT, {"type": "object", "properties": {"x": unique}}))
            faults.append(caught.value)
        first, again = faults
        assert first is not again
        assert first.envelope() == again.envelope()
        assert (first.code, first.param) == ("invalid_schema", "tools[1].function.parameters")


async def test_what_kills_the_process_is_the_client_s_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three factors make a grammar that takes the libraries for ever. The tool is named, and the next check works."""
    monkeypatch.setattr(form_checker, "LIMIT_S", 0.7)
    factors = {"allOf": [{"type": "integer", "multipleOf": factor} for factor in (97, 89, 83)]}
    async with running() as checker:
        with pytest.raises(ClientFault, match=r"0\.7 s|MiB") as caught:
            await checker.check(calling(OBJECT, {"type": "object", "properties": {"n": factors}, "required": ["n"]}))
        assert (caught.value.status, caught.value.param) == (400, "tools[1].function.parameters")
        assert "'f1'" in caught.value.detail
        assert await checker.check(asking(OBJECT)) is not None


class LosingProcesses:
    """In place of the real ones: loses the checks of schemas that `lose` says."""

    lose: Callable[[Sequence[AskedSchema]], Reason | None]

    def __init__(self, module: str) -> None:
        assert module == MODULE

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep_forever()

    async def call(self, job: str, payload: bytes, *, limit_s: float) -> bytes:
        assert (job, limit_s) == (CHECK, form_checker.LIMIT_S)
        asked = decode_asked(payload)
        checked.append(len(asked))
        await trio.sleep(TAKES_S)
        if reason := type(self).lose(asked):
            raise JobLost(reason, "did not work")
        return encode_held(HeldForm(schema="{}"))


TAKES_S = 0.1
checked: list[int] = []
"""How many schemas each check of LosingProcesses had."""


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> type[LosingProcesses]:
    checked.clear()
    monkeypatch.setattr(form_checker, "IsolatedProcesses", LosingProcesses)
    monkeypatch.setattr(form_checker, "LOST_KEPT_S", HANG_GUARD_S / 2)
    return LosingProcesses


async def refusal_of(checker: FormChecker, request: ChatRequest) -> ClientFault:
    with pytest.raises(ClientFault, match="did not work") as caught:
        await checker.check(request)
    assert caught.value.status == 400
    return caught.value


async def test_a_crash_is_not_remembered(losing: type[LosingProcesses], autojump_clock: trio.testing.MockClock) -> None:
    """It may have been the machine's."""
    async with running() as checker:
        losing.lose = lambda _: "crash"
        await refusal_of(checker, asking(OBJECT))
        losing.lose = lambda _: None
        assert await checker.check(asking(OBJECT)) is not None
        assert checked == [1, 1]


@pytest.mark.parametrize("reason", ["time", "memory"])
async def test_a_limit_is_remembered_for_a_while(
    reason: Reason, losing: type[LosingProcesses], autojump_clock: trio.testing.MockClock
) -> None:
    """An agent sends the same schema with each turn; later it is tried again."""
    async with running() as checker:
        losing.lose = lambda _: reason
        for _ in range(5):
            await refusal_of(checker, asking(OBJECT))
        assert checked == [1]
        await trio.sleep(form_checker.LOST_KEPT_S)
        losing.lose = lambda _: None
        assert await checker.check(asking(OBJECT)) is not None


@pytest.mark.parametrize("reason", ["time", "memory", "crash"])
async def test_of_several_tools_the_one_at_fault_is_named(
    reason: Reason, losing: type[LosingProcesses], autojump_clock: trio.testing.MockClock
) -> None:
    """Checked one by one."""
    async with running() as checker:
        losing.lose = lambda asked: reason if any(schema.tool == "f1" for schema in asked) else None
        fault = await refusal_of(checker, calling(OBJECT, {"type": "object"}, OBJECT))
        assert fault.param == "tools[1].function.parameters"
        assert "'f1'" in fault.detail
        assert checked == [3, 1, 1]


async def test_tools_that_are_too_much_together(
    losing: type[LosingProcesses], autojump_clock: trio.testing.MockClock
) -> None:
    """Each alone is fine, or there are too many to try each within the limit."""
    few, many = 3, 40
    async with running() as checker:
        losing.lose = lambda asked: "time" if len(asked) > 1 else None
        for count in (few, many):
            checked.clear()
            fault = await refusal_of(checker, calling(*[OBJECT] * count))
            assert fault.param == "tool_choice"
            assert f"{count} tools" in fault.detail
            assert len(checked) - 1 <= form_checker.LIMIT_S / TAKES_S + 2
        assert len(checked) < many


async def test_verdicts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By number; those used longest ago are forgotten."""
    monkeypatch.setattr(form_checker, "MAX_VERDICTS", 2)
    async with running() as checker:
        first, second, third = ({"const": number} for number in range(3))
        held = await checker.check(asking(first))
        await checker.check(asking(second))
        assert await checker.check(asking(first)) is held
        await checker.check(asking(third))
        assert await checker.check(asking(first)) is held
        monkeypatch.setattr(form_checker, "MAX_VERDICT_BYTES", 0)
        await checker.check(asking(second))
        again = await checker.check(asking(first))
        assert again == held
        assert again is not held


async def test_the_process_ends_when_it_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And comes back for the next check."""
    monkeypatch.setattr(form_checker, "KEPT_WARM_S", 0.01)
    async with running() as checker:
        for number in range(3):
            assert await checker.check(asking({"const": number})) is not None
            while checker.has_process:
                await trio.sleep(0.01)


async def test_schemas_of_tools_have_a_bound_in_all() -> None:
    """Before any work."""
    large = {"type": "object", "description": "x" * 200_000}
    async with running() as checker:
        with pytest.raises(ClientFault, match="in all") as caught:
            await checker.check(calling(large, large))
        assert caught.value.param == "tool_choice"
        assert not checker.has_process
