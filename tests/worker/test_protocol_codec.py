"""The codec: any bytes give a message or a ProtocolError, and every message survives the way."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muse import json_pieces, protocol, protocol_codec
from muse.protocol import (
    Accepted,
    Cancel,
    Count,
    Done,
    Error,
    Generate,
    IdsSegment,
    ImageSegment,
    Loading,
    Ready,
    Sampling,
    Supports,
    TextSegment,
    Tokens,
    WorkerCommand,
    WorkerEvent,
)
from muse.protocol_codec import ProtocolError, decode_command, decode_event, encode_command, encode_event, prompt_chars

texts = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ['"image":""', ',"image":"']
)  # lone surrogates too
counts = st.integers(0, 2**40)
ids = st.lists(st.integers(-(2**31), 2**31), max_size=8).map(tuple)
floats = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
segments = st.one_of(
    st.builds(TextSegment, text=texts, special=st.booleans()),
    st.builds(IdsSegment, ids=ids),
    st.builds(ImageSegment, image=texts | st.sampled_from(["", "AA==", "+/" * 40]), sha256=texts),
)
events = st.one_of(
    st.builds(Tokens, request_id=texts, ids=ids | st.none(), text=texts),
    st.builds(Loading, fraction=floats | st.none(), stage=texts),
    st.builds(Accepted, prompt_tokens=counts, reused_prompt_tokens=counts, room=counts, request_id=texts),
    st.builds(Error, request_id=texts | st.none(), message=texts, fatal=st.booleans()),
    st.builds(
        Done,
        request_id=texts,
        generated_token_ids=ids | st.none(),
        prefill_ms=floats,
        prefill_tokens_per_second=floats,
        decode_ms=floats,
        decode_tokens_per_second=floats,
        total_ms=floats,
    ),
    st.builds(Ready, supports=st.builds(Supports), special_tokens=st.lists(texts, max_size=3).map(tuple)),
)
commands = st.one_of(
    st.builds(
        Generate,
        request_id=texts,
        session_id=texts | st.none(),
        prompt_segments=st.lists(segments, max_size=4).map(tuple),
        max_new_tokens=counts | st.none(),
        sampling=st.builds(Sampling, temperature=floats, seed=counts | st.none()),
    ),
    st.builds(Count, request_id=texts, prompt_segments=st.lists(segments, max_size=4).map(tuple)),
    st.builds(Cancel, request_id=texts, target_request_id=texts),
)
DECODERS = pytest.mark.parametrize("decode", [decode_event, decode_command])


@settings(deadline=None)
@given(events)
def test_events_survive_the_way(event: WorkerEvent) -> None:
    """Encode and decode are inverse, on one line of ASCII."""
    line = encode_event(event)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode_event(line) == event


@settings(deadline=None)
@given(commands)
def test_commands_survive_the_way(command: WorkerCommand) -> None:
    """Encode and decode are inverse, on one line of ASCII."""
    line = encode_command(command)
    assert line.count(b"\n") == 1
    assert decode_command(line) == command


@pytest.mark.parametrize("count", [0, 1, 8192, 8193, 20_000])
def test_many_ids_survive_the_way(count: int) -> None:
    """They are written in pieces, and weigh as much as the text that takes as long."""
    ids = tuple(range(200_000, 200_000 + count))
    command = Count(request_id="r", prompt_segments=(IdsSegment(ids=ids),))
    assert decode_command(encode_command(command)) == command
    assert prompt_chars(command) == 100 * count


@pytest.mark.parametrize("image", ["QUJD" * 5, 'no base64: "\\\n'])
def test_long_texts_and_images_survive_the_way(image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written in pieces; half a surrogate pair, too."""
    for module in (protocol_codec, json_pieces):
        monkeypatch.setattr(module, "PIECE_CHARS", 3)
    text = TextSegment(text='\ud800 a"b\\ \n\u2028 \U0001f600' * 3, special=False)
    command = Count(request_id="r", prompt_segments=(text, ImageSegment(image=image, sha256="0" * 64)))
    assert decode_command(encode_command(command)) == command


def _message_or_fault(decode: Callable[[bytes], object], line: bytes) -> None:
    try:
        message = decode(line)
    except ProtocolError:
        return
    assert type(message).__module__ == protocol.__name__


@DECODERS
@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_message_or_a_fault(decode: Callable[[bytes], object], line: bytes) -> None:
    """Nothing else escapes the decoder."""
    _message_or_fault(decode, line)


@DECODERS
@settings(deadline=None)
@given(
    tag=st.sampled_from(["tokens", "done", "error", "ready", "generate", "count", "ping", "x"]),
    fields=st.dictionaries(
        st.sampled_from(["request_id", "ids", "text", "prompt_segments", "sampling", "code", "supports", "fatal"]),
        json_values,
    ),
)
def test_any_fields_give_a_message_or_a_fault(
    decode: Callable[[bytes], object], tag: str, fields: dict[str, object]
) -> None:
    """A known tag with wrong, missing or superfluous fields is a fault."""
    _message_or_fault(decode, json.dumps({"event": tag, "op": tag, **fields}).encode())


@DECODERS
@pytest.mark.parametrize(
    "line",
    [b"[" * 200_000, b'{"a":' * 100_000, b"1" * 10_000, b"NaN", b'{"event":5,"op":5}', b"\xff", b"", b"\xef\xbb\xbf{}"],
    ids=["deep list", "deep object", "long number", "NaN", "tag of a wrong type", "no UTF-8", "empty", "BOM"],
)
def test_hostile_lines_are_faults(decode: Callable[[bytes], object], line: bytes) -> None:
    """What makes the JSON library stumble is a fault of the peer, told apart from an unknown tag."""
    with pytest.raises(ProtocolError) as caught:
        decode(line)
    assert caught.value.known


def test_unknown_tag_is_told_apart() -> None:
    """A newer peer's message is to be skipped, not to end the connection."""
    with pytest.raises(ProtocolError) as caught:
        decode_event(b'{"event":"weather"}')
    assert not caught.value.known
