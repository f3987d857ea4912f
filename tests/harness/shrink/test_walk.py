"""A replay walked step by step."""

from __future__ import annotations

import io

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.cli.output import Output
from harness.cli.walking import walk_through
from harness.failure import read_failure
from harness.replay import open_failure, replayed
from harness.walk import Chosen, Happened, Walk


def walked(path):
    walk = Walk()
    outcome = replayed(open_failure(path), walk)
    return walk.moments, outcome


def test_walk_has_every_choice_and_every_event_in_order(small):
    moments, outcome = walked(small)
    failure = read_failure(small)
    assert outcome.digest_matches is True
    assert [m.line for m in moments if isinstance(m, Happened)] == list(failure.events)
    chosen = [m for m in moments if isinstance(m, Chosen)]
    assert tuple((m.index, len(m.options)) for m in chosen) == outcome.attempt.tape.choices
    assert tuple(m.options for m in chosen) == outcome.attempt.tape.labels
    assert [m.number for m in chosen] == list(range(len(chosen)))


def test_walk_marks_the_departures_of_the_file(small):
    moments, _ = walked(small)
    marked = [m for m in moments if isinstance(m, Chosen) and m.departs]
    (line,) = read_failure(small).departures
    assert [line.startswith(f"at choice {m.number} ") for m in marked] == [True]
    assert marked[0].line.startswith(f"* choice {marked[0].number}: `")
    assert ", before `coordinator-commands`" in marked[0].line


def test_choice_names_what_ran_what_it_left_behind_and_what_waits():
    options = tuple("abcdefg")
    assert Chosen(3, options, 0, departs=False).line == (
        "  choice 3: `a`, rather than `b`, `c`, `d`, `e` and 2 more"
    )
    assert Chosen(3, ("a", "b"), 1, departs=True).line == "* choice 3: `b`, before `a`"


# --- by keys --------------------------------------------------------------------------------

MOMENTS = [
    Happened("#0 one"),
    Chosen(0, ("a", "b"), 0, departs=False),
    Chosen(1, ("a", "b"), 1, departs=True),
    Happened("#1 two"),
    Chosen(2, ("a", "b"), 0, departs=False),
    Happened("#2 three"),
]


def by_keys(capsys, typed):
    """The lines that are shown for some input, a mark at each question."""
    keys = None if typed is None else io.StringIO(typed)
    walk_through(MOMENTS, Output(None), keys=keys)
    shown = capsys.readouterr()
    return [line.split(":")[0].strip() for line in shown.out.splitlines()], shown.err


@pytest.mark.parametrize(
    ("typed", "shown", "asked"),
    [
        ("\n\n\n", ["#0 one", "choice 0", "* choice 1", "#1 two", "choice 2", "#2 three"], 3),
        ("n\nq\n", ["#0 one", "choice 0", "(the walk ends here; the run went on)"], 2),
        ("n\nn\n\nq\n", ["#0 one", "choice 0", "* choice 1", "#1 two",
                         "(the walk ends here; the run went on)"], 4),
        ("c\n", ["#0 one", "choice 0", "* choice 1", "#1 two", "choice 2", "#2 three"], 1),
        ("", ["#0 one", "(the walk ends here; the run went on)"], 1),
        (None, ["#0 one", "choice 0", "* choice 1", "#1 two", "choice 2", "#2 three"], 0),
    ],
)  # fmt: skip
def test_keys_decide_how_far_the_walk_goes(capsys, typed, shown, asked):
    lines, err = by_keys(capsys, typed)
    assert lines == shown
    assert err.count("[Enter] next event") == asked


def test_step_without_a_terminal_prints_everything_and_the_outcome(small):
    result = CliRunner().invoke(cli, ["replay", str(small), "--step"])
    assert result.exit_code == 1
    assert "Enter" not in result.output
    lines = result.output.splitlines()
    assert [line for line in lines if line.startswith("#")] == list(read_failure(small).events)
    assert sum(line.startswith("* choice") for line in lines) == 1
    assert "violated again, by the same events" in result.output
