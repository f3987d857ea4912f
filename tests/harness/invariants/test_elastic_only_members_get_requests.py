"""elastic.only-members-get-requests follows engines that come and go."""

from __future__ import annotations

import pytest

from harness.invariants.elastic_only_members_get_requests import OnlyMembersGetRequests
from mock_engines.events import EngineJoined, EngineRemoved, GroupSwitched, UtilitySeen
from tests.support.traces import END, add, held, judge, unexercised, violated

JOINED = (EngineJoined(0, b"\0\0", True), EngineJoined(1, b"\1\0", True))
COMES = EngineJoined(2, b"\2\0", True)
GROWN = GroupSwitched(2, (0, 1), (0, 1, 2), False, 1, 0)
SHRUNK = GroupSwitched(1, (0, 1), (0,), False, 1, 0)


def utility(engine: int, method: str, args: str = "[]") -> UtilitySeen:
    return UtilitySeen(engine, 1, method, args, 0)


def told(engine: int, rank: int) -> UtilitySeen:
    args = f"[{{'new_data_parallel_rank': {rank}, 'new_data_parallel_size': 1}}]"
    return utility(engine, "reinitialize_distributed", args)


RESUMED = utility(2, "resume_scheduler")


def verdict(*events, **parts):
    return judge(OnlyMembersGetRequests, *JOINED, *events, *END, **parts)


@pytest.mark.parametrize("black", [False, True])
def test_new_engine_that_was_resumed_gets_requests(black):
    assert held(verdict(COMES, GROWN, RESUMED, add(2, "a"), black=black))


@pytest.mark.parametrize("before", [(COMES,), (COMES, GROWN), (COMES, RESUMED)])
def test_request_at_a_new_engine_before_its_resume_is_violated(before):
    found = verdict(*before, add(2, "a"), black=True)
    assert violated(found, 2, 2 + len(before))
    assert found.seen.startswith("ADD of a")


def test_request_at_an_engine_that_was_told_to_leave_is_violated():
    assert violated(verdict(told(1, -2), add(1, "a")), 2, 3)


def test_engine_that_keeps_its_rank_still_gets_requests():
    gone = (told(0, -1), told(1, -2), SHRUNK, EngineRemoved(1))
    assert held(verdict(add(1, "b"), *gone, add(0, "a")))


def test_engine_that_returns_is_new_again():
    gone = (told(1, -2), SHRUNK, EngineRemoved(1), EngineJoined(1, b"\1\0", True))
    assert violated(verdict(*gone, add(1, "a")), 5, 6)


@pytest.mark.parametrize("args", ["[]", "[1]", "['x'", "[{'size': 2}]"])
def test_odd_arguments_tell_nobody_to_leave(args):
    seen = utility(1, "reinitialize_distributed", args)
    assert unexercised(verdict(seen, add(1, "a")))


def test_without_a_change_there_is_nothing_to_judge():
    assert unexercised(verdict(add(1, "a")))
