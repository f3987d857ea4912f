"""The wave rules of one rank and of several, row by row (docs/lockstep.md)."""

from __future__ import annotations

import pytest

from mock_engines.lockstep.effects import Counts, Notice, Reply, Rows

ALL = ("0.22.0", "0.25.0", "0.29.0", "0.30.0", "0.32.0", "0.33.0")
OLD = ("0.22.0", "0.29.0", "0.32.0")


def idle_at(ranks, wave, release, rank=1):
    """One of two ranks, idle at a wave. Rank 1 speaks for nobody, so all it sends is about ADDs."""
    made = ranks(release, 2)
    made[rank].wave = wave
    return made


# --- ADD ------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ALL)
def test_add_of_an_older_wave_makes_an_idle_rank_run_and_tells_the_current_wave(ranks, release):
    made = idle_at(ranks, 4, release)
    made.add(1, "a", wave=3)
    made.turns(1, 1)
    assert made.sent[1] == [(-1, Notice("start", 4))]
    assert (made[1].running, made[1].wave) == (True, 4)


@pytest.mark.parametrize("release", OLD)
def test_add_of_the_current_wave_is_only_queued_until_032(ranks, release):
    made = idle_at(ranks, 4, release)
    made.add(1, "a", wave=4)
    made.turns(1, 1)
    assert (made.sent[1], made[1].running, made[1].wave) == ([], False, 4)
    assert made[1].scheduler.counts == (0, 1)


@pytest.mark.parametrize("release", OLD)
def test_add_of_a_newer_wave_only_moves_the_wave_until_032(ranks, release):
    made = idle_at(ranks, 4, release)
    made.add(1, "a", wave=6)
    made.turns(1, 1)
    assert (made.sent[1], made[1].running, made[1].wave) == ([], False, 6)


@pytest.mark.parametrize(("wave", "told"), [(4, 4), (6, 6)])
def test_add_of_the_current_or_a_newer_wave_starts_it_since_033(ranks, wave, told):
    made = idle_at(ranks, 4, "0.33.0")
    made.add(1, "a", wave=wave)
    made.turns(1, 1)
    assert made.sent[1] == [(-1, Notice("start", told))]
    assert (made[1].running, made[1].wave) == (True, told)


@pytest.mark.parametrize("release", ALL)
def test_add_to_a_running_rank_is_only_queued(ranks, release):
    made = idle_at(ranks, 4, release)
    made[1].running = True
    made.add(1, "a", wave=2)
    made.turns(1, 1)
    assert (made.sent[1], made[1].wave) == ([], 4)


@pytest.mark.parametrize("release", ALL)
def test_add_to_a_paused_rank_is_only_queued(ranks, release):
    made = ranks(release)
    made.call(0, "pause_scheduler", "keep")
    made.settle()
    sent = len(made.sent[0])
    made.add(0, "a", wave=0)
    made.settle()
    assert len(made.sent[0]) == sent
    assert made[0].scheduler.counts == (0, 1)
    assert not made[0].running


@pytest.mark.parametrize("release", ALL)
def test_add_without_a_coordinator_tells_no_wave(ranks, release):
    made = ranks(release, 2, has_coordinator=False)
    made[1].wave = 4
    made.add(1, "a", wave=3)
    made.turns(1, 1)
    assert (made.sent[1], made[1].running) == ([], False)


# --- START_DP_WAVE --------------------------------------------------------------------------


@pytest.mark.parametrize("release", ALL)
@pytest.mark.parametrize(
    ("wave", "exclude", "running", "now"),
    [
        (4, None, True, 4),
        (7, None, True, 7),
        (4, 0, True, 4),
        (4, 1, False, 4),
        (7, 1, False, 4),
        (3, None, False, 4),
    ],
)
def test_start_wakes_whoever_it_neither_excludes_nor_is_behind(
    ranks, release, wave, exclude, running, now
):
    made = idle_at(ranks, 4, release)
    made.start(1, wave, exclude)
    made.turns(1, 1)
    assert (made[1].running, made[1].wave) == (running, now)
    assert len(made.ignored[1]) == (not running)


@pytest.mark.parametrize("release", ALL)
def test_start_is_ignored_once_all_agreed_on_a_pause(ranks, release):
    made = ranks(release, 2)
    made.call_all("pause_scheduler", "keep")
    made.settle()
    made.start(1, 9)
    made.settle()
    assert made.ignored[1] == ["the rank is paused"]
    assert (made[1].running, made[1].wave) == (False, 1)


# --- the exchange ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "steps"),
    [("0.22.0", [32, 64, 96]), ("0.29.0", [32, 64, 96]), ("0.30.0", [1, 16, 32, 48, 64, 80, 96])],
)
def test_exchange_is_due_after_these_steps_of_a_wave(ranks, release, steps):
    made = ranks(release, 2)
    made.add(0, "a", wave=0, tokens=97)
    made.start(1, 0)
    made.settle()
    forwards, seen = 0, []
    for kind in made.entered[1]:
        forwards += kind == "forward"
        if kind == "sync":
            seen.append(forwards)
    assert [step for step in seen if step <= 96] == steps


@pytest.mark.parametrize(("release", "steps"), [("0.22.0", 32), ("0.30.0", 16)])
def test_rank_without_work_runs_dummy_steps_until_the_wave_is_over(ranks, release, steps):
    made = ranks(release, 2)
    made.add(0, "a", wave=0, tokens=3)
    made.start(1, 0)
    made.settle()
    assert made.entered[0].count("forward") == made.entered[1].count("forward") == steps
    assert [rank.wave for rank in made.ranks] == [1, 1]
    assert [rank.step_count for rank in made.ranks] == [0, 0]
    assert [rank.running for rank in made.ranks] == [False, False]


@pytest.mark.parametrize("release", ALL)
def test_rank_0_alone_tells_that_a_wave_is_complete(ranks, release):
    made = ranks(release, 2)
    made.start(0, 0)
    made.start(1, 0)
    made.settle()
    assert [n for n in made.outputs(0, Notice) if n.kind == "complete"] == [Notice("complete", 0)]
    assert made.outputs(1, Notice) == []


def test_each_rank_tells_its_own_client_without_a_coordinator(ranks):
    made = ranks("0.33.0", 2, has_coordinator=False)
    made.add(0, "a", wave=0)
    made.start(1, 0)
    made.settle()
    for rank in (0, 1):
        assert (0, Notice("complete", 0)) in made.sent[rank]


@pytest.mark.parametrize(("release", "told"), [("0.28.0", []), ("0.29.0", [Notice("start", 0)])])
def test_rank_0_tells_that_its_loop_runs_since_029(ranks, release, told):
    made = ranks(release, 2)
    made.start(0, 0)
    made.start(1, 0)
    made.settle()
    assert [n for n in made.outputs(0, Notice) if n.kind == "start"] == told


def test_rank_that_runs_alone_waits_in_the_forward_pass(ranks):
    made = ranks("0.33.0", 2)
    made.add(0, "a", wave=0)
    made.settle()
    (stuck,) = made.collectives.stuck()
    assert (stuck.group, stuck.missing, stuck.entered[0].kind) == ("device", (1,), "forward")


# --- counts ---------------------------------------------------------------------------------


def test_counts_are_published_before_and_after_a_step_with_its_number(ranks):
    made = ranks("0.33.0", 1, publishes=True)
    made.add(0, "a", wave=0, tokens=2)
    made.settle()
    assert made.outputs(0, Counts) == [
        Counts(running=0, waiting=1, step=0, wave=0),
        Counts(running=1, waiting=0, step=0, wave=0),
        Counts(running=0, waiting=0, step=1, wave=0),
    ]


def test_counts_that_did_not_change_are_not_published(ranks):
    made = ranks("0.33.0", 1, publishes=True)
    made.start(0, 0)
    made.settle()
    assert made.outputs(0, Counts) == []


# --- the end --------------------------------------------------------------------------------


def test_shutdown_at_once_aborts_what_is_there_and_ends(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", wave=0, tokens=500, client=3)
    made.turns(0, 4)
    made.shut_down(0, 0.0)
    made.settle()
    assert made.ended == [True]
    last = [(c, o) for c, o in made.sent[0] if isinstance(o, Rows)][-1]
    assert (last[0], last[1].finished, last[1].rows[0].finish) == (3, ("a",), "abort")


def test_shutdown_with_time_lets_requests_end_and_takes_no_new_ones(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", wave=0, tokens=5)
    made.turns(0, 4)
    made.shut_down(0, 5.0)
    made.add(0, "b", wave=0)
    made.call(0, "is_sleeping", call_id=8)
    made.settle()
    assert made.ended == [True]
    ends = {
        row.request_id: row.finish
        for rows in made.outputs(0, Rows)
        for row in rows.rows
        if row.finish
    }
    assert ends == {"a": "length", "b": "abort"}
    (reply,) = [o for _c, o in made.sent[0] if getattr(o, "call_id", None) == 8]
    assert reply.failure is not None


def test_rows_of_one_step_go_to_the_client_of_each_request(ranks):
    made = ranks("0.33.0")
    made.add(0, "a", 0, tokens=1, client=0)
    made.add(0, "b", 0, tokens=1, client=1)
    made.settle()
    sent = [(client, out) for client, out in made.sent[0] if isinstance(out, Rows)]
    assert [(client, [row.request_id for row in out.rows]) for client, out in sent] == [
        (0, ["a"]),
        (1, ["b"]),
    ]


def test_barrier_is_answered_once_all_have_come(ranks):
    made = ranks("0.33.0", 2)
    made.call(0, "barrier")
    made.settle()
    assert made.outputs(0, Reply) == []
    made.call(1, "barrier")
    made.settle()
    assert [made.entered[n][-1] for n in range(2)] == ["barrier"] * 2
    assert [made.outputs(n, Reply) for n in range(2)] == [[Reply(1)]] * 2
