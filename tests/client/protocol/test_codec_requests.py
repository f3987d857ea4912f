"""ADD, ABORT, UTILITY and START_DP_WAVE: every field written, read as the engine reads."""

from __future__ import annotations

from types import MappingProxyType

import msgpack
import pytest

from client.protocol.codec import Codec, DecodeError, EncodeError, ExtValueDecodeError
from client.protocol.ids import CallId, RequestId, Wave
from client.protocol.messages import (
    Abort,
    EngineCoreRequest,
    StartDpWave,
    Tensor,
    UtilityCall,
)
from client.protocol.profiles import profile_for

REQUIRED = ["r", None, None, None, None, 1.0, None, None, None]
SMALL = Tensor("float32", (63,), bytes(252))
LARGE = Tensor("float32", (64,), bytes(256))


def add(row, *aux):
    return [b"\x00", msgpack.packb(row), *aux]


def test_add_has_every_field_of_the_release(codec):
    _, body = codec.encode_add(EngineCoreRequest(RequestId("r")))
    assert len(msgpack.unpackb(body)) == codec.profile.request_fields


def test_add_of_a_bare_request_leaves_all_out_that_can_be(newest):
    _, body = newest.encode_add(EngineCoreRequest(RequestId("r")))
    assert msgpack.unpackb(body) == [
        "r", None, None, None, None, 0.0, None, None, None, None, None, 0, 0, 0, None, False, None,
        None, None, False, None, None,
    ]  # fmt: skip


def test_add_with_required_fields_only_gets_the_defaults(codec):
    request = codec.decode_engine_input(add(REQUIRED)).request
    assert request == EngineCoreRequest(RequestId("r"), arrival_time=1.0)


def test_add_with_fewer_than_required_fields_is_refused(codec):
    with pytest.raises(DecodeError, match="invalid length 8, expected 9 or more"):
        codec.decode_engine_input(add(REQUIRED[:8]))


def test_add_with_more_fields_ignores_them(codec):
    row = [*REQUIRED, None, None, 0, 0, 0, None, False, None, None, None, False, None, None, "x", 5]
    assert codec.decode_engine_input(add(row)).request == EngineCoreRequest(
        RequestId("r"), arrival_time=1.0
    )


@pytest.mark.parametrize(
    ("index", "value", "field"),
    [
        (0, 5, "request_id"),
        (1, ["a"], "prompt_token_ids"),
        (3, [], "sampling_params"),
        (5, None, "arrival_time"),
        (8, "1", "data_parallel_rank"),
        (11, None, "client_index"),
        (12, 1.5, "current_wave"),
        (15, None, "resumable"),
        (16, 1, "external_req_id"),
    ],
)
def test_add_with_wrong_value_names_the_field(newest, index, value, field):
    row = [*REQUIRED, None, None, 0, 0, 0, None, False, None]
    row[index] = value
    with pytest.raises(DecodeError) as caught:
        newest.decode_engine_input(add(row))
    assert caught.value.message_type == "EngineCoreRequest"
    assert caught.value.field == f"EngineCoreRequest.{field}"


@pytest.mark.parametrize(
    ("release", "values", "field"),
    [("0.27.1", {"session_id": "s"}, "session_id"), ("0.30.0", {"kv_hints": {}}, "kv_hints")],
)
def test_add_with_field_of_a_later_release_is_refused(release, values, field):
    with pytest.raises(EncodeError, match=f"release {release} has no field {field}"):
        Codec(profile_for(release)).encode_add(EngineCoreRequest(RequestId("r"), **values))


def test_sampling_floats_are_32_bits_and_free_form_floats_64(newest):
    params = {"top_p": 0.9, "logit_bias": {5: 0.1}, "extra_args": {"ratio": 0.1}}
    _, body = newest.encode_add(EngineCoreRequest(RequestId("r"), sampling_params=params))
    read = msgpack.unpackb(body, strict_map_key=False)[3]
    assert read["extra_args"] == {"ratio": 0.1}
    assert read["top_p"] != 0.9
    assert (read["top_p"], read["logit_bias"][5]) == (pytest.approx(0.9), pytest.approx(0.1))


def test_read_only_mappings_and_tuples_are_encoded_like_dicts_and_lists(newest):
    frozen = EngineCoreRequest(
        RequestId("r"), (1,), sampling_params=MappingProxyType({"a": MappingProxyType({"b": (1,)})})
    )
    plain = EngineCoreRequest(RequestId("r"), [1], sampling_params={"a": {"b": [1]}})
    assert newest.encode_add(frozen) == newest.encode_add(plain)


# --- tensors ---------------------------------------------------------------------------------


def features(*items):
    return EngineCoreRequest(RequestId("r"), mm_features=[{"data": {"pixels": list(items)}}])


def test_tensor_of_256_bytes_moves_to_an_aux_frame_and_a_smaller_one_is_inline(newest):
    kind, body, *aux = newest.encode_add(features(SMALL, LARGE, LARGE))
    assert aux == [LARGE.data, LARGE.data]
    small, first, second = msgpack.unpackb(body)[2][0]["data"]["pixels"]
    assert small == ["float32", [63], msgpack.ExtType(3, SMALL.data)]
    assert (first, second) == (["float32", [64], 1], ["float32", [64], 2])
    decoded = newest.decode_engine_input([kind, body, *aux])
    assert decoded.request == features(SMALL, LARGE, LARGE)
    assert decoded.aux == (LARGE.data, LARGE.data)


def test_given_aux_frames_come_before_those_of_tensors(newest):
    _, body, *aux = newest.encode_add(features(LARGE), [b"mine"])
    assert aux == [b"mine", LARGE.data]
    assert msgpack.unpackb(body)[2][0]["data"]["pixels"] == [["float32", [64], 2]]


@pytest.mark.parametrize(("release", "frames"), [("0.26.0", 2), ("0.27.0", 3), ("0.33.0", 3)])
def test_client_moves_tensors_to_aux_frames_since_0_27(release, frames):
    codec = Codec(profile_for(release))
    encoded = codec.encode_add(features(LARGE))
    assert len(encoded) == frames
    assert codec.decode_engine_input(encoded).request == features(LARGE)


def test_prompt_embeds_are_resolved_from_their_frame(newest):
    request = EngineCoreRequest(RequestId("r"), prompt_embeds=LARGE)
    assert newest.decode_engine_input(newest.encode_add(request)).request == request


@pytest.mark.parametrize(
    ("tensor", "error", "reason"),
    [
        (["float32", [1], 9], ExtValueDecodeError, "aux frame index 9 is out of range for 1 frames"),
        (["float32", [2], msgpack.ExtType(3, b"1234")], ExtValueDecodeError, "byte length mismatch: expected 8, got 4"),
        (["float99", [1], msgpack.ExtType(3, b"1234")], ExtValueDecodeError, "unsupported dtype string str 'float99'"),
        (["float32", [1], msgpack.ExtType(1, b"1234")], DecodeError, "unsupported extension type code 1"),
        (["float32", [1], msgpack.ExtType(2, b"1234")], DecodeError, "unsupported extension type code 2"),
        (["float32", [1], b"1234"], DecodeError, "expected raw bytes or aux frame index, got bytes b'1234'"),
        (["float32", [-1], 1], DecodeError, "expected array of dimensions, got list [-1]"),
        (["float32", [1]], DecodeError, "expected [dtype, shape, data], got list ['float32', [1]]"),
        (7, DecodeError, "expected [dtype, shape, data], got int 7"),
    ],
)  # fmt: skip
def test_wrong_tensor_is_refused_with_its_reason(newest, tensor, error, reason):
    with pytest.raises(DecodeError) as caught:
        newest.decode_engine_input(add([*REQUIRED, tensor]))
    assert type(caught.value) is error
    assert (caught.value.field, caught.value.reason) == ("EngineCoreRequest.prompt_embeds", reason)


# --- the other inputs ------------------------------------------------------------------------


def test_abort_utility_and_wave_have_their_bytes(codec):
    assert codec.encode_abort([RequestId("a"), RequestId("b")]) == [b"\x01", b"\x92\xa1a\xa1b"]
    call = UtilityCall(client_index=1, call_id=CallId(7), method="m", args=())
    assert codec.encode_utility(call) == [b"\x03", b"\x94\x01\x07\xa1m\x90"]
    wave = StartDpWave(wave=Wave(3), exclude_engine_index=None)
    assert codec.encode_start_wave(wave) == [b"\x02", b"\x92\x03\xc0"]


def test_utility_arguments_keep_lists_and_integer_keys(codec):
    call = UtilityCall(client_index=0, call_id=CallId(1), method="m", args=[None, {1: [2]}, [3.0]])
    assert codec.decode_engine_input(codec.encode_utility(call)) == call


def test_abort_of_nothing_is_read(codec):
    assert codec.decode_engine_input([b"\x01", b"\x90"]) == Abort(request_ids=())


@pytest.mark.parametrize(
    ("frames", "field"),
    [
        ([], "frames"),
        ([b"\x00"], "frames"),
        ([b"", b"\x90"], "type"),
        ([b"\x04", b"\x90"], "type"),
        ([b"\x05", b"\x90"], "type"),
        ([b"\x00\x00", b"\x90"], "type"),
        ([b"READY", b"\x90"], "type"),
        ([b"\x01", b"\x91\x01"], "Abort.request_ids"),
        ([b"\x02", b"\x91\x01"], "StartDpWave"),
        ([b"\x02", b"\x93\x01\xc0\xc0"], "StartDpWave"),
        ([b"\x02", b"\x92\x01\xc3"], "StartDpWave.exclude_engine_index"),
        ([b"\x02", b"\x92\xc0\xc0"], "StartDpWave.wave"),
        ([b"\x02", b"\x92\x01\xc0", b"x"], "frames"),
        ([b"\x02", b"\x92\x01\xc0\xc0"], "StartDpWave"),
        ([b"\x03", b"\x93\x00\x01\xa1m"], "UtilityCall"),
        ([b"\x03", b"\x94\x00\x01\xa1m\xc0"], "UtilityCall.args"),
        ([b"\x03", b"\x94\x00\x01\x05\x90"], "UtilityCall.method"),
    ],
)
def test_input_of_another_form_is_refused(codec, frames, field):
    with pytest.raises(DecodeError) as caught:
        codec.decode_engine_input(frames)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("frames", "count"),
    [
        ([], 0),
        ([b"\x02"], 1),
        ([b"\x02", b"\x92\x01\xc0", b"x"], 3),
        ([b"\x02", b"\x92\x01\xc0", b"x", b"y"], 4),
    ],
)
def test_input_of_other_frames_says_how_many_came(newest, frames, count):
    with pytest.raises(DecodeError, match=f"expected type and body, got {count}$"):
        newest.decode_engine_input(frames)


def test_utility_call_is_read_from_its_body_whatever_aux_frames_follow(newest):
    call = UtilityCall(client_index=2, call_id=CallId(5), method="m", args=[LARGE])
    frames = newest.encode_utility(call)
    assert frames[2:] == [LARGE.data]
    read = newest.decode_engine_input(frames)
    assert (read.client_index, read.call_id, read.method) == (2, 5, "m")
    assert read.args == [["float32", [64], 1]]


def test_bytes_stay_bytes_with_floats_of_either_width(newest):
    params = {"seed": b"\xff", "extra_args": {"raw": b"\xfe"}}
    request = EngineCoreRequest(RequestId("r"), sampling_params=params)
    assert newest.decode_engine_input(newest.encode_add(request)).request == request


@pytest.mark.parametrize("kind", [b"\x00", b"\x01", b"\x02", b"\x03"])
def test_input_with_bytes_behind_its_body_is_refused(codec, kind):
    bodies = {
        b"\x00": msgpack.packb(REQUIRED), b"\x01": b"\x90", b"\x02": b"\x92\x01\xc0",
        b"\x03": b"\x94\x01\x07\xa1m\x90",
    }  # fmt: skip
    codec.decode_engine_input([kind, bodies[kind]])
    with pytest.raises(DecodeError, match="2 bytes behind the value"):
        codec.decode_engine_input([kind, bodies[kind] + b"\xc0\xc0"])


@pytest.mark.parametrize(
    ("kind", "shown"),
    [(b"", "empty"), (b"\x09", "09"), (b"ABCDEFGH", "4142434445464748"),
     (b"ABCDEFGHI", "4142434445464748")],
)  # fmt: skip
def test_unknown_type_is_shown_by_its_first_eight_bytes(newest, kind, shown):
    with pytest.raises(DecodeError, match=f"unknown request type {shown}$"):
        newest.decode_engine_input([kind, b"\x90"])
