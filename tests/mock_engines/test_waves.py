"""The shared wave model: rules of each release, and a state machine against a small model."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from client.protocol.profiles import profile_for
from mock_engines.waves import AutoWaves, numbers


def waves(release, ranks=(0, 1)):
    model = AutoWaves(profile_for(release))
    for rank in ranks:
        model.enter(rank)
    return model


def add(model, rank, wave=0, *, paused=False):
    effects = model.added(rank, wave=wave, paused=paused)
    return numbers([*effects, *model.work(rank, unfinished=not paused)])


def start(model, rank, wave=0, exclude=None):
    return numbers(model.start_dp_wave(rank, wave=wave, exclude=exclude))


def finish(model, rank):
    return numbers(model.work(rank, unfinished=False))


@pytest.mark.parametrize(
    ("release", "rank", "notices"),
    [
        ("0.28.0", 0, []),
        ("0.28.0", 1, []),
        ("0.29.0", 0, [(0, "start", 0)]),
        ("0.29.0", 1, []),
        ("0.33.0", 0, [(0, "start", 0)]),
        ("0.33.0", 1, [(1, "start", 0)]),
    ],
)
def test_add_of_the_current_wave_at_an_idle_rank(release, rank, notices):
    assert add(waves(release), rank) == notices


@pytest.mark.parametrize("release", ["0.22.0", "0.28.0", "0.33.0"])
def test_add_of_a_stale_wave_at_an_idle_rank_starts_the_current_one(release):
    model = waves(release)
    start(model, 0, 3)
    start(model, 1, 3)
    assert model.wave(1) == 4
    assert add(model, 1, 2) == [(1, "start", 4)]


def test_add_of_a_newer_wave_is_taken_over():
    old, new = waves("0.28.0"), waves("0.33.0")
    assert add(old, 1, 5) == []
    assert add(new, 1, 5) == [(1, "start", 5)]
    assert old.wave(1) == new.wave(1) == 5
    assert old.wave(0) == new.wave(0) == 0


def test_add_while_running_or_paused_is_only_queued():
    model = waves("0.33.0")
    add(model, 1)
    assert add(model, 1) == []
    assert add(waves("0.33.0"), 1, paused=True) == []


@pytest.mark.parametrize(
    ("wave", "exclude", "runs"), [(4, None, True), (4, 0, True), (4, 1, False), (3, None, False)]
)
def test_start_dp_wave_runs_a_rank_unless_stale_or_excluded(wave, exclude, runs):
    model = waves("0.28.0")
    start(model, 0, 3)
    start(model, 1, 3)
    start(model, 1, wave, exclude)
    assert model.running(1) is runs


def test_wave_completes_once_when_all_run_and_none_has_work():
    model = waves("0.28.0")
    add(model, 1)
    assert finish(model, 1) == []
    assert start(model, 1, 0, 1) == []
    assert start(model, 0, 0, 1) == [(0, "complete", 0)]
    assert [model.wave(rank) for rank in (0, 1)] == [1, 1]
    assert not model.running(0)
    assert finish(model, 1) == []


def test_wave_stays_open_while_a_rank_was_never_woken():
    model = waves("0.28.0")
    add(model, 0)
    assert finish(model, 0) == []
    assert model.running(0)
    assert model.wave(0) == 0


def test_first_rank_announces_a_wave_once_only():
    model = waves("0.33.0")
    assert add(model, 0) == [(0, "start", 0)]
    assert start(model, 0, 0, 0) == []
    assert start(model, 1, 0, 0) == []
    assert finish(model, 0) == [(0, "complete", 0)]


def test_rank_runs_from_the_moment_in_which_it_has_work_and_not_for_having_none():
    model = waves("0.28.0")
    model.work(0, unfinished=False)
    assert not model.running(0)
    model.work(0, unfinished=True)
    assert model.running(0)
    assert not model.running(1)


def test_dead_rank_takes_no_part_and_the_next_one_speaks_for_all():
    model = waves("0.28.0")
    add(model, 1)
    finish(model, 1)
    assert numbers(model.leave(0)) == [(1, "complete", 0)]
    assert model.participants() == (1,)


def test_returning_rank_takes_part_in_the_wave_that_its_peers_run():
    model = waves("0.28.0")
    add(model, 1, 7)
    model.leave(0)
    model.enter(0)
    assert (model.wave(0), model.running(0)) == (7, True)
    assert finish(model, 1) == [(0, "complete", 7)]


def test_stalled_rank_holds_the_wave_until_it_goes_on():
    model = waves("0.28.0")
    add(model, 1)
    start(model, 0, 0, 1)
    model.stall(0)
    assert finish(model, 1) == []
    assert (model.wave(1), model.running(1)) == (0, True)
    assert numbers(model.resume(0)) == [(0, "complete", 0)]
    assert numbers(model.resume(0)) == []


def test_rank_that_died_while_it_was_stalled_holds_no_wave():
    model = waves("0.28.0")
    add(model, 1)
    model.stall(0)
    finish(model, 1)
    assert numbers(model.leave(0)) == [(1, "complete", 0)]
    model.stall(0)
    assert numbers(model.resume(0)) == []


def test_single_rank_completes_each_wave_by_itself():
    model = waves("0.28.0", ranks=(300,))
    add(model, 300)
    assert finish(model, 300) == [(300, "complete", 0)]
    assert add(model, 300, 0) == [(300, "start", 1)]


RANKS = (0, 1, 256)
rank = st.sampled_from(RANKS)
small_wave = st.integers(0, 4)


class WaveMachine(RuleBasedStateMachine):
    """Any order of inputs; the promises that hold for every release."""

    @initialize(release=st.sampled_from(["0.22.0", "0.28.0", "0.29.0", "0.33.0"]))
    def begin(self, release):
        self.profile = profile_for(release)
        self.model = waves(release, RANKS)
        self.work = dict.fromkeys(RANKS, False)
        self.alive = dict.fromkeys(RANKS, True)
        self.waves = dict.fromkeys(RANKS, 0)
        self.stalled = dict.fromkeys(RANKS, False)
        self.completed = []

    def take(self, effects):
        for effect in effects:
            assert self.alive[effect.rank]
            if effect.notice == "complete":
                alive = [r for r in RANKS if self.alive[r]]
                assert effect.rank == alive[0]
                assert not any(self.work[r] or self.stalled[r] for r in alive)
                assert not any(self.model.running(r) for r in alive)
                assert effect.wave == self.model.wave(effect.rank) - 1
                self.completed.append(effect.wave)

    @rule(rank=rank, wave=small_wave)
    def add(self, rank, wave):
        if not self.alive[rank] or self.stalled[rank]:
            return
        before, running = self.model.wave(rank), self.model.running(rank)
        effects = self.model.added(rank, wave=wave)
        stale = wave < before
        must_start = not running and (stale or self.profile.engine_starts_current_wave)
        mine = [e for e in effects if e.rank == rank and e.notice == "start"]
        assert bool(mine) >= must_start
        assert all(e.wave == max(before, wave) for e in effects)
        self.take(effects)
        self.work[rank] = True
        self.take(self.model.work(rank, unfinished=True))
        assert self.model.running(rank)

    @rule(rank=rank)
    def finish(self, rank):
        if self.alive[rank] and not self.stalled[rank]:
            self.work[rank] = False
            self.take(self.model.work(rank, unfinished=False))

    @rule(rank=rank, wave=small_wave, exclude=st.none() | rank)
    def start(self, rank, wave, exclude):
        if self.alive[rank] and not self.stalled[rank]:
            ignored = exclude == rank or wave < self.model.wave(rank)
            before = (self.model.wave(rank), self.model.running(rank))
            self.take(self.model.start_dp_wave(rank, wave=wave, exclude=exclude))
            if ignored:
                assert (self.model.wave(rank), self.model.running(rank)) == before

    @rule(rank=rank)
    def die_or_return(self, rank):
        self.alive[rank] = not self.alive[rank]
        self.work[rank] = self.stalled[rank] = False
        if self.alive[rank]:
            self.model.enter(rank)
            self.waves[rank] = 0
        else:
            self.take(self.model.leave(rank))

    @rule(rank=rank)
    def stall_or_resume(self, rank):
        if not self.alive[rank]:
            return
        self.stalled[rank] = not self.stalled[rank]
        if self.stalled[rank]:
            self.model.stall(rank)
        else:
            self.take(self.model.resume(rank))

    @invariant()
    def waves_never_go_back_and_workers_run(self):
        if not hasattr(self, "model"):
            return
        for rank in RANKS:
            if self.alive[rank]:
                assert self.model.wave(rank) >= self.waves[rank]
                self.waves[rank] = self.model.wave(rank)
                assert self.model.running(rank) >= self.work[rank]
        alive = [r for r in RANKS if self.alive[r]]
        idle = [
            r for r in alive if self.model.running(r) and not self.work[r] and not self.stalled[r]
        ]
        assert not alive or len(idle) < len(alive), "a wave that could complete is still open"


TestWaveMachine = WaveMachine.TestCase
TestWaveMachine.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_work_of_a_rank_that_takes_no_part_is_nobody_s_wave():
    model = waves("0.33.0", ranks=(0,))
    assert numbers(model.work(1, unfinished=True)) == []
    assert not model.running(0)
    assert model.participants() == (0,)
