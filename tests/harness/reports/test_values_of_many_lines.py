"""What was seen may have many lines: each is shown, up to a bound, and none is glued to another."""

from __future__ import annotations

from harness.reports.diagnostic import VALUE_LENGTH_MAX, VALUE_LINES_MAX, Diagnostic, plain


def shown(seen):
    return plain(Diagnostic("violated", "t", seen=seen)).splitlines()[1:]


def test_lines_of_a_value_stand_below_each_other_in_full():
    lines = [f"engine {rank}: " + "x" * 60 for rank in range(20)]
    assert [line[13:] for line in shown("\n".join(lines))] == lines


def test_long_line_is_cut_and_the_others_are_not():
    long = "x" * (2 * VALUE_LENGTH_MAX)
    first, second = shown(f"{long}\nshort")
    assert " ... " in first
    assert len(first) < VALUE_LENGTH_MAX + 20
    assert second.strip() == "short"


def test_lines_beyond_the_bound_are_counted():
    lines = shown("\n".join(str(n) for n in range(VALUE_LINES_MAX + 5)))
    assert len(lines) == VALUE_LINES_MAX + 1
    assert lines[-1].strip() == "... and 5 more lines"
