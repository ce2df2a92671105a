"""`chat_template_kwargs` and `reasoning_effort`: settings that a model's own chat template knows.

Which ones there are is the template's business; the prompt builder refuses by name what it has no place for.
Only `return_reasoning` is ours and never reaches the template (contracts/harmony-format.md section 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from muse.api.fields import invalid_type, invalid_value, is_number, member, read_bool, read_object, read_text
from muse.errors import ClientFault, JsonScalar

EFFORTS: Final = ("low", "medium", "high", "xhigh")
EFFORT_SETTINGS: Final = ("reasoning_strength", "reasoning_effort")
"""How templates name it: Muse Glimmer's the former."""
RESERVED: Final = frozenset(
    (
        *("messages", "tools", "documents", "add_generation_prompt", "continue_final_message"),
        *("bos_token", "eos_token", "strftime_now", "raise_exception"),
    )
)
"""What a rendering sets itself."""

_PATH: Final = "chat_template_kwargs"
_MOST_OPTIONS: Final = 32
_MOST_CHARS: Final = 1_000


@attrs.frozen(kw_only=True)
class TemplateOptions:
    """values: name and value, in the order given. reasoning_effort: OpenAI's field, None if it was not given."""

    values: tuple[tuple[str, JsonScalar], ...] = ()
    reasoning_effort: str | None = None


NO_OPTIONS: Final = TemplateOptions()


def parse_template_options(kwargs: object, effort: object) -> tuple[TemplateOptions, bool]:
    """The options, and whether the client wants to see the reasoning. Raises ClientFault."""
    given = {key: value for key, value in read_object(kwargs, _PATH).items() if value is not None}
    wanted = given.pop("return_reasoning", False)
    if len(given) > _MOST_OPTIONS:
        raise invalid_value(_PATH, f"must hold at most {_MOST_OPTIONS} settings")
    options = TemplateOptions(
        values=tuple((key, _read_value(key, value)) for key, value in given.items()),
        reasoning_effort=None if effort is None else _read_effort(effort),
    )
    return options, read_bool(wanted, f"{_PATH}.return_reasoning")


def _read_value(key: str, value: object) -> JsonScalar:
    path = member(_PATH, key)
    if key in RESERVED:
        raise ClientFault("unsupported_parameter", f"'{path}' is set by the server.", param=path)
    if key == "reasoning_strength" and value not in EFFORTS:
        raise invalid_value(path, f"must be one of {', '.join(EFFORTS)}")
    if isinstance(value, bool) or is_number(value):
        return value
    if not isinstance(value, str):
        raise invalid_type(path, "a string, a number, true or false")
    text = read_text(value, path)
    if len(text) > _MOST_CHARS:
        raise invalid_value(path, f"must have at most {_MOST_CHARS} characters")
    return text


def _read_effort(value: object) -> str:
    effort = read_text(value, "reasoning_effort")
    if effort not in EFFORTS:
        raise invalid_value("reasoning_effort", f"must be one of {', '.join(EFFORTS)}")
    return effort


def template_variables(options: TemplateOptions, known: frozenset[str]) -> Mapping[str, JsonScalar]:
    """The options as variables of a template that knows the names `known`. `reasoning_effort` becomes the
    setting of that kind that the template has: `reasoning_strength` (Muse Glimmer) or `reasoning_effort`.

    Raises ClientFault `unsupported_parameter` for what the template has no place for.
    """
    variables = dict(options.values)
    for name in variables:
        if name not in known:
            path = member(_PATH, name)
            raise ClientFault("unsupported_parameter", f"This model's template has no setting '{path}'.", param=path)
    effort = options.reasoning_effort
    if effort is None:
        return variables
    name = next((name for name in EFFORT_SETTINGS if name in known), None)
    if name is None:
        raise ClientFault(
            "unsupported_parameter", "This model has no setting for 'reasoning_effort'.", param="reasoning_effort"
        )
    if variables.get(name, effort) != effort:
        raise invalid_value("reasoning_effort", f"contradicts {_PATH}.{name}")
    return {**variables, name: effort}
