"""Chat templates: from messages to prompt segments that a client's text cannot forge.

A model's template is Jinja that writes control tokens around the messages. Each piece of the result is
known to be either the template's own (a segment with control tokens on) or anybody else's (control tokens
off: `<|im_end|>` typed by a user stays eight plain characters). The origin is followed through the
rendering itself (marked_text.py) and not marked by placeholders, because templates look into the text:
they trim it, cut thoughts out of it, ask whether it names a setting. They get the real text, so the joined
segments always equal a plain rendering, which tests/unit/test_chat_template.py proves.

Neighbouring pieces of one kind are one segment: that is how the model's own tokenizer would see them. Text
of a client never joins scaffold, even where no control token is near; at that seam the tokens may differ
from those of a plain rendering by a merge of two neighbours. That is the price of the rule.

What a template leaves out is refused, never dropped: a message without a trace in the prompt (but for one
whose text the template itself cut away or reworded to the last letter), or a name that it has no place for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

import attrs
from jinja2 import Template, TemplateError
from jinja2.exceptions import SecurityError

from muse.api.message import Message, content_parts
from muse.api.template_options import NO_OPTIONS, RESERVED, TemplateOptions, template_variables
from muse.api.tools import Tool
from muse.chat.marked_text import (
    UNKNOWN,
    MarkedText,
    TextLimitExceeded,
    data,
    runs_of,
    scaffold,
)
from muse.chat.pictures import MARKER, no_place_for, pictures_in, place_pictures, spelled_token
from muse.chat.splice import KnownAnswer, PromptPart, pieces_of, segments_of, to_parts
from muse.chat.template_checks import (
    check_calls,
    check_effort,
    check_names,
    missing_messages,
    refuse_missing,
    wordless_calls,
)
from muse.chat.template_messages import hermes_messages, native_messages, native_tools
from muse.chat.template_sandbox import TemplateEnvironment, TemplateLimits, TemplateTimeExceeded
from muse.errors import ClientFault, EnvironmentFault, JsonScalar
from muse.exhaustion import reason_of
from muse.protocol import Segment

MAX_SOURCE_CHARS: Final = 256 * 1024
"""Far above the largest published template (about 25,000)."""

_MAX_DETAIL_CHARS: Final = 300
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CHATML_MARK: Final = "<|im_start|>"

# Ours, for models that bring no template: the ChatML form, which most small chat models were trained on.
_CHATML: Final = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif -%}
"""


class ChatTemplate:
    """A compiled chat template, for one rendering at a time, which mostly takes well under a millisecond. The main
    process does not use it itself: see actors/transcripts/renderer.py."""

    def __init__(
        self,
        template: Template,
        environment: TemplateEnvironment,
        *,
        bos_token: str,
        eos_token: str,
        special_tokens: Iterable[str],
        settings: frozenset[str],
        knows_tools: bool,
        knows_pictures: bool,
        is_chatml: bool,
    ) -> None:
        """Use `compile` or `fallback`."""
        self.settings = settings
        """Names that the template reads and does not set itself: what a request may set."""
        self._knows_tools = knows_tools
        self._knows_pictures = knows_pictures
        self._is_chatml = is_chatml
        self.is_fallback = False
        """True: the model brought no template, and ours is a guess that its owner should know about."""
        self._template = template
        self._environment = environment
        self._bos_token = bos_token
        self._eos_token = eos_token
        self._special_tokens = tuple(sorted(filter(None, special_tokens), key=len, reverse=True))

    @classmethod
    def compile(
        cls,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        special_tokens: Iterable[str] = (),
        limits: TemplateLimits | None = None,
    ) -> ChatTemplate:
        """Compile a model's template. special_tokens: all spellings of control tokens, for the check of
        text whose origin is unknown. Raises EnvironmentFault `template_invalid`."""
        special_tokens = frozenset(special_tokens)
        if len(source) > MAX_SOURCE_CHARS:
            raise _invalid(f"it has more than {MAX_SOURCE_CHARS} characters")
        environment = TemplateEnvironment(limits or TemplateLimits())
        try:
            template = environment.from_string(source)
            names = environment.free_names(source)
        except Exception as fault:  # compiling a stranger's text may raise anything
            raise _invalid(reason_of(fault)) from fault
        return cls(
            template,
            environment,
            bos_token=bos_token,
            eos_token=eos_token,
            special_tokens=special_tokens,
            settings=names - RESERVED,
            knows_tools="tools" in names,
            knows_pictures=MARKER in source and MARKER in special_tokens,
            is_chatml=_CHATML_MARK in source,
        )

    @classmethod
    def fallback(cls, *, special_tokens: Iterable[str] = ()) -> ChatTemplate:
        """ChatML, for a model without a template."""
        template = cls.compile(_CHATML, special_tokens=special_tokens)
        template.is_fallback = True
        return template

    def render_segments(
        self,
        messages: Sequence[Message],
        *,
        now: datetime,
        options: TemplateOptions | None = None,
        tools: Sequence[Tool] = (),
        known: Mapping[int, KnownAnswer] | None = None,
        add_generation_prompt: bool = True,
    ) -> tuple[Segment, ...]:
        """The segments of `render_parts` alone."""
        parts = self.render_parts(messages, now, options or NO_OPTIONS, tools, known or {}, add_generation_prompt)
        return segments_of(parts)

    def render_parts(
        self,
        messages: Sequence[Message],
        now: datetime,
        options: TemplateOptions,
        tools: Sequence[Tool],
        known: Mapping[int, KnownAnswer],
        add_generation_prompt: bool = True,
    ) -> tuple[PromptPart, ...]:
        """Render a conversation. now: the date that the template may write into the prompt; keep it for a
        whole session, or every cached prefix breaks at midnight. options: the template's own settings. known: by
        message index, answers whose ids are to stand for their text.

        Raises ClientFault `template_error` (the template refuses the conversation, with its words), `template_limit`
        (it takes too long for it, or makes too much of it), `message_dropped` or `unsupported_parameter` (it leaves a
        message, a name, an option, the wanted effort or the tools out), and EnvironmentFault `template_unsupported`.
        """
        extra = self._extra_variables(options)
        self._check_tools(messages, tools)
        with_pictures = next((index for index, _ in pictures_in(messages)), None)
        if with_pictures is not None and (not self._knows_pictures or self._writes_tools(messages, tools)):
            raise no_place_for(with_pictures)
        split: frozenset[int] = frozenset()

        def render(messages: Sequence[Message], **other: object) -> MarkedText:
            variables = self._variables(messages, tools, split)
            return self._render(variables, now, add_generation_prompt, {**extra, **other})

        rendered = render(messages)
        # A template may have no room for the words beside a call; they are a message of their own then.
        split = wordless_calls(messages, pieces_of(rendered))
        if split:
            rendered = render(messages)
        check_effort(options, extra, rendered, lambda name, effort: render(messages, **{name: scaffold(effort)}))
        self._check_unknown(rendered)
        pieces = list(pieces_of(rendered))
        if with_pictures is not None:
            pieces = place_pictures(pieces, messages)
        check_names(messages, pieces)
        check_calls(messages, pieces)
        missing = missing_messages(messages, pieces)
        if missing:
            # Templates cut thoughts out of old answers and reword settings in system messages by design, and
            # nothing may be left. Whether this is such a case shows when the same places hold a plain word.
            # What a user said must leave a trace in any case.
            plain = [
                attrs.evolve(message, content="text") if index in missing and message.role != "user" else message
                for index, message in enumerate(messages)
            ]
            refuse_missing(messages, missing_messages(plain, pieces_of(render(plain))))
        return to_parts(pieces, known, self._special_tokens)

    def check_spellings(self, messages: Sequence[Message]) -> None:
        """For engines that read control tokens from any text: raises ClientFault `control_token` for the first content
        or name that spells one."""
        for index, message in enumerate(messages):
            texts = [("content", part) for part in content_parts(message) if isinstance(part, str)]
            for member, text in (*texts, ("name", message.name or "")):
                token = self.spelled_in(text)
                if token is not None:
                    raise spelled_token(index, member, token)

    def spelled_in(self, text: str) -> str | None:
        """The first control token that a text spells."""
        found = self._special_pattern.search(text) if self._special_tokens else None
        return found[1] if found else None

    def _extra_variables(self, options: TemplateOptions) -> Mapping[str, object]:
        """A word cannot spell a control token, and templates compare and join it with their own text, so it counts
        as theirs; anything longer stays the client's."""

        def marked(value: JsonScalar) -> object:
            if not isinstance(value, str):
                return value
            return scaffold(value) if self._is_word(value) else data(value)

        return {name: marked(value) for name, value in template_variables(options, self.settings).items()}

    def _is_word(self, text: str) -> bool:
        return _WORD.fullmatch(text) is not None and not any(token in text for token in self._special_tokens)

    def _check_tools(self, messages: Sequence[Message], tools: Sequence[Tool]) -> None:
        if self._knows_tools or self._is_chatml:
            return
        if tools:
            raise ClientFault(
                "unsupported_parameter", "This model's chat template has no place for tools.", param="tools"
            )
        for index, message in enumerate(messages):
            if message.role == "tool" or message.tool_calls:
                raise ClientFault(
                    "unsupported_parameter",
                    f"This model's chat template has no place for calls of tools, as in 'messages[{index}]'.",
                    param=f"messages[{index}]",
                )

    def _variables(
        self, messages: Sequence[Message], tools: Sequence[Tool], split: frozenset[int]
    ) -> Mapping[str, object]:
        """What of the conversation the template gets."""
        if self._writes_tools(messages, tools):
            return {"messages": hermes_messages(messages, tools), "tools": None}
        shown = native_messages(messages, self._is_word, split)
        return {"messages": shown, "tools": native_tools(tools, self._is_word)}

    def _writes_tools(self, messages: Sequence[Message], tools: Sequence[Tool]) -> bool:
        """There is something of tools to be written, of which the template knows nothing."""
        has_tools = bool(tools) or any(message.role == "tool" or message.tool_calls for message in messages)
        return has_tools and self._is_chatml and not self._knows_tools

    def _render(
        self,
        conversation: Mapping[str, object],
        now: datetime,
        add_generation_prompt: bool,
        extra: Mapping[str, object],
    ) -> MarkedText:
        def strftime_now(form: object) -> str:
            return scaffold(now.strftime(str(form)))

        variables: dict[str, object] = {
            # Templates test `tools` and `documents` with `is not none`, which is true for a name that is not defined.
            **conversation,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": scaffold(self._bos_token),
            "eos_token": scaffold(self._eos_token),
            "documents": None,
            "current_date": scaffold(now.strftime("%Y-%m-%d")),
            "strftime_now": strftime_now,
            **extra,
        }
        try:
            return self._environment.render_marked(self._template, variables)
        except (TextLimitExceeded, TemplateTimeExceeded, RecursionError, MemoryError) as fault:
            reason = str(fault) or type(fault).__name__
            raise ClientFault(
                "template_limit",
                f"This conversation is too large for the model's chat template, which went beyond its limits ({reason})"
                ": shorten the messages, the calls of tools or the list of tools.",
            ) from fault
        except SecurityError as fault:
            raise EnvironmentFault(
                "template_unsupported",
                f"The model's chat template asks for what is not offered: {str(fault).rstrip('.')}.",
            ) from fault
        except TemplateError as fault:
            raise _refused(str(fault.message or type(fault).__name__)) from fault
        except Exception as fault:  # compiled from a stranger's text, it may raise anything
            raise _refused(reason_of(fault)) from fault

    def _check_unknown(self, rendered: MarkedText) -> None:
        """Text of unknown origin must not spell a control token, whole or in part: it may be the template's
        or a client's, and either reading could be wrong."""
        reach = len(self._special_tokens[0]) - 1 if self._special_tokens else 0
        position = 0
        for length, origin in runs_of(rendered):
            end = position + length
            if origin == UNKNOWN and self._special_tokens:
                window = str.__str__(rendered)[max(0, position - reach) : end + reach]
                start_in_window = position - max(0, position - reach)
                for found in self._special_pattern.finditer(window):
                    if found.start() < start_in_window + length and found.end(1) > start_in_window:
                        raise EnvironmentFault(
                            "template_unsupported",
                            "The model's chat template treats text in a way that cannot be followed, and the "
                            f"text holds the control token {found[1]!r}. Remove that spelling from the messages.",
                        )
            position = end

    @cached_property
    def _special_pattern(self) -> re.Pattern[str]:
        # A lookahead finds spellings that overlap. Compiled on demand: most renderings need none.
        return re.compile("(?=(" + "|".join(map(re.escape, self._special_tokens)) + "))")


def _invalid(reason: str) -> EnvironmentFault:
    return EnvironmentFault(
        "template_invalid", f"The model's chat template cannot be used: {reason[:_MAX_DETAIL_CHARS]}"
    )


def _refused(reason: str) -> ClientFault:
    return ClientFault(
        "template_error",
        f"The model's chat template refuses this conversation: {reason[:_MAX_DETAIL_CHARS]}",
        param="messages",
    )
