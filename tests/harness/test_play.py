"""One run: a function of its choices, judged by all invariants, and nothing of it stays."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from client.events import (
    FirstRequestQueued,
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from client.protocol.ids import FENCE_METHOD
from harness.driver import StepResult, Story
from harness.expectations import Outcome
from harness.invariants import discover
from harness.invariants.base import Verdict
from harness.play import FenceFilter, Played, build, play, schedule_digest
from harness.strategies import make_strategy
from harness.tape import Recorder as TapeRecorder
from harness.tape import Replayer, Tape
from harness.targets.base import TargetError
from harness.trace.events import Fenced, StepBegan
from harness.trace.recorder import Recorder
from tests.support.stories import (
    broken,
    kinds,
    of,
    outcomes,
    perform,
    sim,
    spec_of,
    statuses,
    unchecked,
)

STORY = """
topology: {engines: 3, coordinator: in-process}
steps:
  - load: {clients: 2, requests: 2}
  - utility: {id: u, method: is_sleeping}
  - call: {id: a, rank: 1}
  - finish: [u, a]
  - fence: true
  - expect: {op: a, outcome: finished}
"""


def test_run_is_judged_by_every_invariant_that_there_is():
    played = perform(STORY)
    assert [v.invariant for v in played.verdicts] == sorted(cls.id for cls in discover())
    assert statuses(played) == [(5, "held")]
    assert broken(played) == []
    assert [r.seq for r in played.records] == list(range(len(played.records)))


@pytest.mark.parametrize("seed", range(3))
def test_run_is_a_function_of_its_tape(seed):
    tape = TapeRecorder(make_strategy("random", seed, 0))
    first = perform(STORY, sim(tape))
    again = perform(STORY, sim(Replayer(tape.tape)))
    assert again.records == first.records
    assert again.verdicts == first.verdicts
    assert again.event_digest == first.event_digest
    assert schedule_digest(tape.tape, again) == schedule_digest(tape.tape, first)


def test_other_choices_make_another_run():
    digests = {
        perform(STORY, sim(make_strategy("random", seed, 0))).event_digest for seed in range(5)
    }
    assert len(digests) == 5


def test_labels_change_nothing_of_a_run():
    plain = perform(STORY, sim(TapeRecorder(make_strategy("random", 3, 0))))
    labelled = perform(STORY, sim(TapeRecorder(make_strategy("random", 3, 0)), labels=True))
    assert labelled.records == plain.records


def test_engines_and_client_speak_the_release_that_was_asked_for():
    story = (
        "topology: {coordinator: in-process, waves: script}\n"
        "steps:\n  - call: {id: a}\n  - finish: a\n"
    )
    old, new = perform(story, release="0.32.0"), perform(story, release="0.33.0")
    assert len(of(old, FirstRequestQueued)) == 1
    assert of(new, FirstRequestQueued) == []
    judged = {v.invariant: v for v in old.verdicts}["wave.only-engines-start"]
    assert (judged.verdict, judged.reason) == (
        "not_judged",
        "no promise of 0.32.0 (applies to >=0.33)",
    )


def test_mutant_runs_in_place_of_its_part():
    story = "steps:\n  - call: {id: a, rank: 65536}\n  - finish: a\n"
    assert outcomes(perform(story)) == {"a": "failed"}
    mutated = perform(story, mutant="rank-truncated")
    assert outcomes(mutated) == {"a": "finished"}
    assert broken(mutated) == ["routing.explicit-rank"]


@pytest.mark.parametrize("world", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
def test_frontend_is_stopped_when_the_engines_cannot_be_made(world):
    """The external coordinator is up by then."""
    topology = {"coordinator": "external", "transport": "bootstrapped", "ranks": [65536]}
    story = unchecked(topology=topology, steps=[{"fence": True}])
    spec, stage, made = spec_of(story, kind=world), sim(), []

    def remember(setting):
        made.append(spec.make_frontend(setting))
        return made[0]

    async def main():
        with pytest.raises(ValueError, match="rank 65536 exceeds"):
            await build(replace(spec, make_frontend=remember), stage, Recorder())
        assert not made[0].coordinator.running
        assert [name for name, _ in stage._loop.waiting()] == ["main"]
        return stage.transport.open_sockets

    assert stage.run(main) == 0


def test_frontend_is_stopped_when_it_cannot_prepare():
    log = []

    class Frontend:
        async def prepare(self):
            log.append("prepare")
            msg = "no binary"
            raise TargetError(msg)

        async def stop(self):
            log.append("stop")

    spec = replace(spec_of(STORY), make_frontend=lambda _setting: Frontend())
    with pytest.raises(TargetError, match=r"^no binary$"):
        play(spec, sim())
    assert log == ["prepare", "stop"]


def test_nothing_refers_to_a_world_whose_run_is_over():
    world = sim()
    perform(STORY, world)
    gone = weakref.ref(world), weakref.ref(world._loop), weakref.ref(world.transport)
    del world
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


# --- the fences of the harness itself -------------------------------------------------------


def test_filter_drops_every_event_of_a_fence_and_no_other():
    passed = []
    fenced = FenceFilter(passed.append)
    own = [
        UtilityRegistered(7, 0, "sleep"),
        UtilitySettled(7, 0, "sleep", None),
        UtilityReplyDropped(7),
        UtilityRegistered(9, 0, "sleep"),
        UtilityReleased(9),
        FirstRequestQueued(0, 1),
    ]
    theirs = [
        UtilityRegistered(8, 0, FENCE_METHOD),
        UtilitySettled(8, 0, FENCE_METHOD, None),
        UtilityReleased(8),
        UtilityReplyDropped(8),
    ]
    for pair in zip(own, [*theirs, *theirs[:2]], strict=True):
        for event in reversed(pair):
            fenced(event)
    assert passed == own


# --- the digest -----------------------------------------------------------------------------


def verdict(invariant="wave.never-rewinds", outcome="held", **parts):
    return Verdict(invariant, "must", outcome, "", 1, **parts)


def story_of(*found):
    return Story(results=[StepResult(step, Outcome(status, "", "")) for step, status in found])


BASE = Played(story_of((0, "held")), (verdict(),), [], 0xABC)
TAPE = Tape(((0, 2), (1, 3)))


@pytest.mark.parametrize(
    ("tape", "played"),
    [
        (Tape(((1, 2), (1, 3))), BASE),
        (Tape(((0, 3), (1, 3))), BASE),
        (Tape(((0, 2),)), BASE),
        (TAPE, replace(BASE, event_digest=0xABD)),
        (TAPE, replace(BASE, verdicts=(verdict(outcome="violated"),))),
        (TAPE, replace(BASE, verdicts=(verdict("wave.complete-advances-once"),))),
        (TAPE, replace(BASE, verdicts=(verdict(), verdict("z")))),
        (TAPE, replace(BASE, story=story_of((0, "violated")))),
        (TAPE, replace(BASE, story=story_of((1, "held")))),
        (TAPE, replace(BASE, story=story_of())),
    ],
)
def test_digest_covers_choices_events_verdicts_and_results(tape, played):
    assert schedule_digest(tape, played) != schedule_digest(TAPE, BASE)


def test_digest_covers_neither_labels_nor_texts_nor_times():
    labelled = Tape(TAPE.choices, (("a", "b"), ("c", "d", "e")))
    played = replace(
        BASE,
        verdicts=(verdict(message="m", expected="e", seen="s", witness=(1,)),),
        records=perform("steps:\n  - fence: true\n").records,
    )
    assert schedule_digest(labelled, played) == schedule_digest(TAPE, BASE)
    assert len(schedule_digest(TAPE, BASE)) == 64


def test_event_digest_does_not_cover_times():
    def digest(now):
        trace = Recorder(clock=lambda: now)
        for event in (StepBegan(0, "fence"), Fenced("step")):
            trace.emit(event)
        return trace.digest

    assert digest(0.0) == digest(12.5)
    assert kinds(perform("steps:\n  - fence: true\n").records).count("fenced") == 2
