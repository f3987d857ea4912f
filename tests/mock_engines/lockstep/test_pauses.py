"""Pause, resume, sleep: when calls are answered, and what is refused (docs/lockstep.md)."""

from __future__ import annotations

import pytest

from mock_engines.lockstep.effects import Notice, Reply, Rows
from mock_engines.lockstep.rank import RESUME_IN_FLIGHT
from mock_engines.lockstep.scheduler import PauseState

ALL = ("0.22.0", "0.24.0", "0.29.0", "0.30.0", "0.31.0", "0.33.0")


def replies(made, rank):
    return {reply.call_id: reply for reply in made.outputs(rank, Reply)}


def paused(made, mode="keep", method="pause_scheduler"):
    made.call_all(method, mode)
    made.settle()
    return made


@pytest.mark.parametrize("release", ALL)
@pytest.mark.parametrize("mode", ["abort", "wait", "keep"])
def test_pause_of_idle_ranks_takes_a_wave_and_is_answered_by_all(ranks, release, mode):
    made = paused(ranks(release, 3), mode)
    assert [replies(made, n) for n in range(3)] == [{1: Reply(1)}] * 3
    assert [rank.wave for rank in made.ranks] == [1, 1, 1]
    assert [rank.ignores_starts for rank in made.ranks] == [True] * 3
    assert Notice("complete", 0) in made.outputs(0, Notice)


@pytest.mark.parametrize(("release", "steps"), [("0.22.0", 32), ("0.29.0", 32), ("0.30.0", 1)])
def test_idle_pause_takes_this_many_dummy_steps(ranks, release, steps):
    made = paused(ranks(release, 2))
    assert [entered.count("forward") for entered in made.entered] == [steps, steps]


@pytest.mark.parametrize("release", ALL)
def test_pause_of_some_ranks_never_ends(ranks, release):
    made = ranks(release, 2)
    made.call(0, "pause_scheduler", "keep")
    made.settle()
    assert replies(made, 0) == {}
    assert made.collectives.stuck()[0].missing == (1,)
    made.start(1, 0)
    with pytest.raises(AssertionError, match="do not come to rest"):
        made.settle()
    assert replies(made, 0) == {}


def test_pause_is_not_announced_as_a_start(ranks):
    made = paused(ranks("0.33.0", 2))
    assert made.outputs(0, Notice) == [Notice("complete", 0)]


def test_pause_with_abort_ends_requests_and_tells_their_clients(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=500, client=1)
    made.add(0, "b", 0, tokens=500, client=2)
    made.add(0, "c", 0, tokens=500, client=1)
    made.call(0, "pause_scheduler", "abort")
    made.settle()
    ended = [(c, o.finished) for c, o in made.sent[0] if isinstance(o, Rows) and o.finished]
    assert ended == [(1, ("a", "c")), (2, ("b",))]
    assert made[0].scheduler.pause is PauseState.NEW


def test_pause_with_wait_is_answered_after_the_last_running_request(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=40)
    made.turns(0, 6)
    made.call(0, "pause_scheduler", "wait")
    made.add(0, "b", 0)
    made.settle()
    outputs = [output for _client, output in made.sent[0]]
    last = max(n for n, o in enumerate(outputs) if isinstance(o, Rows))
    assert outputs[last].rows[0].finish == "length"
    assert outputs.index(Reply(1)) > last
    assert made[0].scheduler.counts == (0, 1)


@pytest.mark.parametrize(("clear_cache", "counts"), [(True, (0, 1)), (False, (1, 0))])
def test_pause_with_keep_puts_requests_back_if_the_cache_is_cleared(ranks, clear_cache, counts):
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=500)
    made.turns(0, 6)
    made.call(0, "pause_scheduler", "keep", clear_cache)
    made.settle()
    assert made[0].scheduler.counts == counts
    assert made[0].scheduler.pause is PauseState.ALL


def test_unknown_mode_is_refused_and_changes_nothing(ranks):
    made = ranks("0.33.0")
    made.call(0, "pause_scheduler", "sometime")
    made.settle()
    assert "invalid pause mode 'sometime'" in replies(made, 0)[1].failure
    assert made[0].scheduler.pause is PauseState.UNPAUSED
    assert not made[0].pending_pause


# --- resume ---------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ALL)
def test_resume_waits_for_every_rank(ranks, release):
    made = paused(ranks(release, 2))
    made.call(0, "resume_scheduler", call_id=2)
    made.settle()
    assert 2 not in replies(made, 0)
    assert made.collectives.waits(0).kind == "resume"
    made.call(1, "resume_scheduler", call_id=2)
    made.settle()
    assert replies(made, 0)[2] == replies(made, 1)[2] == Reply(2)


@pytest.mark.parametrize("release", ALL)
def test_resume_makes_all_run_if_one_has_work(ranks, release):
    made = paused(ranks(release, 2))
    made.add(1, "a", 1, tokens=2)
    made.settle()
    made.call_all("resume_scheduler", call_id=2)
    made.settle()
    assert [rank.wave for rank in made.ranks] == [2, 2]
    assert made.outputs(1, Rows)[-1].rows[0].finish == "length"
    starts = [n for n in made.outputs(0, Notice) if n.kind == "start"]
    assert starts == ([] if release in ("0.22.0", "0.24.0") else [Notice("start", 1)])


@pytest.mark.parametrize("release", ALL)
def test_resume_while_a_pause_is_in_flight_fails(ranks, release):
    made = ranks(release, 2)
    made.call(0, "pause_scheduler", "keep")
    made.call(0, "resume_scheduler", call_id=2)
    made.settle()
    assert RESUME_IN_FLIGHT in replies(made, 0)[2].failure
    assert made[0].pending_pause


def test_resume_while_agreed_ranks_drain_fails(ranks):
    """All were told, and what ran before the pause still runs: nobody may start anew."""
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=40)
    made.turns(0, 6)
    made.call(0, "pause_scheduler", "wait")
    while not made[0].ignores_starts:
        made.turns(0, 1)
    assert (made[0].pending_pause, made[0].running) == (False, True)
    made.call(0, "resume_scheduler", call_id=2)
    made.settle()
    assert RESUME_IN_FLIGHT in replies(made, 0)[2].failure
    assert replies(made, 0)[1] == Reply(1)


def test_resumed_rank_hears_starts_again(ranks):
    made = paused(ranks("0.33.0"))
    made.call(0, "resume_scheduler", call_id=2)
    made.settle()
    made.start(0, 1)
    made.settle()
    assert made.ignored[0] == []
    assert made[0].wave == 2


def test_resume_while_running_does_nothing(ranks):
    made = ranks("0.33.0", 2)
    made.start(0, 0)
    made.call(0, "resume_scheduler")
    made.settle()
    assert replies(made, 0) == {1: Reply(1)}
    assert "resume" not in made.entered[0]


# --- refusal (0.33) -------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "refused"), [("abort", True), ("wait", True), ("keep", False)])
def test_pause_generation_refuses_new_requests_unless_they_are_kept(ranks, mode, refused):
    made = paused(ranks("0.33.0"), mode, "pause_generation")
    made.add(0, "a", 1, client=5)
    made.settle()
    rows = [(c, o) for c, o in made.sent[0] if isinstance(o, Rows)]
    assert bool(rows) is refused
    if refused:
        ((client, output),) = rows
        assert (client, output.paused, output.rows[0].finish) == (5, True, "error")
    assert made[0].scheduler.counts == ((0, 0) if refused else (0, 1))


def test_further_input_of_a_known_request_is_not_refused(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=40)
    made.turns(0, 6)
    made.call(0, "pause_generation", "wait")
    made.add(0, "a", 0)
    made.add(0, "b", 0)
    made.settle()
    assert [o.finished for o in made.outputs(0, Rows) if o.paused] == [("b",)]


def test_resume_takes_requests_again(ranks):
    made = paused(ranks("0.33.0"), "wait", "pause_generation")
    made.call(0, "resume_scheduler", call_id=2)
    made.settle()
    assert not made[0].rejects


def test_sleep_never_refuses_requests(ranks):
    made = ranks("0.33.0")
    made.call(0, "sleep", 1, "abort")
    made.settle()
    assert not made[0].rejects


def test_pause_generation_is_unknown_until_032(ranks):
    made = ranks("0.32.0")
    made.call(0, "pause_generation", "wait")
    made.settle()
    assert "no utility method" in replies(made, 0)[1].failure


# --- sleep ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "asleep"), [(0, ()), (1, ("weights", "kv_cache"))])
def test_sleep_of_level_0_only_pauses(ranks, level, asleep):
    made = ranks("0.33.0")
    made.call(0, "sleep", level, "keep")
    made.call(0, "is_sleeping", call_id=2)
    made.settle()
    assert made[0].memory.tags == asleep
    assert replies(made, 0)[2].value is True


def test_plain_pause_reads_as_sleeping(ranks):
    made = paused(ranks("0.33.0"))
    made.call(0, "is_sleeping", call_id=2)
    made.settle()
    assert replies(made, 0)[2].value is True


@pytest.mark.parametrize(
    ("release", "resumes", "value"),
    [("0.23.0", True, None), ("0.24.0", False, None), ("0.30.0", False, None),
     ("0.31.0", False, False)],
)  # fmt: skip
def test_wake_up_of_some_memory(ranks, release, resumes, value):
    made = ranks(release)
    made.call(0, "sleep", 1, "abort")
    made.call(0, "wake_up", ["weights"], call_id=2)
    made.settle()
    made.call(0, "wake_up", ["weights"], call_id=3)
    made.settle()
    assert made[0].memory.tags == ("kv_cache",)
    assert replies(made, 0)[3].value is value
    assert (made[0].scheduler.pause is PauseState.UNPAUSED) is resumes


@pytest.mark.parametrize(("release", "value"), [("0.30.0", None), ("0.31.0", True)])
def test_wake_up_of_all_memory_resumes(ranks, release, value):
    made = ranks(release)
    made.call(0, "sleep", 1, "abort")
    made.settle()
    made.call(0, "wake_up", None, call_id=3)
    made.settle()
    assert not made[0].memory.asleep
    assert replies(made, 0)[3].value is value
    assert made[0].scheduler.pause is PauseState.UNPAUSED


@pytest.mark.parametrize(("release", "dummies"), [("0.23.0", True), ("0.24.0", False)])
def test_dummy_steps_are_run_asleep_until_023(ranks, release, dummies):
    made = ranks(release)
    made.call(0, "sleep", 1, "abort")
    made.settle()
    before = made.entered[0].count("forward")
    made.call(0, "pause_scheduler", "keep", call_id=2)
    made.settle()
    assert (made.entered[0].count("forward") > before) is dummies
    assert 2 in replies(made, 0)


def test_kv_cache_is_released_only_paused_and_awake(ranks):
    made = ranks("0.31.0")
    made.call(0, "release_kv_cache_memory", call_id=1)
    made.settle()
    assert "needs a pause" in replies(made, 0)[1].failure
    paused(made)
    made.call(0, "release_kv_cache_memory", call_id=2)
    made.call(0, "release_kv_cache_memory", call_id=3)
    made.settle()
    assert replies(made, 0)[2] == Reply(2)
    assert "needs all memory" in replies(made, 0)[3].failure
    assert made[0].memory.tags == ("kv_cache",)


def test_kv_cache_cannot_be_released_until_030(ranks):
    made = paused(ranks("0.30.0"))
    made.call(0, "release_kv_cache_memory", call_id=2)
    made.settle()
    assert "no utility method" in replies(made, 0)[2].failure


def test_scheduler_tells_whether_it_is_paused(ranks):
    made = ranks("0.33.0")
    made.call(0, "is_scheduler_paused", call_id=5)
    made.settle()
    paused(made)
    made.call(0, "is_scheduler_paused", call_id=6)
    made.settle()
    told = replies(made, 0)
    assert (told[5].value, told[6].value) == (False, True)


def test_wake_up_of_the_scheduling_alone_leaves_the_memory_asleep(ranks):
    made = ranks("0.33.0")
    made.call(0, "sleep", 1, "abort")
    made.settle()
    asleep = made[0].memory.tags
    assert asleep
    made.call(0, "wake_up", ["scheduling"], call_id=2)
    made.settle()
    assert made[0].memory.tags == asleep
    assert replies(made, 0)[2].value is False


def test_second_shut_down_does_not_cut_short_what_the_first_lets_end(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=20)
    made.shut_down(0, 3600.0)
    made.shut_down(0, 0.0)
    made.settle()
    assert made.ended == [True]
    last = made.outputs(0, Rows)[-1].rows[-1]
    assert (last.request_id, last.finish) == ("a", "length")
