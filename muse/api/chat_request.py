"""The body of POST /v1/chat/completions: decoded strict JSON in, ChatRequest or ClientFault out.

Rules (the wire contract is OpenAI's, tightened so that nothing is dropped silently):
- null means absent for every known field.
- A field that cannot be honoured passes only with the value that asks for nothing (`n` 1,
  `logit_bias` {}); else it is refused by name, as is every unknown field. One answer names all of them.
- Wrong values are reported before refused fields, the first one only.
- `max_completion_tokens` wins over its older name `max_tokens`; both are checked. More than the model's context
  is refused when the model is known; more than the prompt leaves room for is cut to that, and the receipt says so.

tests/unit/test_api_chat_request.py proves: any JSON value gives one of the two, never another exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NewType, cast

import attrs

from muse.api.fields import (
    NumberRange,
    Offenders,
    invalid_type,
    invalid_value,
    is_number,
    member,
    read_bool,
    read_integer,
    read_number,
    read_object,
    read_text,
)
from muse.api.held_form import HeldForm
from muse.api.message import Message, parse_messages
from muse.api.response_format import parse_response_format
from muse.api.template_options import NO_OPTIONS, TemplateOptions, parse_template_options
from muse.api.tool_fields import NO_TOOLS, ToolUse, parse_tool_use
from muse.errors import ClientFault
from muse.protocol import Sampling

MAX_STOPS: Final = 16
MAX_STOP_CHARS: Final = 1_000
MAX_SESSION_ID_CHARS: Final = 128

_TOOL_FIELDS: Final = ("tools", "tool_choice", "parallel_tool_calls")

_MOST_TOKENS: Final = 2**31 - 1
"""Larger budgets mean the same and are cut to this, the largest number that every engine can hold."""

_TEMPERATURE: Final = NumberRange(low=0, high=2)
_TOP_P: Final = NumberRange(low=0, high=1, with_low=False)
_MIN_P: Final = NumberRange(low=0, high=1, with_high=False)
_REPEAT_PENALTY: Final = NumberRange(low=0.1, high=2)
"""Logits are divided by it: near 0 they would be too large for an engine's 32 bits."""
_PENALTY: Final = NumberRange(low=-2, high=2)
"""OpenAI's range."""

_HONOURED: Final = frozenset(
    (
        *("messages", "model", "stream", "stream_options", "session_id", "stop"),
        *("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "max_completion_tokens"),
        *("repeat_penalty", "presence_penalty", "frequency_penalty"),
        *("muse", "chat_template_kwargs", "reasoning_effort", "response_format"),
        *_TOOL_FIELDS,
    )
)


def _never(_value: object) -> bool:
    return False


# Field -> (the values that ask for nothing, in words; the test for them).
_NEUTRAL: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = {
    "n": ("1", lambda value: is_number(value) and value == 1),
    "logit_bias": ("{}", lambda value: value == {}),
    "logprobs": ("false", lambda value: value is False),
    "top_logprobs": ("null", _never),
    "functions": ("null", _never),
    "function_call": ("null", _never),
    "modalities": ('["text"]', lambda value: value == ["text"]),
    "audio": ("null", _never),
    "prediction": ("null", _never),
    "web_search_options": ("null", _never),
    "verbosity": ("null", _never),
    "user": ("null", _never),
    "safety_identifier": ("null", _never),
    "prompt_cache_key": ("null", _never),
    "metadata": ("null", _never),
    "store": ("null", _never),
    "service_tier": ("null", _never),
}


@attrs.define(frozen=True, slots=True, kw_only=True)
class SamplingDefaults:
    """What the server uses where a request is silent. max_tokens null: fill the room. seed null: random."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None


@attrs.define(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """A checked request. model null: the loaded one; whether a given one exists is the caller's question.
    max_tokens null: fill the room. stop: at most 16, none empty. session_id null: anonymous.

    detached: the reply goes on without its client and can be read again. continue_from: id of a reply to
    go on with; messages are then those of that reply, and empty here. max_thinking_tokens: after so many
    the reasoning channel is closed. return_reasoning: the client wants to see the reasoning. json_schema:
    what the answer must be, as JSON text of the client. form: what it is held to, null before that was checked
    (actors/front/form_checker.py) and for a free answer. template_options: settings of the model's own template.
    tool_use: which tools the model gets. tool_repair: a call that went wrong is told to the model, which tries again.
    """

    messages: tuple[Message, ...]
    model: str | None
    stream: bool
    include_usage: bool
    sampling: Sampling
    max_tokens: int | None
    stop: tuple[str, ...]
    session_id: str | None
    detached: bool = False
    continue_from: str | None = None
    max_thinking_tokens: int | None = None
    return_reasoning: bool = False
    json_schema: str | None = None
    form: HeldForm | None = None
    template_options: TemplateOptions = NO_OPTIONS
    tool_use: ToolUse = NO_TOOLS
    tool_repair: bool = False


CheckedRequest = NewType("CheckedRequest", ChatRequest)
"""Its `form` is that of the answer it asks for, null only for a free one. Made by the FormChecker alone."""


def parse_chat_request(body: object, defaults: SamplingDefaults) -> ChatRequest:
    """Check a decoded body. Raises ClientFault (400) with the path of the first wrong value, or with the
    names of all fields that this server does not take."""
    if not isinstance(body, dict):
        raise ClientFault("invalid_type", "The request body must be a JSON object.")
    fields = cast("dict[str, object]", body)
    offenders = Offenders()
    _gather_offenders(fields, offenders)
    present = {key: value for key, value in fields.items() if value is not None}
    options = _parse_muse(present.get("muse", {}), offenders)
    template_options, return_reasoning = parse_template_options(
        present.get("chat_template_kwargs", {}), present.get("reasoning_effort")
    )
    request = ChatRequest(
        messages=_parse_conversation(present, options.continue_from, offenders),
        model=read_text(present["model"], "model") if "model" in present else None,
        stream=read_bool(present.get("stream", False), "stream"),
        include_usage=_parse_stream_options(present.get("stream_options", {}), offenders),
        sampling=_parse_sampling(present, defaults),
        max_tokens=_parse_max_tokens(present, defaults),
        stop=_parse_stop(present.get("stop", [])),
        session_id=parse_session_id(present["session_id"]) if "session_id" in present else None,
        detached=options.detached,
        continue_from=options.continue_from,
        max_thinking_tokens=options.max_thinking_tokens,
        return_reasoning=return_reasoning,
        template_options=template_options,
        json_schema=parse_response_format(present.get("response_format", {"type": "text"}), offenders),
        tool_use=parse_tool_use(present, offenders),
        tool_repair=options.tool_repair,
    )
    if request.json_schema is not None and request.tool_use.tools:
        raise invalid_value("response_format", "cannot be combined with tools: a call has no place in that form")
    if options.continue_from is not None and options.tool_repair:
        raise invalid_value("muse.tool_repair", "must be left out with muse.continue: the earlier reply has its own")
    if options.continue_from is not None and template_options.values:
        raise invalid_value("chat_template_kwargs", "can only hold return_reasoning with muse.continue")
    offenders.raise_if_any()
    return request


@attrs.frozen(kw_only=True)
class _MuseOptions:
    """The members of `muse`."""

    detached: bool = False
    continue_from: str | None = None
    max_thinking_tokens: int | None = None
    tool_repair: bool = False


def _parse_muse(value: object, offenders: Offenders) -> _MuseOptions:
    given = {key: option for key, option in read_object(value, "muse").items() if option is not None}
    for key in given:
        if key not in ("detached", "continue", "max_thinking_tokens", "tool_repair"):
            offenders.add_unknown(member("muse", key))
    budget = given.get("max_thinking_tokens")
    return _MuseOptions(
        detached=read_bool(given.get("detached", False), "muse.detached"),
        continue_from=read_text(given["continue"], "muse.continue") if "continue" in given else None,
        max_thinking_tokens=None
        if budget is None
        else min(read_integer(budget, "muse.max_thinking_tokens", lowest=0), _MOST_TOKENS),
        tool_repair=read_bool(given.get("tool_repair", False), "muse.tool_repair"),
    )


def _parse_conversation(
    present: Mapping[str, object], continue_from: str | None, offenders: Offenders
) -> tuple[Message, ...]:
    if continue_from is None:
        if "messages" not in present:
            raise ClientFault("missing_required_parameter", "'messages' is missing.", param="messages")
        return parse_messages(present["messages"], offenders)
    for key in ("messages", "session_id", "response_format", "reasoning_effort", *_TOOL_FIELDS):
        if key in present:
            # The reply that is continued has its own; another one here could only contradict it.
            raise invalid_value(key, "must be left out with muse.continue, which goes on with an earlier reply")
    return ()


def model_not_found(loaded: str) -> ClientFault:
    """A request named another model than the loaded one; whoever knows which that is raises this."""
    return ClientFault(
        "model_not_found",
        f"The loaded model is {loaded!r}. Leave `model` out to use it.",
        status=404,
        param="model",
    )


def parse_session_id(value: object, path: str = "session_id") -> str:
    """Check a session id: 1 to 128 characters of 0x21 to 0x7E, in whose parts between slashes none is `.` or `..`,
    because URL libraries resolve these, escaped or not, so that such a session could not be addressed. Raises
    ClientFault `invalid_session_id`."""
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= MAX_SESSION_ID_CHARS
        or not all("!" <= char <= "~" for char in value)
        or not {".", ".."}.isdisjoint(value.split("/"))
    ):
        rule = (
            f"must be a string of 1 to {MAX_SESSION_ID_CHARS} visible ASCII characters without spaces, "
            "and must not have . or .. as a part between slashes"
        )
        raise ClientFault("invalid_session_id", f"'{path}' {rule}.", param=path)
    return value


def _gather_offenders(fields: Mapping[str, object], offenders: Offenders) -> None:
    for key, value in fields.items():
        if key in _HONOURED:
            continue
        if key not in _NEUTRAL:
            offenders.add_unknown(member("", key))
        elif value is not None:
            wanted, is_neutral = _NEUTRAL[key]
            if not is_neutral(value):
                offenders.add_unsupported(key, f"is not supported (only {wanted} passes)")


def _parse_stream_options(value: object, offenders: Offenders) -> bool:
    options = read_object(value, "stream_options")
    for key, option in options.items():
        # Official clients send include_obfuscation false to ask for nothing extra.
        if key != "include_usage" and not (key == "include_obfuscation" and option in (None, False)):
            offenders.add_unknown(member("stream_options", key))
    include_usage = options.get("include_usage")
    return include_usage is not None and read_bool(include_usage, "stream_options.include_usage")


def _parse_sampling(present: Mapping[str, object], defaults: SamplingDefaults) -> Sampling:
    def number(name: str, default: float, allowed: NumberRange) -> float:
        return read_number(present.get(name, default), name, allowed)

    seed = present.get("seed", defaults.seed)
    return Sampling(
        temperature=number("temperature", defaults.temperature, _TEMPERATURE),
        top_p=number("top_p", defaults.top_p, _TOP_P),
        top_k=read_integer(present.get("top_k", defaults.top_k), "top_k", lowest=0, highest=2**31 - 1),
        min_p=number("min_p", defaults.min_p, _MIN_P),
        repeat_penalty=number("repeat_penalty", defaults.repeat_penalty, _REPEAT_PENALTY),
        presence_penalty=number("presence_penalty", defaults.presence_penalty, _PENALTY),
        frequency_penalty=number("frequency_penalty", defaults.frequency_penalty, _PENALTY),
        seed=None if seed is None else read_integer(seed, "seed", lowest=0, highest=2**63 - 1),
    )


def _parse_max_tokens(present: Mapping[str, object], defaults: SamplingDefaults) -> int | None:
    budget = defaults.max_tokens
    for key in ("max_tokens", "max_completion_tokens"):
        if key in present:
            budget = min(read_integer(present[key], key, lowest=1), _MOST_TOKENS)
    return budget


def _parse_stop(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_read_stop(value, "stop"),)
    if not isinstance(value, list):
        raise invalid_type("stop", "a string or a list of strings")
    items = cast("list[object]", value)
    if len(items) > MAX_STOPS:
        raise invalid_value("stop", f"must hold at most {MAX_STOPS} strings")
    return tuple(_read_stop(item, f"stop[{index}]") for index, item in enumerate(items))


def _read_stop(value: object, path: str) -> str:
    stop = read_text(value, path)
    if not 1 <= len(stop) <= MAX_STOP_CHARS:
        raise invalid_value(path, f"must have 1 to {MAX_STOP_CHARS} characters")
    return stop
