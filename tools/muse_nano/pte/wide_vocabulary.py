"""A tokenizer with as many words as a large model's, all made up: to measure what a vocabulary of that size costs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

_SPACE: Final = "\u0120"
"""How a byte-level vocabulary writes a blank."""
_ENDINGS: Final = ("a", "e", "i", "o", "u", "en", "or", "ist")
_SYLLABLES: Final = [head + tail for head in "bcdfghjklmnprstvwz" for tail in _ENDINGS]
_SIGNS: Final = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" + "\u010a\u0109\u0120"
_ENDS: Final = ("", "", "", "", ",", ".", '"', '":', "(", "_", "s", "'")


def widened(tokenizer: dict[str, Any], vocabulary: int) -> dict[str, Any]:
    """The content of a `tokenizer.json` with further words, up to a size. They can be written and read, but no text is
    cut into them, since nothing merges to them."""
    words: dict[str, int] = dict(tokenizer["model"]["vocab"])
    taken = {*words.values(), *(token["id"] for token in tokenizer["added_tokens"])}
    free = iter(token for token in range(vocabulary) if token not in taken)
    made = _made_up()
    while len(words) + len(tokenizer["added_tokens"]) < vocabulary:
        word = next(made)
        if word not in words:
            words[word] = next(free)
    return {**tokenizer, "model": {**tokenizer["model"], "vocab": words}}


def _made_up() -> Iterator[str]:
    """Words with and without a blank before them, capitals, numbers, signs and what follows a word in code."""
    source = random.Random(1)  # noqa: S311 - nothing depends on their being secret
    while True:
        kind = source.random()
        if kind < 0.02:
            yield str(source.randrange(1000))
        elif kind < 0.07:
            yield "".join(source.choices(_SIGNS, k=source.randrange(2, 6)))
        else:
            word = "".join(source.choices(_SYLLABLES, k=source.randrange(1, 5)))
            yield source.choice(("", _SPACE)) + source.choice((word, word.capitalize())) + source.choice(_ENDS)
