"""Verdicts of a run: pure, and remembered for runs that are alike in every event and time."""

from __future__ import annotations

import math
from typing import Any

import pytest
from packaging.version import Version

import harness.judgement
import harness.runner
from harness.invariants import discover
from harness.invariants.base import Invariant, Judge, RunContext, Verdict
from harness.invariants.wave_never_rewinds import WaveNeverRewinds
from harness.judgement import Judgement, Known
from harness.play import Played, PlaySpec, play
from harness.runner import Campaign, RunOptions, prepare
from harness.scenario.loader import LoadedScenario, builtin_dir, load
from harness.trace.events import Event, MetricsSampled, Record, RunEnded
from harness.trace.recorder import digest_of, fingerprint
from harness.worlds import World
from tests.support.traces import WHITE, add, scenario, wave

SAMPLE = sorted(builtin_dir().rglob("*.yaml"))[::7]
"""A part of every chapter."""
RUNS = 12


class Counted(Invariant):
    """Statement: every judge is counted."""

    id = "test.counted"
    handles = (RunEnded,)
    made = 0

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        Counted.made += 1

    def on_event(self, record: Record) -> None:
        self.exercised += record.seq


def records(*events: Event, step_us: int = 1) -> list[Record]:
    return [Record(seq, seq * step_us, event) for seq, event in enumerate(events)]


def snapshot(value: Any) -> Event:
    """An event that holds what no event is made of."""
    return MetricsSampled(value)


def judgement(known: Known, *invariants: type[Invariant]) -> Judgement:
    context = RunContext(scenario(), Version("0.33.0"), WHITE, (0, 1))
    return Judgement(invariants or (WaveNeverRewinds,), context, known)


REWOUND = records(wave(0, 2), wave(0, 1))


def test_same_events_are_judged_once():
    Counted.made, known = 0, {}
    first = judgement(known, Counted).whole(records(add(0, "a"), RunEnded(())))
    again = judgement(known, Counted).whole(records(add(0, "a"), RunEnded(())))
    assert again is first
    assert (Counted.made, first.verdicts[0].exercised) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [
        records(add(0, "b"), RunEnded(())),
        records(add(1, "a"), RunEnded(())),
        records(RunEnded(()), add(0, "a")),
        records(add(0, "a"), RunEnded(()), RunEnded(())),
        records(add(0, "a"), RunEnded(()), step_us=2),
    ],
    ids=["value", "engine", "order", "number", "time"],
)
def test_another_event_order_or_time_is_judged_anew(other: list[Record]):
    Counted.made, known = 0, {}
    judgement(known, Counted).whole(records(add(0, "a"), RunEnded(())))
    judgement(known, Counted).whole(other)
    assert Counted.made == 2


@pytest.mark.parametrize(
    ("one", "other"), [(None, math.nan), (1, 1.0), (1, True), ("a", b"a"), ({1: 0}, {"1": 0})]
)
def test_values_that_are_one_in_json_or_in_python_are_told_apart(one: Any, other: Any):
    assert fingerprint(records(snapshot(one))) != fingerprint(records(snapshot(other)))


@pytest.mark.parametrize("value", [2**64, "\ud800", object()])
def test_what_has_no_exact_form_is_judged_each_time(value: Any):
    Counted.made, known = 0, {}
    for _ in range(2):
        judgement(known, Counted).whole(records(snapshot(value), RunEnded(())))
    assert (Counted.made, known) == (2, {})


def test_digest_is_that_of_the_events():
    assert judgement({}).whole(REWOUND).digest == digest_of(REWOUND) != digest_of(REWOUND[:1])


def test_violation_is_remembered_with_its_witness():
    known: Known = {}
    judgement(known).whole(REWOUND)
    (verdict,) = judgement(known).whole(records(wave(0, 2), wave(0, 1))).verdicts
    assert (verdict.verdict, verdict.witness) == ("violated", (0, 1))


def test_run_that_broke_off_is_judged_up_to_there():
    assert not judgement({}).violated(REWOUND[:1])
    began = judgement({})
    assert [began.violated(REWOUND[:n]) for n in (1, 2)] == [False, True]
    (verdict,) = began.cut(REWOUND)
    assert (verdict.verdict, verdict.witness) == ("violated", (0, 1))
    (verdict,) = judgement({}).cut(REWOUND[:1])
    assert (verdict.verdict, verdict.reason) == ("not_judged", "the run broke off")


def test_each_record_is_judged_once_however_often_it_is_asked():
    story = records(add(0, "a"), RunEnded(()), wave(0, 1))
    asked = judgement({}, Counted)
    for size in (1, 2, 2, 3):
        asked.violated(story[:size])
    assert asked.whole(story).verdicts[0].exercised == 1


def test_so_many_runs_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harness.judgement, "KNOWN_MAX", 3)
    known: Known = {}
    for number in range(10):
        judgement(known).whole(records(wave(0, number)))
        assert len(known) <= 3
    assert known


def test_many_records_at_once_are_judged_as_one_by_one():
    context = RunContext(scenario(), Version("0.33.0"), WHITE, (0, 1))
    story = [*REWOUND, *records(RunEnded(()), wave(0, 7), wave(0, 3))]
    for size in range(len(story) + 1):
        single, all_at_once = Judge(discover(), context), Judge(discover(), context)
        for record in story[:size]:
            single.feed(record)
        all_at_once.feed_all(story[:size])
        assert single.verdicts() == all_at_once.verdicts()


def played(loaded: LoadedScenario) -> Campaign | None:
    return prepare(loaded, RunOptions(schedules=RUNS))[1]


CAMPAIGNS = {path.stem: found for path in SAMPLE if (found := played(load(path))) is not None}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_remembered_verdicts_are_those_of_judges_that_saw_each_event_as_it_happened(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    plays: list[tuple[tuple[Verdict, ...], Played]] = []

    def both(spec: PlaySpec, world: World) -> Played:
        ranks = tuple(spec.scenario.topology.rank_list)
        context = RunContext(spec.scenario, spec.profile.version, spec.capabilities, ranks)
        judge = Judge(discover(), context)
        once = play(spec, world, judge.feed)
        plays.append((judge.verdicts(), once))
        return once

    monkeypatch.setattr(harness.runner, "play", both)
    attempts = list(CAMPAIGNS[name].attempts())
    assert len(attempts) == len(plays) > 1
    for live, once in plays:
        assert live == once.verdicts
        assert once.event_digest == digest_of(once.records)
