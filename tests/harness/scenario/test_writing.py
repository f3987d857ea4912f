"""Scenarios written as text are read back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scenario.loader import parse
from harness.scenario.positions import parse_yaml
from harness.scenario.writing import COMMENT_CHARS_MAX, WIDTH, comment, scenario_text
from harness.shrink.scenario import data_of
from tests.support.collection import every_scenario

ODD = (
    *("no", "on", "yes", "null", "~", "", " a", "a: b", "#x", "=", ".5", "-", ".inf", ".nan", "["),
    *("1e3", "0x1f", "0o7", "0b1", "007", "1_000", "12:30", "2020-01-01", "true", "tRUE", "@a"),
    *(
        "a\nb",
        "é",
        "\x07",
        "'",
        '"',
        "- a",
        "? a",
        "&a",
        "*a",
        "!a",
        "%a",
        "|",
        ">",
        "\u2028",
        "\x85",
        "a\x85b",
        "\r",
    ),
)


@pytest.mark.slow
def test_every_built_in_scenario_is_read_back_as_it_was():
    for loaded in every_scenario():
        data = data_of(loaded.scenario)
        text = scenario_text(data)
        assert data_of(parse(text, Path("x.yaml"), name="x").scenario) == data, loaded.id


@pytest.mark.parametrize("word", ODD)
def test_word_that_looks_like_something_else_stays_a_word(word):
    data = {"title": word, "refs": [word, {"k": word}]}
    assert parse_yaml(scenario_text(data))[0] == data


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_any_text_is_read_back(word):
    data = {"title": word, "refs": [word]}
    assert parse_yaml(scenario_text(data))[0] == data


@pytest.mark.parametrize("value", [0, -1, 2**63, 1.5, 1e300, 0.1, True, False, None, [], {}])
def test_value_keeps_its_type(value):
    found = parse_yaml(scenario_text({"refs": [value]}))[0]["refs"][0]
    assert (found, type(found)) == (value, type(value))


def test_file_reads_as_written_by_hand():
    data = {
        "steps": [
            {"call": {"id": "a", "rank": 0}},
            {"fence": True},
            {"engine": {"engine": 0, "do": [{"stats": {"running": n}} for n in range(6)]}},
        ],
        "engines": [{"engine": 0, "rules": [{"on": "add", "do": [{"drop": True}]}]}],
        "topology": {"engines": 2},
        "title": "a story",
    }
    text = scenario_text(data, ["why", ""])
    assert text == (
        "# why\n"
        "#\n"
        "title: a story\n"
        "topology: {engines: 2}\n"
        "engines:\n"
        "  - {engine: 0, rules: [{on: add, do: [{drop: true}]}]}\n"
        "steps:\n"
        "  - call: {id: a, rank: 0}\n"
        "  - fence: true\n"
        "  - engine:\n"
        "      engine: 0\n"
        "      do:\n"
        "        - stats: {running: 0}\n"
        "        - stats: {running: 1}\n"
        "        - stats: {running: 2}\n"
        "        - stats: {running: 3}\n"
        "        - stats: {running: 4}\n"
        "        - stats: {running: 5}\n"
    )
    assert max(map(len, text.splitlines())) <= WIDTH


HOSTILE = (
    "x\ny: 1",
    "a\r\nb: 1",
    "\u2028c: 1",
    "\x85d: 1",
    "\x1b[31m",
    "\u202eevil",
    "\x00",
    "\ud800",
)
"""Texts that would leave a comment, steer who shows the file, or make it unreadable."""


@pytest.mark.parametrize("text", HOSTILE)
def test_comment_is_one_printable_line_whatever_it_is_made_of(text):
    written = scenario_text({"title": "t"}, [text])
    assert parse_yaml(written)[0] == {"title": "t"}
    first, *rest = written.split("\n")
    assert first.isprintable()
    assert first.startswith("# ")
    assert rest == ["title: t", ""]


def test_comment_of_a_long_text_is_cut():
    assert len(comment("x" * 1_000_000)) < COMMENT_CHARS_MAX + 50


@pytest.mark.parametrize("word", ["\u202eevil", "a\u2066b", "\x1b[31m", "\u200bx", "é\u2028"])
def test_text_that_steers_who_shows_the_file_is_written_as_escapes(word):
    written = scenario_text({"title": word, "refs": [word, {word: "é"}]})
    assert parse_yaml(written)[0] == {"title": word, "refs": [word, {word: "é"}]}
    assert all(line.isprintable() for line in written.split("\n"))
    assert ": é" in written
