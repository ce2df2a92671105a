"""Grammars of schemas, read byte by byte: by the library that the llama.cpp engine has inside, and by Python's.

Both are llguidance, in different versions. llama.cpp's is reached through the symbols of its shared library (the C
interface of llguidance, parser/llguidance.h), so what is checked is what will run. Where they cannot be found, Python's
is the only one; it is the one that ExecuTorch's answers are held by, and that reads every answer in the end.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

END: Final = 256
"""The token for the end of an answer; those below are bytes."""

# Below llguidance's own limits, which the engines have: there a token has several bytes, so a step costs more.
_ITEMS_IN_ROW: Final = 1_500
_INITIAL_FUEL: Final = 750_000
_STEP_FUEL: Final = 100_000
_STEP_ITEMS: Final = 25_000
_LEXER_STATES: Final = 100_000
_GRAMMAR_SIZE: Final = 250_000


class Reader(Protocol):
    """Stands somewhere in an answer."""

    def error(self) -> str:
        """What is wrong with the grammar, or met a limit; empty: nothing."""
        ...

    def allowed(self) -> Sequence[int]:
        """Bytes that may come, and END where the answer may end. Empty: nothing may come, or an error."""
        ...

    def take(self, byte: int) -> None:
        """Go on by an allowed byte."""
        ...

    def restart(self) -> None:
        """Back to the beginning."""
        ...


class PythonReader:
    """By the package `llguidance`."""

    def __init__(self, grammar: str) -> None:
        library = importlib.import_module("llguidance")
        limits = library.LLParserLimits(
            max_items_in_row=_ITEMS_IN_ROW,
            initial_lexer_fuel=_INITIAL_FUEL,
            step_lexer_fuel=_STEP_FUEL,
            step_max_items=_STEP_ITEMS,
            max_lexer_states=_LEXER_STATES,
            max_grammar_size=_GRAMMAR_SIZE,
            verbose_errors=False,
        )
        self._matcher: Any = library.LLMatcher(_python_tokenizer(), grammar, log_level=0, limits=limits)

    def error(self) -> str:
        return self._matcher.get_error()

    def allowed(self) -> Sequence[int]:
        bits = int.from_bytes(self._matcher.compute_bitmask(), "little")
        if self._matcher.is_error():
            return ()  # the mask says then that the answer may end
        return _tokens(bits, ends=bits >> _python_tokenizer().eos_token & 1 == 1)

    def take(self, byte: int) -> None:
        self._matcher.consume_token(byte)

    def restart(self) -> None:
        self._matcher.reset()

    def reads(self, answer: bytes) -> bool:
        """Whether a whole answer follows the grammar, from the beginning."""
        self._matcher.reset()
        return self._matcher.try_consume_tokens(list(answer)) == len(answer) and self._matcher.is_accepting()


class LlamaCppReader:
    """By the copy of llguidance inside llama.cpp's shared library."""

    def __init__(self, grammar: str) -> None:
        self._library = library = _llama_cpp_library()
        begin = _ConstraintInit()
        library.llg_constraint_init_set_defaults(ctypes.byref(begin), _llama_cpp_tokenizer())
        begin.log_stderr_level = 0
        begin.limits.max_items_in_row = _ITEMS_IN_ROW
        begin.limits.initial_lexer_fuel = _INITIAL_FUEL
        begin.limits.step_lexer_fuel = _STEP_FUEL
        begin.limits.step_max_items = _STEP_ITEMS
        begin.limits.max_lexer_states = _LEXER_STATES
        begin.limits.max_grammar_size = _GRAMMAR_SIZE
        self._matcher = library.llg_new_matcher(ctypes.byref(begin), b"lark", grammar.encode())

    def __del__(self) -> None:
        self._library.llg_free_matcher(self._matcher)

    def error(self) -> str:
        found: bytes | None = self._library.llg_matcher_get_error(self._matcher)
        return found.decode("utf-8", "replace") if found else ""

    def allowed(self) -> Sequence[int]:
        if self._library.llg_matcher_compute_mask(self._matcher):
            return ()
        size = self._library.llg_matcher_get_mask_byte_size(self._matcher)
        bits = int.from_bytes(ctypes.string_at(self._library.llg_matcher_get_mask(self._matcher), size), "little")
        return _tokens(bits, ends=bits >> END & 1 == 1)

    def take(self, byte: int) -> None:
        self._library.llg_matcher_consume_token(self._matcher, byte)

    def restart(self) -> None:
        self._library.llg_matcher_reset(self._matcher)


def readers(grammar: str) -> dict[str, Reader]:
    """One of each library, by its name."""
    made: dict[str, Reader] = {}
    if has_llama_cpp():
        made["llama.cpp"] = LlamaCppReader(grammar)
    made["llguidance"] = PythonReader(grammar)
    return made


def _tokens(bits: int, *, ends: bool) -> Sequence[int]:
    bits &= (1 << END) - 1
    found = [END] if ends else []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


@cache
def _python_tokenizer() -> Any:
    return importlib.import_module("llguidance").LLTokenizer("byte")


# ---------------------------------------------------------------- the C interface

_Tokenize: Final = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_uint32),
    ctypes.c_size_t,
)


class _Limits(ctypes.Structure):
    _fields_ = (
        ("max_items_in_row", ctypes.c_size_t),
        ("initial_lexer_fuel", ctypes.c_uint64),
        ("step_lexer_fuel", ctypes.c_uint64),
        ("step_max_items", ctypes.c_size_t),
        ("max_lexer_states", ctypes.c_size_t),
        ("max_grammar_size", ctypes.c_size_t),
        ("precompute_large_lexemes", ctypes.c_bool),
        ("verbose_errors", ctypes.c_bool),
    )


class _TokenizerInit(ctypes.Structure):
    _fields_ = (
        ("vocab_size", ctypes.c_uint32),
        ("tok_eos", ctypes.c_uint32),
        ("token_lens", ctypes.POINTER(ctypes.c_uint32)),
        ("token_bytes", ctypes.c_char_p),
        ("tokenizer_json", ctypes.c_char_p),
        ("tokenize_assumes_string", ctypes.c_bool),
        ("tokenize_fn", _Tokenize),
        ("use_approximate_greedy_tokenize_fn", ctypes.c_bool),
        ("tokenize_user_data", ctypes.c_void_p),
        ("slices", ctypes.c_void_p),
    )


class _ConstraintInit(ctypes.Structure):
    _fields_ = (
        ("tokenizer", ctypes.c_void_p),
        ("log_buffer_level", ctypes.c_uint32),
        ("log_stderr_level", ctypes.c_uint32),
        ("ff_tokens_ok", ctypes.c_bool),
        ("backtrack_ok", ctypes.c_bool),
        ("limits", _Limits),
        ("room", ctypes.c_uint8 * 64),  # newer versions may have more fields
    )


_MATCHER: Final = ctypes.c_void_p
_FUNCTIONS: Final = {
    "llg_new_tokenizer": (ctypes.c_void_p, [ctypes.POINTER(_TokenizerInit), ctypes.c_char_p, ctypes.c_size_t]),
    "llg_constraint_init_set_defaults": (None, [ctypes.POINTER(_ConstraintInit), ctypes.c_void_p]),
    "llg_new_matcher": (_MATCHER, [ctypes.POINTER(_ConstraintInit), ctypes.c_char_p, ctypes.c_char_p]),
    "llg_free_matcher": (None, [_MATCHER]),
    "llg_matcher_get_error": (ctypes.c_char_p, [_MATCHER]),
    "llg_matcher_compute_mask": (ctypes.c_int32, [_MATCHER]),
    "llg_matcher_get_mask": (ctypes.c_void_p, [_MATCHER]),
    "llg_matcher_get_mask_byte_size": (ctypes.c_size_t, [_MATCHER]),
    "llg_matcher_consume_token": (ctypes.c_int32, [_MATCHER, ctypes.c_uint32]),
    "llg_matcher_reset": (ctypes.c_int32, [_MATCHER]),
}


@cache
def _llama_cpp_path() -> Path | None:
    found = importlib.util.find_spec("xllamacpp")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    return next(folder.glob("xllamacpp*.so"), None) if folder is not None else None


@cache
def has_llama_cpp() -> bool:
    """Whether the library inside llama.cpp can be asked."""
    path = _llama_cpp_path()
    if path is None:
        return False
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return False
    return all(hasattr(library, name) for name in _FUNCTIONS)


@cache
def _llama_cpp_library() -> Any:
    library = ctypes.CDLL(str(_llama_cpp_path()))
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@_Tokenize
def _tokenize(_data: Any, text: Any, size: int, tokens: Any, room: int) -> int:
    for place in range(min(size, room)):
        tokens[place] = text[place]
    return size


@cache
def _llama_cpp_tokenizer() -> int:
    """256 tokens of one byte, and the end."""
    end = b"\xff<end>"
    sizes = (ctypes.c_uint32 * (END + 1))(*([1] * END), len(end))
    begin = _TokenizerInit(END + 1, END, sizes, bytes(range(END)) + end, None, False, _tokenize, False, None, None)
    fault = ctypes.create_string_buffer(200)
    tokenizer = _llama_cpp_library().llg_new_tokenizer(ctypes.byref(begin), fault, len(fault))
    assert tokenizer, fault.value
    return tokenizer
