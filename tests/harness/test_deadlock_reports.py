"""The report of each deadlock names ranks, collectives, and the message that was lost or ignored."""

from __future__ import annotations

import pytest

from tests.support.deadlocks import GOLDEN, LINES_MAX, WIDTH_MAX, cases, report

CASES = cases()


def test_every_deadlock_has_a_report_and_no_other_has():
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(CASES)
    assert len(CASES) >= 10


@pytest.mark.parametrize("name", CASES)
def test_report_of_a_deadlock_is_the_one_that_was_read(name):
    assert report(CASES[name]) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_report_of_a_deadlock_fits_on_a_screen_and_tells_a_cause(name):
    lines = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES_MAX
    assert [line for line in lines[1:] if len(line) > WIDTH_MAX] == []
    spins = CASES[name].invariant == "lockstep.comes-to-rest"
    assert spins or " in device " in lines[0] or " in host " in lines[0]
    assert "  because:" in lines
