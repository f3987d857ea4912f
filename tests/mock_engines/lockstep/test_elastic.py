"""A rank's part in a change of the group's size, and the meeting in which it happens."""

from __future__ import annotations

import pytest

from client.protocol.profiles import profile_for
from mock_engines.lockstep.collectives import Change, Collectives
from mock_engines.lockstep.effects import Block, CallInput, Changed, Enter, Poll, Reply, Send
from mock_engines.lockstep.elastic import COMMIT_METHOD, PREPARE_METHOD, Elastic, ElasticError
from mock_engines.lockstep.rank import Rank
from mock_engines.lockstep.rules import rules_of

NOTHING = Change(False, 0, 0)


def request(size, rank=-1):
    return {"new_data_parallel_size": size, "new_data_parallel_rank": rank}


def make(rank=0, release="0.33.0", **parts):
    return Rank(rank, rules_of(profile_for(release)), **parts)


def drive(rank, *calls):
    """Play the loop until it waits in a meeting, or for input that is not there; what it did."""
    queue = [CallInput(0, n, *call) for n, call in enumerate(calls)]
    loop, answer, done = rank.loop(), None, []
    while True:
        effect = loop.send(answer)
        answer = None
        if isinstance(effect, Block | Poll):
            if not queue and isinstance(effect, Block):
                return loop, done
            answer = queue.pop(0) if queue else None
            continue
        done.append(effect)
        if isinstance(effect, Enter):
            return loop, done


def test_rank_that_stays_waits_for_the_word_to_go_on_and_then_brings_what_it_has():
    rank = make()
    rank.wave = 4
    _loop, done = drive(rank, (PREPARE_METHOD, (request(3),)), (COMMIT_METHOD, ()))
    meeting = Enter("switch", "switch to 3 ranks", Change(False, 4, 0))
    assert done == [Send(0, Reply(0, "eep_ready/0")), Send(0, Reply(1)), meeting]


def test_rank_that_leaves_meets_at_once_and_its_loop_ends():
    rank = make(1)
    rank.wave = 4
    loop, done = drive(rank, (PREPARE_METHOD, (request(1, -2),)))
    assert done[-1] == Enter("switch", "switch to 1 ranks", NOTHING)
    assert loop.send(Change(False, 4, 0)) == Send(0, Changed("SHUTDOWN_COMPLETE"))
    with pytest.raises(StopIteration):
        loop.send(None)
    assert rank.left


def test_new_rank_is_at_the_meeting_from_the_start_and_takes_its_peers_state_over():
    rank = make(2, joins=3)
    assert rank.ignores_starts
    loop, done = drive(rank)
    assert done == [Enter("switch", "switch to 3 ranks", NOTHING)]
    assert isinstance(loop.send(Change(False, 7, 0)), Block)
    assert (rank.running, rank.wave, rank.step_count) == (False, 7, 0)
    assert rank.ignores_starts


def test_first_rank_tells_its_frontend_that_all_have_changed_over():
    rank = make()
    loop, _done = drive(rank, (PREPARE_METHOD, (request(2),)), (COMMIT_METHOD, ()))
    assert loop.send(NOTHING) == Send(0, Changed("RECONFIGURE_FINISHED"))


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ([(COMMIT_METHOD, ())], "no change of the group is prepared"),
        (
            [(PREPARE_METHOD, (request(2),)), (PREPARE_METHOD, (request(3),))],
            "a change of the group is under way already",
        ),
        ([(PREPARE_METHOD, ())], "reinitialize_distributed needs a mapping with the new size"),
    ],
)
def test_call_out_of_turn_fails(calls, text):
    _loop, done = drive(make(), *calls)
    assert done[-1].output.failure.endswith(f"failed: {text}")


def test_release_before_two_stages_does_not_know_the_methods():
    _loop, done = drive(make(release="0.26.0"), (PREPARE_METHOD, (request(2),)))
    assert "no utility method" in done[-1].output.failure


def test_word_to_go_on_counts_once():
    elastic = Elastic(0)
    elastic.answer(PREPARE_METHOD, (request(2),))
    elastic.answer(COMMIT_METHOD, ())
    with pytest.raises(ElasticError):
        elastic.answer(COMMIT_METHOD, ())


def test_members_of_either_group_meet_and_then_the_next_group_is_the_group():
    group = Collectives([0, 1])
    group.change_to(3)
    kind = "switch to 3 ranks"
    assert group.enter(2, "switch", kind, NOTHING) == {}
    assert group.members == (0, 1)
    assert group.everybody == (0, 1, 2)
    assert group.enter(0, "switch", kind, Change(False, 5, 0)) == {}
    assert group.stuck()[0].missing == (1,)
    agreed = Change(True, 5, 3)
    assert group.enter(1, "switch", kind, Change(True, 4, 3)) == dict.fromkeys((0, 1, 2), agreed)
    assert group.members == group.everybody == (0, 1, 2)


def test_who_leaves_is_needed_in_the_meeting_and_not_after_it():
    group = Collectives([0, 1, 2])
    group.change_to(1)
    for rank in (2, 0, 1):
        results = group.enter(rank, "switch", "switch to 1 ranks", NOTHING)
    assert sorted(results) == [0, 1, 2]
    assert group.enter(0, "host", "resume", False) == {0: False}


def test_ranks_that_were_told_different_sizes_never_meet():
    group = Collectives([0, 1])
    group.change_to(3)
    for rank, kind in (
        (0, "switch to 3 ranks"),
        (1, "switch to 4 ranks"),
        (2, "switch to 3 ranks"),
    ):
        assert group.enter(rank, "switch", kind, NOTHING) == {}
    assert group.crossed
    assert group.stuck()[0].mismatch


def test_old_group_goes_on_while_a_new_rank_waits():
    group = Collectives([0, 1])
    group.change_to(3)
    group.enter(2, "switch", "switch to 3 ranks", NOTHING)
    group.enter(0, "device", "forward")
    assert sorted(group.enter(1, "device", "forward")) == [0, 1]
