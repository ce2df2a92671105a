"""Jinja for chat templates: sandboxed, bounded in time and size, and with the origin of text tracked.

Templates come from installed model files, so they are half trusted: no way out of the sandbox, no endless
work, but no defence against one that merely writes bad prompts. They run in an isolated process (render_job.py), which
the main process kills when it hangs, crashes or takes too much memory: the last word on all of this. The bounds here
come before that and give better reasons, without costing a process.

How they work, without signals or tracing:
- Every loop body and every call (function, method, macro) passes `tick`, which looks at the deadline.
- Between two ticks only single operations run. Those that can make much out of little are bounded in size
  (text and list arithmetic, `replace`, `join`, powers), stoppable (writing out nested values) or not
  offered (`center`, `zfill`, `%` on text, `batch`, ...). Nothing is evaluated at compile time.
- What remains are single operations of Python's that cannot be interrupted, such as comparing two values that share
  their inner lists many times over (`[[x, x], [x, x]]`, forty levels deep). Only a hostile template does that.

The origin of text (marked_text.py) enters here: string literals and template text are compiled to
`scaffold` text. tests/unit/test_chat_template_sandbox.py proves the bounds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
from jinja2 import Template, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import FILTERS  # pyright: ignore[reportUnknownVariableType] - untyped in Jinja
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from muse.chat import template_operations
from muse.chat.marked_text import MAX_CHARS, MarkedText, TextLimitExceeded, data, join_marked, scaffold

# Filters of Jinja's that keep to the size of what they are given; others are replaced below or not offered.
_PLAIN_FILTERS: Final = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby"),
    *("int", "items", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr"),
    *("reverse", "round", "safe", "select", "selectattr", "sort", "trim", "unique", "upper"),
)

# Methods of str that can make a long text out of a number.
_GROWING_METHODS: Final = frozenset(("center", "expandtabs", "ljust", "rjust", "translate", "zfill"))


class TemplateTimeExceeded(Exception):
    """The template has used up its time."""


@attrs.define(frozen=True, slots=True, kw_only=True)
class TemplateLimits:
    """Bounds of one rendering. output_chars: longest result. budget_s: time by `clock` (seconds); processor time, since
    a machine may sleep, and less than the process is given (actors/transcripts/renderer.py)."""

    output_chars: int = MAX_CHARS
    budget_s: float = 4.0
    clock: Callable[[], float] = time.process_time


class _CodeGenerator(CodeGenerator):
    """Compiles literals to scaffold text and puts a tick into every loop."""

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802 - Jinja's naming
        value = node.as_const(frame.eval_ctx)
        if isinstance(value, str):
            self.write(f"environment.literal({value!r})")
        else:
            super().visit_Const(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.write("environment.concat_values((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        place: dict[str, Any] = {"lineno": node.lineno, "environment": self.environment}
        call = nodes.Call(nodes.EnvironmentAttribute("tick", **place), [], [], None, None, **place)
        node.body.insert(0, nodes.ExprStmt(call, **place))
        super().visit_For(node, frame)

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return f"environment.literal({''.join(group)!r})"

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible  # evaluated under the limits, not while compiling
        return super()._output_child_to_const(node, frame, finalize)


class _NameFinder(_CodeGenerator):
    """Finds the names that a template reads without having set them, by Jinja's own rules of scope. Jinja's own
    finder (jinja2.meta) folds constants, that is, calculates without limits."""

    def __init__(self, environment: TemplateEnvironment) -> None:
        super().__init__(environment, None, None, optimized=False)
        self.names: set[str] = set()

    def write(self, x: str) -> None:
        """Nothing is to be compiled."""

    def enter_frame(self, frame: Frame) -> None:
        super().enter_frame(frame)
        loads = frame.symbols.loads.values()
        self.names.update(name for action, name in loads if action == "resolve" and name is not None)


class _GenerationTag(Extension):
    """`{% generation %}` marks the assistant's text for training tools; here it only passes it on."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """The Jinja environment of one template, for one rendering at a time."""

    code_generator_class = _CodeGenerator
    concat = staticmethod(join_marked)  # pyright: ignore[reportAssignmentType] - called without self
    intercepted_binops = template_operations.ARITHMETIC_SYMBOLS
    literal = staticmethod(scaffold)

    def __init__(self, limits: TemplateLimits) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=self.printable,
            extensions=["jinja2.ext.loopcontrols", _GenerationTag],
        )
        self._limits = limits
        self._deadline = 0.0
        filters: dict[str, Callable[..., Any]] = {name: FILTERS[name] for name in _PLAIN_FILTERS}
        filters["indent"] = template_operations.indent
        filters["replace"] = template_operations.replace
        filters["title"] = template_operations.title
        filters["join"] = self._join
        filters["string"] = self._text
        filters["tojson"] = self._tojson
        self.filters = filters
        names: dict[str, object] = self.globals  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        del names["lipsum"]
        names["raise_exception"] = template_operations.raise_exception

    def free_names(self, source: str) -> frozenset[str]:
        """Names that the template reads and neither it nor this environment sets. Raises as from_string does."""
        finder = _NameFinder(self)
        finder.visit(self.parse(source))
        known: dict[str, object] = self.globals  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return frozenset(finder.names - set(known))

    def render_marked(self, template: Template, variables: Mapping[str, object]) -> MarkedText:
        """Run a template that came from `from_string`. Raises what the template raises, and
        TextLimitExceeded or TemplateTimeExceeded."""
        self._deadline = self._limits.clock() + self._limits.budget_s
        pieces: list[str] = []
        chars = 0
        for piece in template.generate(**variables):
            pieces.append(piece)
            chars += len(piece)
            if chars > self._limits.output_chars:
                raise TextLimitExceeded(f"a prompt of more than {self._limits.output_chars} characters")
        return join_marked(pieces)

    # ------------------------------------------------------------ called by compiled templates

    def tick(self) -> None:
        """Passes as long as there is time. Raises TemplateTimeExceeded."""
        if self._limits.clock() > self._deadline:
            raise TemplateTimeExceeded(f"more than {self._limits.budget_s:g} s of work")

    def printable(self, value: Any) -> Any:
        """What an output expression prints."""
        return value if isinstance(value, Undefined) else self._text(value)

    def concat_values(self, values: Iterable[object]) -> MarkedText:
        """The operator `~`."""
        return join_marked([str(self.printable(value)) for value in values])

    def call(  # pyright: ignore[reportIncompatibleMethodOverride] - Jinja mangles these names for the same end
        self, context: Context, obj: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        self.tick()
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        left, right = template_operations.bounded_operands(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        return super().getattr(template_operations.with_bounded_methods(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return super().getitem(template_operations.with_bounded_methods(obj), argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr in _GROWING_METHODS:
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        return None if super().wrap_str_format(value) is None else template_operations.no_format

    # ------------------------------------------------------------ filters that take time

    def _text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, bool | int | float):
            return scaffold(str(value))  # a number or a truth value cannot carry a client's text
        template_operations.walk(value, self.tick)
        return MarkedText(str(value))

    def _join(self, value: Iterable[Any], d: object = "", attribute: str | int | None = None) -> str:
        items = value if attribute is None else (self.getitem(item, attribute) for item in value)
        return template_operations.marked(d).join(str(self.printable(item)) for item in items)

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # The signature that templates know from Hugging Face: no HTML escapes, real Unicode.
        template_operations.check_json_indent(indent)
        has_texts = template_operations.walk(value, self.tick)
        write = template_operations.to_json if has_texts else json.dumps
        return data(write(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys))
