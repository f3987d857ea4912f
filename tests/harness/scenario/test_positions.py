"""YAML text to data and places."""

from __future__ import annotations

import pytest
import yaml

from harness.scenario.positions import (
    ALIASES_MAX,
    DEPTH_MAX,
    VALUES_MAX,
    Place,
    YamlProblemError,
    parse_yaml,
)

NO_SIGN = "is no character: the last one is \\U0010FFFF"
UNREAD = "the parser cannot read what stands here"


def problem(text: str) -> tuple[str, Place]:
    with pytest.raises(YamlProblemError) as caught:
        parse_yaml(text)
    return caught.value.message, caught.value.place


def test_scalars_follow_the_core_schema_of_yaml_1_2() -> None:
    text = (
        "on: [no, yes, off, 1:30, 010, 0x10, 0o10, 1e3, -1, .5, true, null, ~, '', '1',"
        " 2020-01-01, 1_000]"
    )
    data, _ = parse_yaml(text)
    assert data == {
        "on": [
            "no", "yes", "off", "1:30", 10, 16, 8, 1000.0, -1, 0.5, True, None, None, "", "1",
            "2020-01-01", "1_000",
        ]
    }  # fmt: skip


def test_positions_tell_keys_and_values_from_each_other() -> None:
    _, places = parse_yaml("a:\n  - b: 1\n    c: 2\n")
    assert places.find(("a", 0, "c")) == Place(3, 8)
    assert places.find(("a", 0, "c"), key=True) == Place(3, 5)
    assert places.find(()) == Place(1, 1)


def test_positions_of_a_path_that_the_file_lacks_are_those_of_its_nearest_part() -> None:
    _, places = parse_yaml("do: {hang: 5}\n")
    assert places.find(("do", 0, "hang", "str")) == Place(1, 12)


def test_positions_survive_carriage_returns_and_wide_characters() -> None:
    data, places = parse_yaml("a: 'ü'\r\nb: 1\r\n")
    assert data == {"a": "ü", "b": 1}
    assert places.find(("b",)) == Place(2, 4)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n...\n", "\n\n"])
def test_text_without_a_value_is_none(text: str) -> None:
    assert parse_yaml(text)[0] is None


def test_alias_repeats_a_value() -> None:
    assert parse_yaml("a: &x [1]\nb: *x\n")[0] == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("a: &x [*x]", "the alias *x stands inside its own value", Place(1, 8)),
        ("a: !!python/object x", "tag !!python/object is not supported", Place(1, 4)),
        ("a: !!str 5", "tag !!str is not supported", Place(1, 4)),
        ("a: !own [1]", "tag !own is not supported", Place(1, 4)),
        ("a: 1\nb: 2\na: 3", "key 'a' stands twice in one mapping (first in line 1)", Place(3, 1)),
        ("1: x", "a key must be text", Place(1, 1)),
        ("true: x", "a key must be text", Place(1, 1)),
        ("[a]: x", "a key must be text", Place(1, 1)),
        ("<<: {a: 1}", "merge keys (<<) are not supported", Place(1, 1)),
        ("a\n---\nb", "more than one document", Place(2, 1)),
        ('a: "\\UFFFFFFFF"', f"the escape \\UFFFFFFFF {NO_SIGN}", Place(1, 5)),
        ('a: 1\n"\\U00110000": 2', f"the escape \\U00110000 {NO_SIGN}", Place(2, 2)),
        (f"%YAML 1.{'1' * 5_000}\n--- a", f"invalid YAML: {UNREAD}", Place(1, 9)),
        ("a: 1\nb: \x01", "character U+0001 is not allowed in YAML", Place(2, 4)),
        ('a: "\\ud800"', "text holds half of a surrogate pair", Place(1, 4)),
        ("a: " + "9" * 5000, "a number of more than 40 digits", Place(1, 4)),
        ("a: .inf", ".inf is no finite number", Place(1, 4)),
        ("a: 1e999", "the number is too large", Place(1, 4)),
        ("a: *b", "invalid YAML: found undefined alias 'b'", Place(1, 4)),
        ("a: b: c", "invalid YAML: mapping values are not allowed here", Place(1, 5)),
        (
            "a:\n\tb: 1",
            "invalid YAML: found character '\\t' that cannot start any token"
            " (while scanning for the next token)",
            Place(2, 1),
        ),
        (
            "a: 'x\n",
            "invalid YAML: found unexpected end of stream (while scanning a quoted scalar)",
            Place(2, 1),
        ),
    ],
)
def test_what_is_not_accepted_is_named_with_its_place(
    text: str, message: str, place: Place
) -> None:
    assert problem(text) == (message, place)


def test_deep_nesting_is_refused_before_it_can_overflow() -> None:
    message, place = problem("[" * 100_000)
    assert (message, place) == (f"values nest deeper than {DEPTH_MAX} levels", Place(1, 41))


def test_many_aliases_are_refused() -> None:
    text = "a: &x 1\nb: [" + "*x, " * (ALIASES_MAX + 1) + "]"
    assert problem(text)[0] == f"more than {ALIASES_MAX} aliases"


def test_aliases_that_multiply_are_refused_by_what_they_expand_to() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 6)]
    assert problem("\n".join(lines))[0] == f"more than {VALUES_MAX} values"


@pytest.mark.parametrize("error", [OverflowError, IndexError, RecursionError, AttributeError])
def test_whatever_the_parser_raises_is_a_problem_with_a_place(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan(loader: yaml.SafeLoader) -> None:
        loader.forward(2)  # type: ignore[no-untyped-call]
        raise error

    monkeypatch.setattr(yaml.SafeLoader, "fetch_plain", scan)
    assert problem("\n ab?") == (f"invalid YAML: {UNREAD}", Place(2, 4))


def test_last_character_of_unicode_can_be_escaped() -> None:
    assert parse_yaml('a: "\\U0010FFFF"')[0] == {"a": "\U0010ffff"}
