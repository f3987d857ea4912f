"""JSON of others: what is refused, in words of ours."""

from __future__ import annotations

import pytest

from client.protocol.strict_json import loads


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9" * 5_000, "a whole number has more than 4,300 digits"),
        ('{"a": [' + "9" * 5_000 + "]}", "a whole number has more than 4,300 digits"),
        ('{"a": 1, "a": 1}', "key 'a' stands twice"),
        ("[" * 100_000, "nest"),
        ("NaN", "NaN"),
        ("1e999", "larger than any number"),
        ("{", "Expecting property name"),
        (b"\xff", "utf-8"),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_what_is_no_json_of_ours_says_why(text: str | bytes, words: str, lenient: bool) -> None:
    if lenient and words in {"key 'a' stands twice", "NaN", "larger than any number"}:
        loads(text, lenient=True)
        return
    with pytest.raises(ValueError, match=words):
        loads(text, lenient=lenient)


@pytest.mark.parametrize("text", ["9" * 4_300, '{"a": {"a": 1}}', b"1.5", "null"])
def test_what_is_json_is_read(text: str | bytes) -> None:
    loads(text)
