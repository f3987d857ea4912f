"""Where a schedule leaves FIFO order, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.reports.wording import order_lines, order_text
from harness.shrink.departures import Departure, Noting
from harness.shrink.old_tape import Following, Left, left_behind
from harness.sim.loop import SimLoop
from harness.strategies.base import Strategy
from harness.strategies.random_walk import RandomStrategy
from harness.strategies.stall import StallStrategy
from harness.tape import Recorder, Tape


class Given(Strategy):
    """Answers what it is given, then 0."""

    name = "given"
    title = "given answers"

    def __init__(self, *answers: int) -> None:
        super().__init__()
        self._answers = list(answers)

    def choose(self, n: int, labels: Callable[[], object] | None = None) -> int:
        return self._answers.pop(0) if self._answers else 0


def played(strategy: Strategy, *names: str) -> tuple[Tape, list[str], Noting]:
    """Run tasks of these names, each of one step; return the tape, the order and the notes."""
    ran: list[str] = []
    noting = Noting(strategy, stalls=isinstance(strategy, StallStrategy))

    async def task(name: str) -> None:
        ran.append(name)

    async def main() -> None:
        tasks = [loop.create_task(task(name), name=name) for name in names]
        for one in tasks:
            await one

    recorder = Recorder(noting)
    loop = SimLoop(recorder, record_labels=True)
    loop.run(main())
    return recorder.tape, ran, noting


def test_fifo_order_has_no_departure():
    _, ran, noting = played(Given(), "a", "b", "c")
    assert (ran, noting.departures) == (["a", "b", "c"], ())


def test_stall_is_one_departure_however_much_runs_before():
    tape, ran, noting = played(StallStrategy((0,)), "a", "b", "c", "d")
    assert ran == ["b", "c", "d", "a"]
    assert [(d.choice, d.ran, d.before) for d in noting.departures] == [(0, "b", "a")]
    assert noting.departures[0].more >= 2
    assert left_behind(tape) == [Left(0, "a")]


def test_what_is_passed_over_twice_is_left_behind_once():
    _, ran, noting = played(Given(1, 1), "a", "b", "c")
    assert ran == ["b", "c", "a"]
    assert [d.line for d in noting.departures] == ["at choice 0 `b` and 1 more ran before `a`"]


def test_each_thing_that_is_passed_over_is_a_departure():
    _, ran, noting = played(Given(2), "a", "b", "c")
    assert ran == ["c", "a", "b"]
    assert [d.line for d in noting.departures] == [
        "at choice 0 `c` ran before `a`",
        "at choice 0 `c` and 1 more ran before `b`",
    ]


@pytest.mark.parametrize("schedule", range(20))
def test_departures_can_be_read_off_a_tape_with_labels(schedule):
    tape, _, noting = played(RandomStrategy(5, schedule), *"abcdef")
    assert left_behind(tape) == [Left(d.choice, d.before) for d in noting.departures]


@pytest.mark.parametrize("schedule", range(10))
def test_tape_that_is_followed_by_label_gives_the_same_order(schedule):
    tape, ran, _ = played(RandomStrategy(5, schedule), *"abcdef")
    assert played(Following(tape), *"abcdef")[1] == ran


@pytest.mark.parametrize("schedule", range(10))
def test_tape_is_followed_round_a_task_that_it_does_not_know(schedule):
    tape, ran, _ = played(RandomStrategy(5, schedule), *"abcdef")
    order = played(Following(tape), *"abcdefx")[1]
    assert [name for name in order if name != "x"] == ran


def test_tape_without_labels_says_nothing_to_follow():
    tape, _, _ = played(RandomStrategy(5, 0), *"abc")
    assert played(Following(Tape(tape.choices)), *"abc")[1] == ["a", "b", "c"]


def test_departure_of_one_thing_names_both():
    line = Departure(17, "coordinator: outputs", "coordinator: commands").line
    assert line == "at choice 17 `coordinator: outputs` ran before `coordinator: commands`"


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "everything in FIFO order"),
        (["x"], "everything in FIFO order, except that x"),
        (["x", "y"], "everything in FIFO order, except that x, and y"),
        (["x", "y", "z"], "everything in FIFO order, except that x, y, and z"),
    ],
)
def test_order_is_one_sentence(lines, text):
    assert order_text(lines) == text
    assert " ".join(order_lines(lines)) == text
