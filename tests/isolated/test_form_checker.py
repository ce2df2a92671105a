"""FormChecker: each form is checked once, in a process that may die, and a refusal is the client's error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from actors.front import form_checker
from actors.front.form_checker import FormChecker
from muse.api.chat_request import ChatRequest, SamplingDefaults, parse_chat_request
from muse.api.held_form import HeldForm
from muse.errors import ClientFault

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
        for _ in range(2):
            with pytest.raises(ClientFault) as caught:
                await checker.check(calling(OBJECT, {"type": "object", "properties": {"x": {"not": {}}}}))
            faults.append(caught.value)
        first, again = faults
        assert first is not again
        assert first.envelope() == again.envelope()
        assert (first.code, first.param) == ("invalid_schema", "tools[1].function.parameters")


async def test_what_kills_the_process_is_the_client_s_error() -> None:
    """Three factors make a grammar that takes the libraries for ever. The next check works."""
    factors = {"allOf": [{"type": "integer", "multipleOf": factor} for factor in (97, 89, 83)]}
    async with running() as checker:
        with pytest.raises(ClientFault, match=r"2 s|MiB") as caught:
            await checker.check(asking({"type": "object", "properties": {"n": factors}, "required": ["n"]}))
        assert (caught.value.status, caught.value.param) == (400, "response_format.json_schema.schema")
        assert await checker.check(asking(OBJECT)) is not None


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
