"""After a change of the code a failure is looked for near its old tape."""

from __future__ import annotations

import json

import pytest

from harness.replay import ReplayKind, open_failure, replay
from harness.shrink import neighbourhood
from harness.shrink.budget import Budget
from harness.shrink.following import following, nearest
from harness.shrink.neighbourhood import search_near
from harness.shrink.stage import StalledRun
from tests.support.races import RACE_PROMISE


def edit(path, **changes):
    document = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        document[name] = value(document[name]) if callable(value) else value
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def longer(text):
    """What a change of the code may do to a run: more of it before the place of the fault."""
    return text.replace("steps:\n", "steps:\n  - call: {id: new}\n  - finish: new\n")


def without_labels(tape):
    return {name: tape[name] for name in ("format", "choices")}


def search(path, runs=2000):
    return search_near(open_failure(path), Budget(runs))


def test_failure_that_still_fits_its_tape_is_found_at_once(small):
    found = search(small)
    assert (found.tried, found.order.promise.name) == (1, RACE_PROMISE)


@pytest.mark.parametrize("labels", [True, False])
def test_failure_that_moved_is_found_again_soon(small, tmp_path, labels):
    edit(small, scenario_text=longer)
    if not labels:
        edit(small, tape=without_labels)
    assert replay(small).kind is ReplayKind.DIVERGED
    found = search(small)
    assert found.order is not None
    assert len(found.order.departures) == 1
    assert found.tried < 20
    again = tmp_path / "again.json"
    again.write_text(json.dumps({**json.loads(small.read_text()), **asdict_of(found.failure)}))
    assert replay(again).digest_matches is True


def asdict_of(failure):
    names = ("tape", "digest", "witness", "events", "departures", "stalls")
    return {name: getattr(failure, name) for name in names}


def test_failure_under_random_choices_that_moved_is_found_again(race):
    """A file as it was found, not reduced: its tape has dozens of departures."""
    edit(race, scenario_text=longer)
    assert replay(race).kind is ReplayKind.DIVERGED
    found = search(race)
    assert found.order is not None
    assert len(found.order.departures) == 1


def test_old_file_without_stalls_is_searched_by_its_tape(small):
    document = json.loads(small.read_text())
    for name in ("departures", "stalls"):
        del document[name]
    small.write_text(json.dumps({**document, "format": 2}))
    edit(small, scenario_text=longer)
    assert search(small).order is not None


def test_places_of_a_file_without_stalls_are_read_off_its_tape(small):
    stalls = tuple(json.loads(small.read_text())["stalls"])
    opened = open_failure(edit(small, stalls=None))
    hunt = neighbourhood._Hunt(opened, Budget(10))
    assert hunt._places(hunt._stalled(())) == stalls


def test_failure_that_was_fixed_is_gone_once_all_near_it_was_tried(small):
    found = search(edit(small, mutant=None))
    assert (found.order, found.failure) == (None, None)
    assert (found.finished, found.exercised, found.unplayable) == (True, True, 0)
    assert found.tried > 20


def test_search_that_ends_early_does_not_say_that_it_finished(small):
    found = search(edit(small, mutant=None), runs=5)
    assert (found.tried, found.finished) == (5, False)


def test_what_is_never_exercised_is_not_said_to_be_gone(small):
    alone = "title: t\npromise: p\nrefs: [vllm#1]\nsteps:\n  - fence: true\n"
    found = search(edit(small, mutant=None, scenario_text=alone))
    assert (found.order, found.exercised) == (None, False)


# --- which places come first ----------------------------------------------------------------


def test_places_of_the_same_name_come_first_then_the_nearest():
    heads = ["a", "b", "a", "c", "b"]
    assert nearest(heads, 3, "b") == [4, 1, 3, 2, 0]
    assert nearest(heads, 3, None) == [3, 2, 4, 1, 0]
    assert nearest(heads, 3, "b", after=1) == [4, 3, 2]


def test_stalls_are_followed_one_behind_the_other_and_each_once():
    played = []

    def play(at):
        played.append(at)
        return StalledRun(None, at, ("a", "b", "c"))

    assert [run.stalls for run in following((0, 2), ("a", "c"), play)] == [
        (), (0, 2), (0,), (0, 1), (1,), (1, 2), (2,),
    ]  # fmt: skip


def test_nothing_more_is_followed_once_nothing_may_be_tried():
    assert list(following((0,), ("a",), lambda _at: None)) == []
