"""Scenarios with whole answers: questions, conversations, tool calls, images, structured output."""

from __future__ import annotations

from typing import Any

from tests.faults.chaos.known import SCHEMAS, TIMER, ForcedCall, Form, Nano
from tests.faults.chaos.reading import Said, Wrong
from tests.faults.chaos.talk import Talk


async def single(talk: Talk) -> None:
    """One question without a session."""
    question = talk.model.plain(talk.chance)
    await talk.ask("single", question.body([]), question.want)


async def conversation(talk: Talk) -> None:
    """Several turns of a session; thoughts stay with the server."""
    session, messages = talk.new_session(), list[dict[str, Any]]()
    for question in talk.model.dialogue(talk.chance):
        said = await talk.ask("conversation", question.body(messages, session_id=session), question.want)
        messages += [*question.messages, {"role": "assistant", "content": said.answer}]
        if talk.chance.random() < 0.3:
            await _check_session(talk, session, messages)


async def tools(talk: Talk) -> None:
    """Calls, then their results, with a session and without."""
    assert isinstance(talk.model, Nano)
    fields = {"session_id": talk.new_session()} if talk.chance.random() < 0.7 else {}
    messages, said = list[dict[str, Any]](), Said()
    for question in talk.model.tools(talk.chance):
        ids = iter([call["id"] for call in said.calls])
        new = [{**m, "tool_call_id": next(ids)} if m["role"] == "tool" else m for m in question.messages]
        said = await talk.ask("tools", {**question.body([]), "messages": [*messages, *new], **fields}, question.want)
        messages += [*new, {"role": "assistant", "content": said.answer or None, "tool_calls": said.calls}]


async def image(talk: Talk) -> None:
    """A question about an image, which the next turn sends again."""
    assert isinstance(talk.model, Nano)
    session, messages = talk.new_session(), list[dict[str, Any]]()
    for _ in range(talk.chance.randrange(1, 3)):
        question = talk.model.image(talk.chance)
        said = await talk.ask("image", question.body(messages, session_id=session), question.want)
        messages += [*question.messages, {"role": "assistant", "content": said.answer}]


async def structured(talk: Talk) -> None:
    """`response_format`."""
    if talk.chance.random() < 0.2:
        schema: dict[str, Any] = {"type": "object"}
        wanted: dict[str, Any] = {"type": "json_object"}
        body = talk.model.constrained(response_format=wanted, stop=["}"])
        talk.pending = "structured, json_object cut by its stop string"
        said = await talk.client.whole(body)
        if not said.answer.lstrip().startswith("{"):
            raise Wrong(f"no beginning of an object: {said}")
        talk.right(said)
        return
    schema = {**talk.chance.choice(SCHEMAS), "title": f"made up {talk.chance.random()}"}  # checked anew each time
    wanted = {"type": "json_schema", "json_schema": {"name": "made_up", "schema": schema}}
    await talk.ask("structured", talk.model.constrained(response_format=wanted), Form(schema))


async def forced(talk: Talk) -> None:
    """`tool_choice`: a certain function, or any."""
    timer = {**TIMER, "function": {**TIMER["function"], "description": f"Start timer {talk.chance.random()}"}}
    function = {"type": "function", "function": {"name": TIMER["function"]["name"]}}
    choice = talk.chance.choice(["required", function])
    await talk.ask("forced call", talk.model.constrained(tools=[timer], tool_choice=choice), ForcedCall(timer))


async def unsent_text(talk: Talk) -> None:
    """What a page keeps of its composer: saved, shown, not replaced by an older one, gone with its session."""
    path = f"/api/drafts/text/{(session := talk.new_session())}"
    content = {"text": f"half a sentence {talk.chance.random()}"}
    talk.pending = "unsent text"
    saved = [
        await talk.client.send("PUT", path, {"version": n, "content": content if n == 2 else "old"}) for n in (2, 1)
    ]
    shown = await talk.client.send("GET", path)
    if [s["saved"] for s in saved] != [True, False] or shown != {"version": 2, "content": content}:
        raise Wrong(f"saved {saved}, shown {shown}")
    await talk.client.send("DELETE", f"/v1/sessions/{session}")
    if (shown := await talk.client.send("GET", path))["content"] is not None:
        raise Wrong(f"after its session: {shown}")
    talk.log.right(talk.pending)


async def _check_session(talk: Talk, session: str, messages: list[dict[str, Any]]) -> None:
    """The server's history of a session is what was said."""
    shown = await talk.client.send("GET", f"/v1/sessions/{session}")
    found = [(message["role"], message["content"]) for message in shown["messages"]]
    if found != [(message["role"], message["content"]) for message in messages]:
        raise Wrong(f"the session holds {found} instead of {messages}")
