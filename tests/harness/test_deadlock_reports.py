"""The report of each deadlock names ranks, collectives, and the message that was lost or ignored."""

from __future__ import annotations

import pytest

from harness.cli.catalogue import invariant_doc
from harness.reports.diagnostic import plain
from harness.reports.text import diagnostics
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.scenario.loader import parse
from tests.support.deadlocks import GOLDEN, LINES_MAX, WIDTH_MAX, cases, report

CASES = cases()
SCREEN = 42
"""Lines of a terminal; with all of ``known``, ``also`` and ``why``."""


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


def test_whole_message_on_four_ranks_of_which_each_is_at_something_else_is_about_a_screen():
    (two,) = selection.load_all(selection.select(["lockstep/resumed-twice"]))
    text = two.text.replace("engines: 2", "engines: 4")
    four = parse(text, two.path, name=two.id)
    result = run_scenario(four, RunOptions())
    (message,) = diagnostics(result, invariant_doc)
    lines = plain(message).splitlines()
    assert len(lines) <= SCREEN
    table = [line.split() for line in lines if "forward" in line or "resume" in line]
    assert [cells[0] for cells in table if cells[0].isdigit()] == ["0", "1", "2", "3"]
    assert any("START_DP_WAVE 1 #" in line and "resume_scheduler #" in line for line in lines)
