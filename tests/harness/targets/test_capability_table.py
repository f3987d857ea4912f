"""The table of capabilities: what each target says of itself."""

from __future__ import annotations

from harness.targets.capabilities import CAPABILITIES
from harness.targets.capability_table import COLUMNS, HEAD, NO, YES, cell, rows

OLD_AND_NEW = ("0.22.0", "0.23.0", "0.24.0")


def test_cell_says_always_never_or_since_when():
    assert cell("a", lambda _release: frozenset("a"), OLD_AND_NEW) == YES
    assert cell("a", lambda _release: frozenset("b"), OLD_AND_NEW) == NO
    since = {"0.22.0": frozenset(), "0.23.0": frozenset("a"), "0.24.0": frozenset("a")}
    assert cell("a", since.__getitem__, OLD_AND_NEW) == "≥ 0.23.0"
    once = {"0.22.0": frozenset("a"), "0.23.0": frozenset(), "0.24.0": frozenset("a")}
    assert cell("a", once.__getitem__, OLD_AND_NEW) == "0.22.0, 0.24.0"


def test_every_capability_has_a_row_and_every_target_a_column():
    found = rows()
    assert [row[0].strip("`") for row in found] == list(CAPABILITIES)
    assert {len(row) for row in found} == {len(HEAD)}


def test_no_target_declares_what_is_no_capability():
    for name, sets in COLUMNS.items():
        assert sets("0.33.0") <= set(CAPABILITIES), name
        assert sets("0.33.0"), name
