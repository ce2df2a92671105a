"""A chat template can neither leave its sandbox nor work without end."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest

from muse.api.message import Message
from muse.chat.template import ChatTemplate
from muse.chat.template_sandbox import TemplateLimits
from muse.errors import MuseError
from muse.protocol import TextSegment

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES = (Message(role="user", content="x" * 100),)


def sixty_times(first: str, step: str, last: str = "{{ ns.x }}") -> str:
    """A template that starts with a value, makes more of it sixty times, and then uses it."""
    return f"{{% set ns = namespace(x={first}) %}}{{% for i in range(60) %}}{step}{{% endfor %}}{last}"


def counting_limits(*, output_chars: int = 10**6) -> TemplateLimits:
    """A clock that ages by a millisecond with each look, so that the budget is 4,000 ticks."""
    ages = itertools.count()
    return TemplateLimits(output_chars=output_chars, clock=lambda: next(ages) / 1000)


def render(source: str, limits: TemplateLimits | None = None) -> str:
    template = ChatTemplate.compile(source, limits=limits or counting_limits())
    segments = template.render_segments(MESSAGES, now=NOW)
    return "".join(segment.text for segment in segments if isinstance(segment, TextSegment))


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in messages[0].content %}" * 12 + "{% endfor %}" * 12,
        "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for a in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
        sixty_times("[1]", "{% set ns.x = [ns.x, ns.x] %}", "{{ ns.x | tojson }}"),
        sixty_times("[1]", "{% set ns.x = [ns.x, ns.x] %}"),
        sixty_times("[1]", "{% set ns.x = {1: ns.x, 2: ns.x} %}", "{{ 'a' ~ ns.x }}"),
    ],
    ids=lambda source: source[-60:],
)
def test_endless_work_ends(source: str) -> None:
    """Loops, macros and the writing out of nested values look at the clock."""
    with pytest.raises(MuseError) as caught:
        render(source)
    assert (caught.value.code, caught.value.status) == ("template_limit", 400)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10 ** 12 }}",
        "{{ 10 ** 12 * 'a' }}",
        "{{ [0] * 10 ** 12 }}",
        "{{ 10 ** 12 * [0] }}",
        "{{ 9 ** (9 ** 9) }}",
        sixty_times("9", "{% set ns.x = ns.x * ns.x %}"),
        sixty_times("'ab'", "{% set ns.x = ns.x + ns.x %}"),
        sixty_times("'ab'", "{% set ns.x = ns.x ~ ns.x %}"),
        sixty_times("[1]", "{% set ns.x = ns.x + ns.x %}"),
        sixty_times("'ab'", "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
        sixty_times("'ab'", "{% set ns.x = ns.x | replace('b', 'bb' ~ ns.x) %}"),
        sixty_times("'ab'", "{% set ns.x = [ns.x, ns.x] | join(ns.x) %}"),
        "{{ 'a'.center(10 ** 12) }}",
        "{{ 'a'.ljust(10 ** 12) }}",
        "{{ ('a' | string).zfill(10 ** 12) }}",
        "{{ '\t'.expandtabs(10 ** 12) }}",
        "{{ '%999999999999d' % 1 }}",
        "{{ '{:999999999999}'.format(1) }}",
        "{{ '{:999999999999}'.format_map({}) }}",
        "{{ 'a\nb' | indent(10 ** 12) }}",
        "{{ [1] | tojson(indent=10 ** 12) }}",
    ],
    ids=lambda source: source[-60:],
)
def test_much_out_of_little_is_refused(source: str) -> None:
    """Single operations with huge results are refused before they are done."""
    with pytest.raises(MuseError) as caught:
        render(source)
    assert caught.value.code in ("template_limit", "template_unsupported")


def test_a_long_prompt_ends_the_rendering() -> None:
    """The output is counted while it comes out."""
    with pytest.raises(MuseError) as caught:
        render("{% for a in range(1000) %}0123456789{% endfor %}", counting_limits(output_chars=500))
    assert (caught.value.code, caught.value.status) == ("template_limit", 400)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ raise_exception.__globals__['__builtins__'] }}",
        "{{ messages[0]['content'].__str__.__self__.__class__.__base__ }}",
        "{{ messages[0].content._runs[0] }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ ('a' ~ '{0.__class__}').format(1) }}",
        "{{ messages | map(attribute='__class__.__base__') | list }}",
        "{{ strftime_now.__code__.co_consts }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}{{ y.z }}",
        "{% extends 'x' %}",
        "{{ self._TemplateReference__context.environment.tick }}",
    ],
)
def test_the_sandbox_holds(source: str) -> None:
    """Known ways out of Jinja's sandbox, and into the marks of text, end in an error of ours."""
    with pytest.raises(MuseError) as caught:
        render(source)
    assert caught.value.code in ("template_error", "template_unsupported")


def test_constants_are_not_evaluated_at_compile_time() -> None:
    """Compiling has no budget, so it must not calculate: what takes time looks at the clock."""
    looks: list[float] = []

    def clock() -> float:
        looks.append(0.0)
        return 0.0

    source = "{{ [1] | tojson }}{% set x = [1] | tojson %}{{ 'a' * 10 ** 12 }}{{ 9 ** (9 ** 9) }}"
    ChatTemplate.compile(source, limits=TemplateLimits(clock=clock))
    assert looks == []


def test_generation_tags_are_read_over() -> None:
    """Templates for training mark the assistant's text; the text is what counts."""
    source = "{% for m in messages %}{% generation %}<{{ m.content }}>{% endgeneration %}{% endfor %}"
    assert render(source) == "<" + "x" * 100 + ">"
