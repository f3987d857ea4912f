"""Logprobs and masks: tensors that must resolve and fit together."""

from __future__ import annotations

import math
import struct
import sys

import msgpack
import pytest

from client.protocol.codec import Codec, DecodeError, ExtValueDecodeError
from client.protocol.codec_msgpack import Where
from client.protocol.codec_tensors import item_size, read_tensor, resolve_nested, tensor_ints
from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreOutput, EngineCoreOutputs, Tensor
from client.protocol.profiles import RELEASES, profile_for


def int32(*numbers, shape=None):
    return Tensor("<i4", shape or (len(numbers),), struct.pack(f"<{len(numbers)}i", *numbers))


def floats(count, shape):
    return Tensor("<f4", shape, struct.pack(f"<{count}f", *[-0.5] * count))


IDS, SCORES, RANKS = int32(7, shape=(1, 1)), floats(1, (1, 1)), int32(1)


def encoded(codec, **fields):
    row = EngineCoreOutput(RequestId("r"), (7,), **fields)
    return codec.encode_outputs(EngineCoreOutputs(outputs=(row,)))


def test_logprobs_keep_the_length_they_were_sent_with(codec):
    for sent in ((IDS, SCORES, RANKS), (IDS, SCORES, RANKS, None)):
        frames = encoded(codec, new_logprobs=sent)
        assert codec.decode_outputs(frames).outputs[0].new_logprobs == sent


@pytest.mark.parametrize("release", RELEASES)
def test_logprobs_of_five_are_taken_since_0_29(release):
    codec = Codec(profile_for(release))
    frames = encoded(codec, new_logprobs=(IDS, SCORES, RANKS, None, None))
    if release < "0.29":
        with pytest.raises(DecodeError, match="invalid length 5, expected 3 to 4"):
            codec.decode_outputs(frames)
    else:
        read = codec.decode_outputs(frames).outputs[0].new_logprobs
        assert read == (IDS, SCORES, RANKS, None)


@pytest.mark.parametrize("release", RELEASES)
def test_rank_of_zero_is_taken_since_0_31(release):
    codec = Codec(profile_for(release))
    frames = encoded(codec, new_logprobs=(IDS, SCORES, int32(0)))
    if release < "0.31":
        with pytest.raises(ExtValueDecodeError, match=r"new_logprobs\.token_ranks: expected 1\.\."):
            codec.decode_outputs(frames)
    else:
        assert codec.decode_outputs(frames).outputs[0].new_logprobs[2] == int32(0)


def test_large_logprobs_travel_in_aux_frames_counted_from_the_body(codec):
    big = (int32(*range(64), shape=(64, 1)), floats(64, (64, 1)), int32(*[1] * 64))
    body, *aux = encoded(codec, new_logprobs=big)
    assert [len(frame) for frame in aux] == [256, 256, 256]
    indices = [part[2] for part in msgpack.unpackb(body)[1][0][2]]
    assert indices == [1, 2, 3]
    assert codec.decode_outputs([body, *aux, b"unused"]).outputs[0].new_logprobs == big
    with pytest.raises(ExtValueDecodeError, match="index 3 is out of range for 3 frames"):
        codec.decode_outputs([body, *aux[:2]])


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((IDS, SCORES, RANKS, [0]), "cu_num_generated_tokens: expected nil for one request"),
        ((SCORES, SCORES, RANKS), "logprob_token_ids: expected dtype in i4, int32, i8, int64"),
        ((IDS, IDS, RANKS), "logprobs: expected dtype in f4, float32"),
        ((int32(7), SCORES, RANKS), "logprob_token_ids: expected rank-2 array, got rank 1"),
        ((IDS, SCORES, IDS), "token_ranks: expected rank-1 array, got rank 2"),
        ((int32(1, 2, shape=(1, 2)), SCORES, RANKS), r"shapes differ: \[1, 2\] and \[1, 1\]"),
        ((IDS, SCORES, int32(1, 1)), "token_ranks length 2 does not match row count 1"),
        ((int32(shape=(1, 0)), floats(0, (1, 0)), RANKS), "zero-column logprobs payload"),
        ((int32(-1, shape=(1, 1)), SCORES, RANKS), "logprob_token_ids: expected 0.."),
        ((IDS, SCORES, int32(-1)), "token_ranks: expected"),
    ],
)
def test_logprobs_that_do_not_fit_are_refused(codec, parts, reason):
    with pytest.raises(
        ExtValueDecodeError, match=f"ext value decode failed: new_logprobs.*{reason}"
    ):
        codec.decode_outputs(encoded(codec, new_logprobs=parts))


@pytest.mark.parametrize("field", ["new_logprobs", "new_prompt_logprobs_tensors"])
def test_logprobs_of_both_kinds_are_checked(newest, field):
    with pytest.raises(DecodeError) as caught:
        newest.decode_outputs(encoded(newest, **{field: (IDS, SCORES)}))
    assert caught.value.field == f"EngineCoreOutput.{field}"


def test_big_endian_and_64_bit_ids_are_read(codec):
    big_endian = Tensor(">i4", (1, 1), struct.pack(">i", 7))
    wide = Tensor("int64", (1,), struct.pack("<q", 1))
    frames = encoded(codec, new_logprobs=(big_endian, SCORES, wide))
    assert codec.decode_outputs(frames).outputs[0].new_logprobs == (big_endian, SCORES, wide)


@pytest.mark.parametrize("release", RELEASES)
def test_unknown_dtype_changes_its_error_in_0_30(release):
    codec = Codec(profile_for(release))
    strange = Tensor("complex64", (1, 1), bytes(8))
    with pytest.raises(DecodeError, match="unsupported dtype string") as caught:
        codec.decode_outputs(encoded(codec, new_logprobs=(strange, SCORES, RANKS)))
    assert isinstance(caught.value, ExtValueDecodeError) is (release < "0.30")


@pytest.mark.parametrize("release", [r for r in RELEASES if r >= "0.28"])
def test_sampling_mask_is_checked_since_0_31(release):
    codec = Codec(profile_for(release))
    frames = encoded(codec, new_sampling_mask=(int32(1, 2), int32(0, 3), None))
    if release < "0.31":
        assert codec.decode_outputs(frames).outputs[0].new_sampling_mask is not None
    else:
        with pytest.raises(ExtValueDecodeError, match="offsets: no offsets into 2 token ids"):
            codec.decode_outputs(frames)


@pytest.mark.parametrize("offsets", [(), (0,), (1, 2), (0, 1), (0, 3), (0, 2, 1, 2), (0, -1, 2)])
def test_sampling_mask_whose_offsets_do_not_fit_is_refused(newest, offsets):
    with pytest.raises(ExtValueDecodeError, match="no offsets into 2 token ids"):
        newest.decode_outputs(encoded(newest, new_sampling_mask=(int32(1, 2), int32(*offsets))))


@pytest.mark.parametrize("length", [0, 3, 5, 8])
def test_tensor_of_another_length_than_its_shape_is_refused(codec, length):
    ids = Tensor("<i4", (1, 1), bytes(length))
    with pytest.raises(ExtValueDecodeError, match=f"mismatch: expected 4, got {length}"):
        codec.decode_outputs(encoded(codec, new_logprobs=(ids, SCORES, RANKS)))


@pytest.mark.parametrize(
    "mask", [(int32(1, 2),), (int32(1, 2), None), (int32(1, 2), int32(0, 1, 2), None)]
)
def test_sampling_mask_that_fits_is_resolved(newest, mask):
    frames = encoded(newest, new_sampling_mask=mask)
    assert newest.decode_outputs(frames).outputs[0].new_sampling_mask == mask


@pytest.mark.parametrize("release", ["0.32.0", "0.33.0"])
def test_routed_experts_are_resolved_since_0_33(release):
    codec = Codec(profile_for(release))
    tensor = Tensor("<i4", (100,), bytes(400))
    body, *aux = encoded(codec, routed_experts=tensor)
    read = codec.decode_outputs([body, *aux]).outputs[0].routed_experts
    assert read == (tensor if release == "0.33.0" else ["<i4", [100], 1])
    if release == "0.33.0":
        with pytest.raises(ExtValueDecodeError, match="routed_experts: aux frame index 1"):
            codec.decode_outputs([body])


def test_pooling_output_stays_as_it_came(codec):
    frames = encoded(codec, pooling_output=["float32", [2], 9])
    assert codec.decode_outputs(frames).outputs[0].pooling_output == ["float32", [2], 9]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("<i4", 4), (">i8", 8), ("|u1", 1), ("=f2", 2), ("f8", 8), ("|b1", 1), ("bool", 1),
        ("int8", 1), ("uint16", 2), ("float16", 2), ("bfloat16", 2), ("float32", 4), ("int64", 8),
        ("<int32", 4), ("<i3", None), ("float8_e5m2", None), ("", None), ("<", None), ("?", None),
        ("Int32", None), ("int", None), ("<<i4", None),
    ],
)  # fmt: skip
def test_item_size_of_dtype(dtype, size):
    found = item_size(dtype)
    assert (type(found), found) == (type(size), size)


# --- one tensor, read by itself ----------------------------------------------------------------

WHERE = Where("Message", "Struct.field")
RAW = msgpack.ExtType(3, b"1234")


@pytest.mark.parametrize(("index", "data"), [(0, b"body"), (1, b"aux1"), (2, b"aux2")])
def test_index_counts_frames_from_the_body_which_is_0(index, data):
    read = read_tensor(["float32", [1], index], WHERE, [b"body", b"aux1", b"aux2"])
    assert read == Tensor("float32", (1,), data)


@pytest.mark.parametrize("index", [-1, True, False, 0.0, "0", None])
def test_index_is_a_number_of_a_frame_and_nothing_like_it(index):
    with pytest.raises(DecodeError, match="expected raw bytes or aux frame index"):
        read_tensor(["float32", [1], index], WHERE, [b"body"])


@pytest.mark.parametrize("code", [0, 1, 2, 4, 127])
def test_raw_bytes_have_one_extension_type(code):
    with pytest.raises(DecodeError, match=f"unsupported extension type code {code}"):
        read_tensor(["float32", [1], msgpack.ExtType(code, b"1234")], WHERE, [b"body"])
    assert read_tensor(["float32", [1], RAW], WHERE, [b"body"]).data == b"1234"


@pytest.mark.parametrize("shape", [None, 1, (1,), [1.0], [True], ["1"], [2, -1]])
def test_shape_is_an_array_of_whole_numbers(shape):
    with pytest.raises(DecodeError, match="expected array of dimensions"):
        read_tensor(["float32", shape, RAW], WHERE, [b""])


@pytest.mark.parametrize("value", [None, {}, (1, 2, 3), ["float32", [1]], ["float32", [1], RAW, 1]])
def test_tensor_is_an_array_of_three(value):
    with pytest.raises(DecodeError, match=r"expected \[dtype, shape, data\]"):
        read_tensor(value, WHERE, [b""])


@pytest.mark.parametrize(
    ("dtype", "shape", "data"),
    [("float32", [], b"1234"), ("int8", [0], b""), ("int8", [2, 0], b"")],
)
def test_tensor_without_dimensions_has_one_element_and_an_empty_one_none(dtype, shape, data):
    read = read_tensor([dtype, shape, msgpack.ExtType(3, data)], WHERE, [b""])
    assert read == Tensor(dtype, tuple(shape), data)


def test_dtype_may_come_as_bytes_where_a_tensor_is_due():
    assert read_tensor([b"float32", [1], RAW], WHERE, [b""]).dtype == "float32"


@pytest.mark.parametrize(
    "value",
    [
        ["float32", [1], "1234"],
        ["float32", [1], None],
        ["float32", [1], True],
        ["float32", [True], 1],
        ["float32", [-1], 1],
        ["float32", 1, 1],
        ["float99", [1], 1],
        [b"float32", [1], 1],
        ["float32", [1]],
        ["float32", [1], 1, 1],
        ("float32", [1], 1),
    ],
)
def test_what_only_resembles_a_tensor_stays_as_it_is(value):
    assert resolve_nested({"a": [value]}, WHERE, [b"body", b"1234"]) == {"a": [value]}


@pytest.mark.parametrize("shape", [[0], [1, 0], []])
def test_form_of_a_tensor_is_seen_at_any_shape_and_depth(shape):
    data = bytes(4) if shape == [] else b""
    found = resolve_nested({"a": [{"b": ["float32", shape, 1]}]}, WHERE, [b"body", data])
    assert found == {"a": [{"b": Tensor("float32", tuple(shape), data)}]}


def test_integers_are_read_in_the_byte_order_of_the_dtype():
    for dtype, data in (
        ("<i4", (7).to_bytes(4, "little")),
        (">i4", (7).to_bytes(4, "big")),
        ("=i4", (7).to_bytes(4, sys.byteorder)),
        ("int32", (7).to_bytes(4, sys.byteorder)),
        ("<i8", (7).to_bytes(8, "little")),
        (">i8", (7).to_bytes(8, "big")),
        ("int64", (7).to_bytes(8, sys.byteorder)),
    ):
        assert tensor_ints(Tensor(dtype, (1,), data)) == (7,), dtype


# --- logprobs and masks, at their bounds -------------------------------------------------------


def int64(*numbers, shape=None):
    return Tensor("<i8", shape or (len(numbers),), struct.pack(f"<{len(numbers)}q", *numbers))


@pytest.mark.parametrize("length", [0, 1, 2])
def test_logprobs_of_fewer_than_three_are_refused(newest, length):
    parts = (IDS, SCORES, RANKS)[:length]
    with pytest.raises(DecodeError, match=f"invalid length {length}, expected 3 or more"):
        newest.decode_outputs(encoded(newest, new_logprobs=parts))


def test_logprobs_of_several_rows_and_columns_are_taken(codec):
    sent = (int32(*range(6), shape=(3, 2)), floats(6, (3, 2)), int32(1, 2, 3))
    frames = encoded(codec, new_logprobs=sent)
    assert codec.decode_outputs(frames).outputs[0].new_logprobs == sent


def test_logprobs_without_rows_are_taken_with_and_without_columns(codec):
    for columns in (0, 2):
        sent = (int32(shape=(0, columns)), floats(0, (0, columns)), int32(shape=(0,)))
        frames = encoded(codec, new_logprobs=sent)
        assert codec.decode_outputs(frames).outputs[0].new_logprobs == sent


@pytest.mark.parametrize(
    ("ids", "scores", "ranks"),
    [((1, 2), (2, 1), (1,)), ((2, 1), (1, 2), (2,)), ((1, 2), (1, 1), (1,))],
)
def test_logprobs_whose_shapes_differ_either_way_are_refused(newest, ids, scores, ranks):
    def zeros(shape):
        return int32(*[1] * math.prod(shape), shape=shape)

    sent = (zeros(ids), floats(math.prod(scores), scores), zeros(ranks))
    with pytest.raises(ExtValueDecodeError, match="shapes differ"):
        newest.decode_outputs(encoded(newest, new_logprobs=sent))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_ranks_are_as_many_as_rows(newest, count):
    sent = (int32(1, 2, shape=(2, 1)), floats(2, (2, 1)), int32(*[1] * count, shape=(count,)))
    with pytest.raises(ExtValueDecodeError, match=f"length {count} does not match row count 2"):
        newest.decode_outputs(encoded(newest, new_logprobs=sent))


@pytest.mark.parametrize("part", [0, 2])
def test_ids_and_ranks_have_32_bits(newest, part):
    for number, taken in ((2**32 - 1, True), (2**32, False), (-1, False)):
        sent = [IDS, SCORES, RANKS]
        sent[part] = int64(number, shape=sent[part].shape)
        frames = encoded(newest, new_logprobs=tuple(sent))
        if taken:
            assert newest.decode_outputs(frames).outputs[0].new_logprobs == tuple(sent)
        else:
            with pytest.raises(ExtValueDecodeError, match=r"expected \d\.\.4294967295, got -?\d+$"):
                newest.decode_outputs(frames)


def test_id_of_0_is_an_id(codec):
    sent = (int32(0, shape=(1, 1)), SCORES, RANKS)
    frames = encoded(codec, new_logprobs=sent)
    assert codec.decode_outputs(frames).outputs[0].new_logprobs == sent


def test_counts_of_tokens_are_refused_as_what_they_are(newest):
    for cu, error, reason in (
        ([0, 1], ExtValueDecodeError, r"expected nil for one request, got list \[0, 1\]"),
        ([-1], DecodeError, "expected integer in 0.."),
        (3, DecodeError, "expected array, got int 3"),
    ):
        for field, value in (
            ("new_logprobs", (IDS, SCORES, RANKS, cu)),
            ("new_sampling_mask", (int32(1), None, cu)),
        ):
            with pytest.raises(DecodeError, match=f"cu_num_generated_tokens: {reason}") as caught:
                newest.decode_outputs(encoded(newest, **{field: value}))
            assert type(caught.value) is error


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        ((), "invalid length 0, expected 1 to 3"),
        ((int32(1), None, None, None), "invalid length 4, expected 1 to 3"),
        ((floats(1, (1,)),), r"token_ids: expected dtype in i4, int32, i8, int64, got <f4"),
        ((int32(1, shape=(1, 1)),), "token_ids: expected rank-1 array, got rank 2"),
        ((int32(-1),), r"token_ids: expected 0\.\.4294967295, got -1"),
        ((int32(1), floats(2, (2,))), "offsets: expected dtype in i4"),
        ((int32(1), int32(0, 1, shape=(1, 2))), "offsets: expected rank-1 array, got rank 2"),
        ((int32(1), int32(1)), "offsets: no offsets into 1 token ids"),
        ((int32(1), int32(0)), "offsets: no offsets into 1 token ids"),
        ((int32(shape=(0,)), int32(0)), "offsets: no offsets into 0 token ids"),
    ],
)
def test_sampling_mask_that_does_not_fit_is_refused(newest, mask, reason):
    with pytest.raises(DecodeError, match=reason):
        newest.decode_outputs(encoded(newest, new_sampling_mask=mask))


@pytest.mark.parametrize(
    "mask",
    [
        (int32(0),),
        (int32(shape=(0,)), int32(0, 0)),
        (int32(1, 2), int32(0, 2)),
        (int32(1, 2), int32(0, 0, 2, 2)),
        (int32(1, 2), None, None),
        (int64(1, 2**32 - 1), int64(0, 1, 2)),
    ],
)
def test_sampling_mask_at_its_bounds_is_resolved(newest, mask):
    frames = encoded(newest, new_sampling_mask=mask)
    assert newest.decode_outputs(frames).outputs[0].new_sampling_mask == mask
