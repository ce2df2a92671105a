"""muse-nano's own tokenizer: a byte-level BPE with the real model's splitting rule and its special tokens.

The merges are learned from the ASCII texts of the dialogues, so every other character is several tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCABULARY: Final = 512
BOS: Final = "<|begin_of_text|>"
EOS: Final = "<|end_of_text|>"
EOM: Final = "<|eom|>"
EOT: Final = "<|eot|>"
START: Final = "<|start|>"
MESSAGE: Final = "<|message|>"
PAD: Final = "<|finetune_right_pad|>"
IMAGE_START: Final = "<|image_start|>"
IMAGE_END: Final = "<|image_end|>"
PATCH: Final = "<|patch|>"
MASK: Final = "<|reserved_mask|>"
SPECIAL: Final = (BOS, EOS, EOM, EOT, PAD, START, MESSAGE, IMAGE_START, IMAGE_END, "<|video|>", PATCH, MASK)

# The rule that llama.cpp calls "llama4", the same as that of gpt-4o.
_LETTERS: Final = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_SMALL: Final = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SHORT_FORMS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_RULE: Final = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS}*{_SMALL}+{_SHORT_FORMS}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS}+{_SMALL}*{_SHORT_FORMS}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


def build_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learn the merges from the texts that are ASCII. The result is the same for the same texts."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(_RULE), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for text in texts if text.isascii()), trainer)
    tokenizer.add_special_tokens([AddedToken(spelling, special=True) for spelling in SPECIAL])
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise ValueError(f"{tokenizer.get_vocab_size()} tokens: the texts are too few for {VOCABULARY}")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, special_id(tokenizer, BOS))]
    )
    return tokenizer


def encode(tokenizer: Tokenizer, text: str, *, special: bool) -> list[int]:
    """Ids of a text, nothing added. special: spellings of special tokens become those tokens."""
    tokenizer.encode_special_tokens = not special
    return tokenizer.encode(text, add_special_tokens=False).ids


def special_id(tokenizer: Tokenizer, spelling: str) -> int:
    """The id of a special token. Raises KeyError when there is none."""
    token = tokenizer.token_to_id(spelling)
    if token is None:
        raise KeyError(spelling)
    return token
