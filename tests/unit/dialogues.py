"""Turns as models write them, generated with what they must be read as: for the property tests of the parsers.

Texts are made of what could mislead a parser: tags, halves of tags, halves of control tokens, JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from hypothesis import strategies as st

from muse.chat.channel_types import Channel, Event, FoundCall
from muse.chat.harmony import END_OF_MESSAGE as EOM
from muse.chat.harmony import END_OF_TURN as EOT
from muse.chat.harmony import MESSAGE as M
from muse.chat.harmony import START as S
from tests.unit.parser_runs import SPELLING, joined

BITS: Final = st.one_of(
    st.sampled_from(["a", " ", "\n", "é", "🎉", "<", ">", '"', "\\", "{", "}", "|>", "<|", "7", "true"]),
    st.sampled_from(["to=", "user", "assistant", "<tool_call>", "</tool_call>", "<think>", "</atem:", "<atem:invoke"]),
    st.sampled_from(["</atem:parameter>", "</atem:invoke>", "</atem:function_calls>", "<atem:function_calls>"]),
    st.sampled_from(['<atem:invoke name="q">', '<atem:parameter name="s">']),
)
# A value that holds this cannot be told from its end (contracts/harmony-format.md section 8).
_ENDS: Final = re.compile(r"</atem:parameter>\s*(</?atem:function_calls>|</atem:invoke>|<atem:(invoke|parameter)[\s>])")
_VALUES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "n": st.integers(-(10**20), 10**20),
    "x": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(),
    "a": st.lists(st.none() | st.booleans() | st.integers(-9, 9) | st.text('aé"\\\n<', max_size=4), max_size=3),
}


def without_control_tokens(text: str) -> bool:
    """Where the worker knows no ids, the spelling of a control token is one, and so is its beginning at the end."""
    return SPELLING.search(text + "|>") is None and SPELLING.search(text + "a|>") is None


@st.composite
def texts(draw: st.DrawFn, *, min_size: int = 0) -> str:
    """Any text that holds no control token."""
    return draw(st.lists(BITS, min_size=min_size, max_size=6).map("".join).filter(without_control_tokens))


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Of the tool f."""
    made = {key: draw(values) for key, values in _VALUES.items() if draw(st.booleans())}
    if draw(st.booleans()):
        made["s"] = draw(texts().filter(lambda text: _ENDS.search(text) is None))
    return made


@st.composite
def harmony_calls(draw: st.DrawFn) -> tuple[str, list[Event]]:
    """The body of a message with calls."""
    prose = draw(st.sampled_from(["", "Look: ", "é <\n", "a </atem:invoke>"]))
    space = draw(st.sampled_from(["\n", "", " \n\n"]))
    body, events = "", list[Event]([("answer", prose.rstrip())] if prose else [])
    for made in draw(st.lists(st.none() | arguments(), min_size=1, max_size=3)):
        body += f'<atem:invoke name="{"g" if made is None else "f"}">{space}'
        for key, value in (made or {}).items():
            raw = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            body += f'<atem:parameter name="{key}">{raw}</atem:parameter>{space}'
        body += f"</atem:invoke>{space}"
        events.append(
            FoundCall(name="g" if made is None else "f", arguments=json.dumps(made or {}, ensure_ascii=False))
        )
    return f"{prose}<atem:function_calls>{space}{body}</atem:function_calls>{space}", events


@st.composite
def harmony_turns(draw: st.DrawFn) -> tuple[str, list[Event]]:
    """A turn of Harmony."""
    turn, events = "", list[Event]()
    said: set[Channel] = set()

    def say(channel: Channel, text: str) -> None:
        if text:
            events.append((channel, ("\n\n" if channel in said else "") + text))
            said.add(channel)

    for kind in draw(st.lists(st.sampled_from(["self", "user", "f", "", "g constrain=json"]), min_size=1, max_size=4)):
        turn += f"{S}assistant{f' to={kind}' if kind else ''}{M}"
        if kind in ("self", "user"):
            body = draw(texts())
            say("reasoning" if kind == "self" else "answer", body)
        else:
            body, found = draw(harmony_calls())
            for event in found:
                if isinstance(event, tuple):
                    say(*event)
                else:
                    events.append(event)
        turn += body + EOM
    return turn.removeprefix(f"{S}assistant").removesuffix(EOM) + draw(st.sampled_from([EOT, EOM, ""])), joined(events)


@st.composite
def chatml_turns(draw: st.DrawFn) -> tuple[str, list[Event]]:
    """A turn of a ChatML model that thinks, and calls by JSON between tags."""
    turn, events = "", list[Event]()
    if draw(st.booleans()):
        thought = draw(texts().filter(lambda text: text == text.strip() and "</think>" not in text))
        turn += f"<think>\n{thought}\n</think>\n\n"
        events += [("reasoning", thought)] if thought else []
    is_said = False
    for part in draw(st.lists(st.none() | st.sampled_from(["é", "a <", "Look: <tool", "{"]) | arguments(), max_size=4)):
        if isinstance(part, str):
            turn += part
            events.append(("answer", part))
            is_said = True
        else:
            name = "g" if part is None else "f"
            raw = json.dumps(
                {"name": name, "arguments": part or {}},
                ensure_ascii=draw(st.booleans()),
                indent=draw(st.sampled_from([None, 2])),
            )
            turn += f"\n<tool_call>\n{raw}\n</tool_call>"
            events.append(FoundCall(name=name, arguments=json.dumps(part or {}, ensure_ascii=False)))
    if draw(st.booleans()):
        last = "\nDone.\n" if is_said else "Done.\n"
        turn += last
        events.append(("answer", last))
    return turn, joined(events)
