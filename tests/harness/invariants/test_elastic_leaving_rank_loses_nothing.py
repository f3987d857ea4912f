"""elastic.leaving-rank-loses-nothing looks at what an engine has when it is removed."""

from __future__ import annotations

import pytest

from harness.invariants.elastic_leaving_rank_loses_nothing import LeavingRankLosesNothing
from mock_engines.events import EngineDied, EngineRemoved, OutputSent
from tests.support.traces import END, add, held, judge, unexercised, violated


def verdict(*events, **parts):
    return judge(LeavingRankLosesNothing, *events, *END, **parts)


@pytest.mark.parametrize("black", [False, True])
def test_engine_whose_requests_have_ended_may_go(black):
    ended = (add(1, "a"), OutputSent(1, "a", (), "abort"))
    assert held(verdict(*ended, add(0, "b"), EngineRemoved(1), black=black))


def test_request_that_goes_with_its_engine_is_violated():
    found = verdict(add(1, "a"), OutputSent(1, "a", (7,), None), EngineRemoved(1))
    assert violated(found, 0, 2)
    assert found.seen == "1 without an end"


def test_engine_that_dies_is_judged_elsewhere():
    assert unexercised(verdict(add(1, "a"), EngineDied(1, "vanish"), black=True))
