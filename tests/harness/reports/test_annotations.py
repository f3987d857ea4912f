"""Annotations as workflow commands: escaping, the cap, and text that may not become one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reports.annotations import (
    MESSAGE_MAX,
    SHOWN_MAX,
    Annotation,
    capped,
    command,
    defused,
    relative,
)
from harness.reports.visible import visible


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """What the runner makes of a command."""
    found = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert found is not None

    def plain(text: str, signs: str) -> str:
        for sign in signs:
            text = text.replace(f"%{ord(sign):02X}", sign)
        return text.replace("%25", "%")

    pairs = (pair.split("=", 1) for pair in found[2].split(","))
    return found[1], {k: plain(v, "\r\n:,") for k, v in pairs}, plain(found[3], "\r\n")


def test_command_has_file_line_column_and_title():
    one = Annotation("error", "a: b, c", "100%\nnext", "scenarios/x.yaml", 7, 3)
    assert command(one) == (
        "::error file=scenarios/x.yaml,line=7,col=3,title=a%3A b%2C c::100%25%0Anext"
    )


def test_command_about_no_file_has_neither_file_nor_line():
    assert command(Annotation("warning", "t", "m", "", 7)) == "::warning title=t::m"
    assert command(Annotation("notice", "t", "m", "f")) == "::notice file=f,title=t::m"


@given(st.text(max_size=40), st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_texts_survive_and_stay_on_one_line(title, message, file):
    title, message, file = (text.replace("##[", "") for text in (title, message, f"f{file}"))
    line = command(Annotation("error", title, message, file, 1))
    assert "\n" not in line
    assert "\r" not in line
    level, properties, told = parsed(line)
    assert level == "error"
    assert properties == {"file": visible(file), "line": "1", "title": visible(title)}
    assert told == visible(message)
    assert line.replace("\t", "").isprintable()


@pytest.mark.parametrize("sign", ["\n", "%", "\x1b", "##[", "a%", "\u2028", "ab\n"])
def test_message_is_cut_as_it_is_written_and_never_inside_an_escape(sign):
    for lead in ("", "x", "xx"):
        written = command(Annotation("error", "t", lead + sign * MESSAGE_MAX)).split("::", 2)[2]
        assert MESSAGE_MAX - 3 < len(written) <= MESSAGE_MAX
        assert re.search("%(?!25|0A|0D)", written) is None
        assert "##[" not in written


def test_ten_of_a_level_are_shown_and_the_last_says_how_many_more():
    many = [Annotation("error", f"t{n}", f"m{n}") for n in range(14)]
    shown = list(capped([*many, Annotation("warning", "w", "w")]))
    assert [one.level for one in shown] == ["error"] * SHOWN_MAX + ["warning"]
    assert [one.title for one in shown[:9]] == [f"t{n}" for n in range(9)]
    assert shown[9].title == "5 more"
    assert "and 5 more" in shown[9].message
    assert "t9: m9" in shown[9].message


def test_exactly_ten_are_shown_as_they_are():
    ten = [Annotation("error", f"t{n}", "m") for n in range(SHOWN_MAX)]
    assert list(capped(ten)) == ten


def test_file_is_named_from_the_root_of_the_repository_and_not_outside_of_it(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    assert relative(root / "a" / "b.yaml", root) == "a/b.yaml"
    assert relative(tmp_path / "b.yaml", root) == ""
    assert relative(root / "b.yaml", None) == ""


@pytest.mark.parametrize(
    "text",
    [
        "::error::x",
        "  ::stop-commands::x",
        "fine\n\t::add-mask::x",
        "fine\r::add-mask::x",
        "\n\n  \n::add-mask::x",
        "a log says ##[error]x",
        "::set-env name=PATH::/evil",
    ],
)
def test_line_of_a_log_cannot_become_a_command(text):
    safe = defused(text)
    assert not any(line.lstrip().startswith("::") for line in re.split("[\r\n]", safe))
    assert "##[" not in safe


def test_text_that_is_no_command_stays_as_it_is():
    text = "a::b\n  std::vector\n#[x]"
    assert defused(text) == text
