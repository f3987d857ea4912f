"""Playing a scenario several times, each within the time limit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.awake import STOPS
from harness.cli.pool import Job, execute, failed
from harness.cli.repeating import RECHECKED, Repeated
from harness.results import ScenarioResult, VerdictResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario, parse

TEXT = "title: t\npromise: p\nrefs: [vllm#1]\nsteps:\n  - fence: true\n"
LOADED = parse(TEXT, Path("x.yaml"), name="x")
OPTIONS = RunOptions(timeout_s=60.0)


class Plays:
    """Work that comes to one status after the other."""

    def __init__(self, *words: str, known: bool = False) -> None:
        self.left = list(words)
        self.known = ("a.b",) if known else ()

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        word = self.left.pop(0)
        if word == "hangs":
            threading.Event().wait()
        verdict = VerdictResult("a.b", "must", "violated" if word == "violated" else "held")
        blank = failed(Job(loaded, options), "")
        return ScenarioResult(
            blank.scenario, "t", (), "0.33.0", None, word, self.known, verdicts=(verdict,)
        )


def test_red_play_is_rechecked_and_others_are_not() -> None:
    calm, red = Plays(*["held"] * 9), Plays(*["violated"] * 9)
    Repeated(calm, recheck=True)(LOADED, OPTIONS)
    Repeated(red, recheck=True)(LOADED, OPTIONS)
    assert (9 - len(calm.left), 9 - len(red.left)) == (1, RECHECKED)


def test_red_play_late_in_the_repeats_needs_no_more_than_they_are() -> None:
    plays = Plays(*["held"] * 4, "violated", *["held"] * 4)
    assert Repeated(plays, 5, recheck=True)(LOADED, OPTIONS).status == "unstable"
    assert len(plays.left) == 4


def test_repeated_violation_leaves_the_one_failure_file_that_its_result_names(
    tmp_path: Path,
) -> None:
    plays = Plays(*["violated"] * 3)

    def writing(loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        path = tmp_path / f"{len(plays.left)}.json"
        path.write_text("{}", encoding="utf-8")
        return replace(plays(loaded, options), failure_file=str(path))

    found = Repeated(writing, 3)(LOADED, OPTIONS)
    assert [str(path) for path in tmp_path.iterdir()] == [found.failure_file]


def test_predicted_and_missed_counts_as_two_words_where_known_is_allowed() -> None:
    """Both plays have a status of their own; blind and known differ in it already."""
    plays = Plays("violated", "held", known=True)
    assert Repeated(plays, 2, by_known=True)(LOADED, OPTIONS).repeats == ("known", "blind")
    plays = Plays("violated", "held", known=True)
    assert Repeated(plays, 2)(LOADED, OPTIONS).repeats == ("violated", "held")


def test_play_that_hangs_is_stopped_at_its_own_limit_and_ends_the_repeats() -> None:
    plays = Plays("held", "hangs", "held")
    found = execute(Job(LOADED, RunOptions(timeout_s=0.2), 3), Repeated(plays, 3))
    assert (found.status, found.repeats) == ("error", ("held", "error"))
    assert found.error == "stopped after the time limit of 0.2 s"
    assert plays.left == ["held"]


class Disturbed:
    """Work on real sockets that sees a violation each time, and is stopped in some plays."""

    def __init__(self, folder: Path, stopped: dict[int, float]) -> None:
        self.folder = folder
        self.stopped = stopped
        """Seconds that a stop costs, by the number of the play."""
        self.played = 0

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        number, self.played = self.played, self.played + 1
        path = self.folder / "one.json"
        path.write_text("{}", encoding="utf-8")
        if number in self.stopped:
            signal.raise_signal(signal.SIGCONT)
            STOPS.lost_s += self.stopped[number]
        return replace(Plays("violated")(loaded, options), failure_file=str(path))


REAL = replace(OPTIONS, target="zmq", timeout_s=60.0)


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before, lost_s = signal.getsignal(signal.SIGCONT), STOPS.lost_s
    yield
    signal.signal(signal.SIGCONT, before)
    STOPS.lost_s = lost_s


def test_violation_behind_a_stop_is_an_error_that_names_the_file_which_stays(
    tmp_path: Path,
) -> None:
    found = execute(Job(LOADED, REAL), Disturbed(tmp_path, {0: 3.0}))
    assert (found.status, found.failure_file) == ("error", None)
    assert found.error is not None
    assert str(tmp_path / "one.json") in found.error
    assert found.error.count("is to be played again") == 1
    assert (tmp_path / "one.json").exists()


def test_violation_behind_a_signal_that_continues_what_was_not_stopped_stands(
    tmp_path: Path,
) -> None:
    found = execute(Job(LOADED, REAL), Disturbed(tmp_path, {0: 0.0}))
    assert found.status == "violated"


def test_stop_in_one_play_leaves_those_before_it_as_they_are(tmp_path: Path) -> None:
    work = Repeated(Disturbed(tmp_path, {2: 3.0}), 4)
    found = execute(Job(LOADED, REAL, 4), work)
    assert (found.status, found.repeats) == ("violated", ("violated", "violated", "error"))
    assert found.failure_file == str(tmp_path / "one.json")
    assert (tmp_path / "one.json").exists()


def test_stop_in_a_play_of_its_own_is_told_once(tmp_path: Path) -> None:
    found = execute(Job(LOADED, REAL), Repeated(Disturbed(tmp_path, {0: 3.0})))
    assert found.error is not None
    assert found.error.count("was stopped") == 1
