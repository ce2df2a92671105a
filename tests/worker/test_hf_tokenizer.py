"""Text to ids and back, by Muse Glimmer's kind of `tokenizer.json`: exactly, and never from a client's text a control
token, however the file lists them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muse.protocol import TextSegment
from muse.worker.engines.base import EngineFault
from muse.worker.hf_tokenizer import JsonTokenizer
from tests.worker.nano import END_OF_TURN, FOLDER, TEXT_DIALOGUES, prompt_ids, stored_segments, turns

FILE: Final = FOLDER / "hf" / "tokenizer.json"
TOKENIZER: Final = JsonTokenizer(FILE)
BITS = st.sampled_from(
    ["<|", "eot", "|>", " ", "é", "🎉", "\n", "a", "<|eot|>", "<|start|>", "to=", "7", "\x00", "\u0301"]
)
TEXTS = st.lists(BITS, max_size=12).map("".join)
ANY_TEXT = st.one_of(TEXTS, st.text(max_size=40))


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> JsonTokenizer:
    """Reads the file with a change made to its content."""
    content: dict[str, Any] = json.loads(FILE.read_bytes())
    change(content)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content))
    return JsonTokenizer(path)


@pytest.mark.parametrize("name", TEXT_DIALOGUES)
def test_prompts_have_the_ids_that_were_trained(name: str) -> None:
    """By another library, which the model was made with."""
    turn = turns(name)[-1]
    ids: list[int] = []
    for segment in stored_segments(turn):
        assert isinstance(segment, TextSegment)
        ids += TOKENIZER.encode(segment.text, special=segment.special)
    assert tuple(ids) == prompt_ids(turn)


@given(ANY_TEXT)
def test_plain_text_never_becomes_a_control_token(text: str) -> None:
    """However it is made of their pieces, and it stays the same text."""
    ids = TOKENIZER.encode(text, special=False)
    assert TOKENIZER.control.keys().isdisjoint(ids)
    assert TOKENIZER.decode(ids).decode() == text


@given(TEXTS)
def test_the_templates_text_does(text: str) -> None:
    """Each spelling in it, and nothing else changes."""
    ids = TOKENIZER.encode(text, special=True)
    assert TOKENIZER.decode(ids).decode() == text
    assert sum(token in TOKENIZER.control for token in ids) >= text.count("<|eot|>")


@given(ANY_TEXT)
def test_only_spellings_make_a_difference(text: str) -> None:
    """The template's text without one has the ids of plain text."""
    if not TOKENIZER.spellings.search(text):
        assert TOKENIZER.encode(text, special=True) == TOKENIZER.encode(text, special=False)


def test_a_spelling_has_the_ids_of_ordinary_words() -> None:
    """Those that it would have if the model had no such token: words that merge over its edges do so."""
    assert TOKENIZER.encode("<|nothing|>", special=False)[0] == TOKENIZER.encode("<|eot|>", special=False)[0]
    assert TOKENIZER.decode(TOKENIZER.encode("<|eot|>", special=False)[:1]) == b"<|"


def test_a_lone_surrogate_is_some_character() -> None:
    """A client may send one; it has no bytes."""
    assert TOKENIZER.encode("\ud800", special=False) == TOKENIZER.encode("?", special=False)


def test_tokens_that_are_not_called_special_are_control_tokens(tmp_path: Path) -> None:
    """All that the file adds to its words are."""

    def change(content: dict[str, Any]) -> None:
        for token in content["added_tokens"]:
            token["special"] = False

    tokenizer = changed(tmp_path, change)
    assert tokenizer.encode("a<|eot|>b", special=True)[1] == END_OF_TURN
    assert tokenizer.encode("a<|eot|>b", special=False) == TOKENIZER.encode("a<|eot|>b", special=False)


def test_a_control_token_that_is_a_word_too_is_cut(tmp_path: Path) -> None:
    """Plain text comes to it all by itself then; of a single letter it cannot be kept apart, and that is said."""

    def change(content: dict[str, Any]) -> None:
        words: dict[str, int] = content["model"]["vocab"]
        content["added_tokens"] += [
            {**content["added_tokens"][0], "id": words[word], "content": word} for word in ("<|", "Z")
        ]

    tokenizer = changed(tmp_path, change)
    ids = tokenizer.encode("a<|eot|>b", special=False)
    assert tokenizer.control.keys().isdisjoint(ids)
    assert tokenizer.decode(ids) == b"a<|eot|>b"
    with pytest.raises(EngineFault, match="kept apart") as caught:
        tokenizer.encode("Z", special=False)
    assert (caught.value.code, caught.value.fatal) == ("bad_request", False)


def test_unknown_ids_spell_nothing_and_are_refused(tmp_path: Path) -> None:
    """A program may have more of them than the file."""

    def change(content: dict[str, Any]) -> None:
        # Control tokens that are words too keep their ids, so that a gap before the last is read as it is.
        content["added_tokens"][-1]["id"] = 600
        content["model"]["vocab"] |= {token["content"]: token["id"] for token in content["added_tokens"]}

    tokenizer = changed(tmp_path, change)
    assert tokenizer.size == 601
    assert tokenizer.decode([550, 10**6, -1]) == b""
    tokenizer.check(range(601))
    for token in (-1, 601):
        with pytest.raises(EngineFault, match="token ids that this model does not know"):
            tokenizer.check([0, token])


def test_a_token_is_found_by_its_spelling() -> None:
    """Control tokens and words; what is more than one token is none."""
    assert TOKENIZER.id_of("<|eot|>") == END_OF_TURN
    assert [TOKENIZER.id_of(text) for text in ("a", "<|", "zebra")] == [64, 260, None]


def lacks(*spellings: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in spellings]

    return change


def has_decoder(content: dict[str, Any]) -> None:
    content["decoder"] = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lacks("<|eot|>", "<|end_of_text|>"),
            r"tokenizer.json is not Muse Glimmer's: it lacks <\|end_of_text\|>, <\|e",
        ),
        (lacks("<|begin_of_text|>"), r"it lacks <\|begin_of_text\|>"),
        (has_decoder, "its decoder is Metaspace, and ByteLevel was expected"),
        (lambda content: content.pop("decoder"), "no tokenizer.json of Hugging Face's form"),
        (lambda content: content["model"].pop("vocab"), "no tokenizer.json of Hugging Face's form"),
        (lambda content: content["model"]["merges"].append(["nowhere", "known"]), "no tokenizer.json of Hugging Face"),
    ],
    ids=["no ends", "no begin", "decoder", "no decoder", "no words", "merges"],
)
def test_another_file_is_refused_by_name(tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str) -> None:
    """The file, what is wrong with it, what was expected."""
    with pytest.raises(EngineFault, match=words) as caught:
        changed(tmp_path, change)
    assert (caught.value.code, caught.value.fatal) == ("bad_request", True)


def numbered(*ids: int) -> Callable[[dict[str, Any]], None]:
    """The last control tokens have these ids."""

    def change(content: dict[str, Any]) -> None:
        for token, number in zip(content["added_tokens"][-len(ids) :], ids, strict=True):
            token["id"] = number

    return change


def one_word_less(content: dict[str, Any]) -> None:
    content["model"]["vocab"].popitem()
    content["model"]["merges"].pop()


def repeats(**fields: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["added_tokens"].append(content["added_tokens"][0] | {"id": 512} | fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (numbered(600), r"gives '<\|reserved_mask\|>' the id 600, and is read with it as token 511"),
        (numbered(511, 510), "the id 511, and is read with it as token 510"),
        (numbered(511, 512), "the id 511, and is read with it as token 510"),
        (lacks("<|eom|>"), r"gives '<\|eot\|>' the id 503, and is read with it as token 502"),
        (repeats(), r"gives '<\|begin_of_text\|>' the id 512, and is read with it as token 500"),
        (repeats(id=5, content="<|x|>"), r"gives '<\|x\|>' the id 5, and is read with it as token 512"),
        (repeats(content="Z"), "gives 'Z' the id 512, and is read with it as token 57"),
        (lambda content: content["model"]["vocab"].update({"Z": 3}), "several words of its vocabulary the same id"),
        (one_word_less, "the id 500, and is read with it as token 499"),
    ],
    ids=["gap", "order", "moved", "hole", "twice", "taken", "word", "shared", "short vocabulary"],
)
def test_ids_that_readers_number_otherwise_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    """The library gives control tokens the next free ids, another reader those of the file: with the first one that
    differs every prompt would mean something else."""
    with pytest.raises(EngineFault, match=words) as caught:
        changed(tmp_path, change)
    assert (caught.value.code, caught.value.fatal) == ("bad_request", True)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With its place."""
    with pytest.raises(EngineFault, match=r"tokenizer\.json cannot be read: No such file"):
        JsonTokenizer(tmp_path / "tokenizer.json")
