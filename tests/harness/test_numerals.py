"""Numbers that somebody wrote."""

from __future__ import annotations

import pytest

from harness.numerals import number_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("7", 7), ("65535", 65_535), ("00065535", 65_535), ("0" * 5_000 + "1", 1)),
        *(("65536", None), ("99999", None), ("1" * 5_000, None), ("", None), ("-1", None)),
        *(("+1", None), (" 1", None), ("1_0", None), ("²", None), ("٣", None), ("1.0", None)),
    ],
)
def test_number_is_read_up_to_its_bound_and_nothing_else_is(text, number):
    assert number_of(text, 65_535) == number
