"""Checks of single values: what each takes, to the last number, and what it says of the rest."""

from __future__ import annotations

import msgpack
import pytest

from client.protocol import codec_values as values
from client.protocol.codec_errors import DecodeError
from client.protocol.codec_msgpack import Where

WHERE = Where("Message", "Struct.field")
WRONG = [None, True, 1, -1, 1.5, "text", b"bytes", [], {}]


def takes(read, value):
    try:
        read(value, WHERE)
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("read", "taken"),
    [
        (values.read_int, [1]),
        (values.read_u64, [1]),
        (values.read_int64, [1, -1]),
        (values.read_float, [1, -1, 1.5]),
        (values.read_bool, [True]),
        (values.read_str, ["text"]),
        (values.read_text, ["text", b"bytes"]),
        (values.read_list, [[]]),
        (values.read_map, [{}]),
        (values.read_struct, [{}]),
        (values.read_json, [None, True, 1, -1, 1.5, "text", [], {}]),
        (values.read_u64s, [[]]),
        (values.read_ints, [[]]),
        (values.read_u32s, [b"bytes", []]),
        (values.read_bools, [[]]),
        (values.read_strs, [[]]),
        (values.read_texts, [[]]),
        (values.read_opaque, WRONG),
    ],
)
def test_check_takes_its_types_and_no_other(read, taken):
    found = [value for value in WRONG if takes(read, value)]
    assert [(type(value), value) for value in found] == [(type(value), value) for value in taken]


@pytest.mark.parametrize(
    ("read", "low", "high"),
    [
        (values.read_int, 0, 4_294_967_295),
        (values.read_u64, 0, 18_446_744_073_709_551_615),
        (values.read_int64, -9_223_372_036_854_775_808, 18_446_744_073_709_551_615),
    ],
)
def test_integers_are_taken_up_to_their_bounds(read, low, high):
    assert read(low, WHERE) == low
    assert read(high, WHERE) == high
    for beyond in (low - 1, high + 1):
        with pytest.raises(DecodeError) as caught:
            read(beyond, WHERE)
        assert (caught.value.message_type, caught.value.field) == WHERE
        assert caught.value.reason == f"expected integer in {low}..{high}, got int {beyond}"


@pytest.mark.parametrize(
    ("read", "item", "wrong"),
    [
        (values.read_u64s, 2**64 - 1, -1),
        (values.read_u32s, 2**32 - 1, 2**32),
        (values.read_ints, -(2**63), 2**64),
        (values.read_bools, False, 0),
        (values.read_strs, "a", b"a"),
    ],
)
def test_array_is_checked_item_by_item(read, item, wrong):
    assert read([item, item], WHERE) == (item, item)
    assert not takes(read, [item, wrong])


def test_bytes_are_read_as_text_and_as_small_numbers():
    assert values.read_texts([b"a", "b"], WHERE) == ("a", "b")
    assert values.read_u32s(b"\x00\xff", WHERE) == (0, 255)


def test_whole_number_becomes_a_float():
    assert type(values.read_float(2, WHERE)) is float


def test_keys_of_a_struct_are_strings_or_bytes():
    read = {"a": 1, b"b": 2}
    assert values.read_struct(read, WHERE) is read
    with pytest.raises(DecodeError) as caught:
        values.read_struct({"a": 1, 2: 3}, WHERE)
    assert caught.value.reason == "expected string keys, got int 2"


@pytest.mark.parametrize("bad", [[b"x"], {"a": [b"x"]}, {"a": {"b": b"x"}}, {b"a": 1}, [[{1: 2}]]])
def test_value_that_json_has_not_is_refused_at_any_depth(bad):
    good = {"a": [1, {"b": None}], "c": 0.5}
    assert values.read_json(good, WHERE) is good
    assert not takes(values.read_json, bad)


def test_refused_value_is_shown_whole_up_to_60_characters():
    whole, cut = "x" * 58, "x" * 59  # the quotes count too
    assert values.shown(whole) == f"str '{whole}'"
    assert values.shown(cut) == f"str '{'x' * 56}..."
    assert len(values.shown(cut)) == len("str ") + 60


@pytest.mark.parametrize(
    ("length", "low", "high", "reason"),
    [
        (1, 2, 3, "invalid length 1, expected 2 to 3 elements"),
        (4, 2, 3, "invalid length 4, expected 2 to 3 elements"),
        (1, 2, None, "invalid length 1, expected 2 or more elements"),
    ],
)
def test_row_of_another_length_is_refused(length, low, high, reason):
    with pytest.raises(DecodeError) as caught:
        values.read_row([0] * length, WHERE, low, high)
    assert caught.value.reason == reason


def test_row_of_a_length_within_its_bounds_is_read():
    for length in (2, 3):
        assert values.read_row([0] * length, WHERE, 2, 3) == [0] * length
    assert len(values.read_row([0] * 9, WHERE, 2, None)) == 9


def test_optional_check_takes_nil_and_asks_for_the_rest():
    read = values.optional(values.read_str)
    assert read(None, WHERE) is None
    assert read("a", WHERE) == "a"
    assert not takes(read, 0)
    assert not takes(read, b"")


def test_keys_of_a_map_are_checked_where_they_are_known():
    readers = {"a": values.read_str, "b": values.read_int}
    values.check_keys({"a": "x", "other": object()}, "Message", "Struct", readers, ("a",))
    with pytest.raises(DecodeError, match=r"Struct\.a: missing field `a`"):
        values.check_keys({"b": 1}, "Message", "Struct", readers, ("a",))
    with pytest.raises(DecodeError, match=r"Message: Struct\.b: expected integer"):
        values.check_keys({"a": "x", "b": "y"}, "Message", "Struct", readers, ("a",))


def test_refused_value_of_any_size_is_shown_by_its_beginning():
    long = 10_000_000
    whole = values.shown("x" * 61)
    assert values.shown("x" * long) == whole
    assert values.shown(b"x" * long) == f"bytes b'{'x' * 55}..."
    ext = values.shown(msgpack.ExtType(5, b"x" * long))
    assert ext == f"ExtType ExtType(code=5, data=b'{'x' * 34}..."
    assert len(values.shown([["x" * long] * long])) == len("list ") + 60
