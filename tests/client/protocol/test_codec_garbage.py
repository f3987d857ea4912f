"""Whatever the bytes are, a decoder answers with a message or with ``DecodeError``."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client.protocol.codec import Codec, DecodeError
from client.protocol.ids import CallId, RequestId
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreOutputs,
    FinishReason,
    StartDpWave,
    Tensor,
    UtilityOutput,
)
from client.protocol.profiles import RELEASES, profile_for

many = settings(max_examples=25, deadline=None, derandomize=True, database=None)
some_releases = pytest.mark.parametrize("release", ["0.22.0", "0.25.0", "0.29.0", "0.33.0"])

LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.builds(msgpack.ExtType, st.integers(0, 4), st.binary(max_size=8))
)
VALUE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=6) | st.integers(0, 9), inner),
    max_leaves=8,
)  # fmt: skip
BODY = st.binary(max_size=60) | VALUE.map(msgpack.packb)
FRAMES = st.lists(BODY, max_size=4)
UNHASHABLE_KEY = b"\x81\x90\x01"
DEEP = b"\x91" * 3000 + b"\xc0"
HUGE = b"\xdd\xff\xff\xff\xff"
BAD_UTF8 = b"\xa2\xff\xfe"
BAD_TIMESTAMP = b"\xc7\x03\xff\x00\x00\x00"


def decoders(codec):
    return {
        "outputs": codec.decode_outputs,
        "classify": codec.classify,
        "input": codec.decode_engine_input,
        "add": lambda frames: codec.decode_engine_input([b"\x00", *frames]),
        "abort": lambda frames: codec.decode_engine_input([b"\x01", *frames]),
        "wave": lambda frames: codec.decode_engine_input([b"\x02", *frames]),
        "utility": lambda frames: codec.decode_engine_input([b"\x03", *frames]),
        "handshake": lambda frames: codec.decode_hello_or_ready(frames[0]),
        "init": lambda frames: codec.decode_init(frames[0]),
        "registration": lambda frames: codec.decode_ready_response(frames[0]),
        "publish": lambda frames: codec.decode_publish(frames[0]),
        "notice": lambda frames: codec.decode_first_request(frames[0]),
    }


def refused_or_read(decode, frames):
    """Raises anything but DecodeError."""
    refusal = None
    try:
        decode(frames)
    except DecodeError as error:
        refusal = error
    assert refusal is None or (refusal.message_type and refusal.field and refusal.reason)
    return refusal is not None


@some_releases
@many
@given(frames=FRAMES.filter(len))
@example(frames=[b""])
@example(frames=[UNHASHABLE_KEY])
@example(frames=[DEEP])
@example(frames=[HUGE])
@example(frames=[BAD_UTF8])
@example(frames=[BAD_TIMESTAMP])
def test_garbage_is_refused_with_the_typed_error_only(release, frames):
    for decode in decoders(Codec(profile_for(release))).values():
        refused_or_read(decode, frames)


@pytest.mark.parametrize("body", [b"\xc1", UNHASHABLE_KEY, DEEP, HUGE, BAD_UTF8, BAD_TIMESTAMP])
def test_bytes_that_are_no_msgpack_are_refused_by_every_decoder(codec, body):
    for name, decode in decoders(codec).items():
        assert refused_or_read(decode, [body]), name


def test_message_without_frames_is_refused(codec):
    assert refused_or_read(codec.decode_outputs, [])
    assert refused_or_read(codec.classify, [])
    assert refused_or_read(codec.decode_engine_input, [])


def rich_message(codec):
    """One of everything that has a length, a type or a bound of its own."""
    tensor = Tensor("<i4", (1, 1), b"\x07\x00\x00\x00")
    logprobs = (tensor, Tensor("<f4", (1, 1), bytes(4)), Tensor("<i4", (1,), b"\x01\x00\x00\x00"))
    row = EngineCoreOutput(
        RequestId("r"),
        (1, 70_000),
        new_logprobs=logprobs,
        finish_reason=FinishReason.STOP,
        stop_reason="x",
        events=({"type": 1, "timestamp": 1.0},),
        kv_transfer_params={"a": [None, True]},
    )
    reply = UtilityOutput(call_id=CallId(5), value=[1])
    return EngineCoreOutputs(
        outputs=(row,), finished_requests=(RequestId("r"),), utility_output=reply
    )


@some_releases
def test_message_with_one_changed_byte_is_read_or_refused(release):
    codec = Codec(profile_for(release))
    (body,) = codec.encode_outputs(rich_message(codec))
    refusals = 0
    for at in range(len(body)):
        for byte in (
            0x00,
            0x01,
            0x80,
            0x90,
            0xA1,
            0xC0,
            0xC1,
            0xC3,
            0xCB,
            0xCF,
            0xD4,
            0xD9,
            0xDD,
            0xDF,
            0xFF,
        ):
            changed = body[:at] + bytes([byte]) + body[at + 1 :]
            refusals += refused_or_read(codec.classify, [changed])
    assert refusals > len(body)


@pytest.mark.parametrize("release", RELEASES)
def test_every_truncation_of_a_wave_is_refused(release):
    codec = Codec(profile_for(release))
    kind, body = codec.encode_start_wave(StartDpWave(wave=70_000, exclude_engine_index=3))
    for length in range(len(body)):
        assert refused_or_read(codec.decode_engine_input, [kind, body[:length]])


def test_short_message_cannot_claim_a_long_array(newest):
    with pytest.raises(DecodeError, match="not msgpack"):
        newest.decode_outputs([b"\xdd\x7f\xff\xff\xff"])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x91" * 5_000, "nest deeper than 128 levels"),
        (b"\x91" * 200 + b"\xc0", "nest deeper than 128 levels"),
        (b"\xc1", "not msgpack: FormatError: a byte that begins no value"),
    ],
)
def test_refusal_by_the_library_has_a_reason(newest, body, reason):
    with pytest.raises(DecodeError, match=reason):
        newest.decode_outputs([body])
