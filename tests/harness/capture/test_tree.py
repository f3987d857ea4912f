"""A body as a tree: how each value was written, and where it stands."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.capture.tree import TreeError, read_tree

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=30,
)


def value_of(node):
    if node.kind == "array":
        return [value_of(item) for item in node.items]
    if node.kind == "map":
        return {k.value: value_of(v) for k, v in zip(node.keys, node.items, strict=True)}
    return msgpack.ExtType(node.code, node.value) if node.kind == "ext" else node.value


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_a_tree_holds_what_was_packed_and_every_place_is_exact(value):
    body = msgpack.packb(value)
    root = read_tree(body)
    assert value_of(root) == value
    assert (root.start, root.end) == (0, len(body))
    for _path, node in root.walk():
        alone = body[node.start : node.end]
        assert value_of(read_tree(alone)) == value_of(node)


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ("ca3f800000", "float32", None),
        ("cb3ff0000000000000", "float64", None),
        ("c403010203", "bin", None),
        ("d9017a", "str", None),
        ("d403ff", "ext", 3),
        ("c7020301ff", "ext", 3),
        ("d7ff0000000000000000", "ext", -1),
        ("e0", "int", None),
        ("dc0000", "array", None),
        ("de0000", "map", None),
    ],
)
def test_the_form_on_the_wire_is_told(body, kind, code):
    node = read_tree(bytes.fromhex(body))
    assert (node.kind, node.code) == (kind, code)
    assert node.end == len(body) // 2


@pytest.mark.parametrize(
    ("body", "offset", "words"),
    [
        ("", 0, "ends where a value should begin"),
        ("9301", 2, "ends where a value should begin"),
        ("92 01 a5 61", 2, r"a value \(str\) is cut off after 2 bytes"),
        ("dd", 0, r"a value \(array\) is cut off"),
        ("ddffffffff", 5, "ends where a value should begin"),
        ("91c1", 1, "the byte c1 begins no value"),
        ("92 01 a1 ff", 2, "a string is not UTF-8"),
        ("9001", 1, "1 bytes behind the value"),
        ("91" * 300 + "00", 201, "nested deeper than 200 levels"),
    ],
)
def test_bytes_that_are_no_value_are_refused_at_their_place(body, offset, words):
    with pytest.raises(TreeError, match=words) as caught:
        read_tree(bytes.fromhex(body))
    assert caught.value.offset == offset


def test_bytes_behind_the_value_are_taken_where_the_receiver_takes_them():
    assert read_tree(bytes.fromhex("9001"), trailing=True).end == 1
