"""Lines of a trace as evidence: whose numbers they show."""

from __future__ import annotations

from harness.evidence import numbers_of


def test_numbers_are_those_of_lines_that_begin_with_one():
    lines = ["#12 t=0.1s engine 0 <- ADD", "#7", "... and 3 more events", "", "# 5", "x #9"]
    assert numbers_of(lines) == (12, 7)


def test_what_only_looks_like_a_number_is_none():
    assert numbers_of([f"#{'9' * 5_000} x", "#1_0 x", "#-1", "#+1", "#²", "#٣"]) == ()
