"""One text for one value, in whatever order it was built."""

from __future__ import annotations

from collections import OrderedDict, deque
from types import MappingProxyType

import pytest

from mock_engines.stable import stable_repr


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [2]}, "{'a': [2], 'b': 1}"),
        (OrderedDict([("b", 1), ("a", 2)]), "{'a': 2, 'b': 1}"),
        (MappingProxyType({2: "x", 1: None}), "{1: None, 2: 'x'}"),
        ({"b", "a"}, "{'a', 'b'}"),
        (frozenset({2, 1}), "{1, 2}"),
        ([(1, 2), [3]], "[[1, 2], [3]]"),
        (deque([1, {2}]), "[1, {2}]"),
        (bytearray(b"x"), "bytearray(b'x')"),
        (1j, "1j"),
    ],
)
def test_value_has_one_text_whatever_its_kind(value, text):
    assert stable_repr(value) == text
