"""routing.unconnected-rank-refused, on hand-written traces."""

from client.events import EnginesChanged
from harness.invariants.routing_unconnected_rank_refused import UnconnectedRankRefused
from tests.support.traces import (
    END,
    add,
    call,
    cancelled,
    done,
    failed,
    held,
    judge,
    unexercised,
    violated,
)

CLS = UnconnectedRankRefused


def test_a_refusal_that_names_its_reason_holds():
    trace = (call("a", rank=7), failed("a", "InvalidDataParallelRank"), *END)
    assert held(judge(CLS, *trace))


def test_a_refusal_by_status_alone_holds_black_box():
    assert held(judge(CLS, call("a", rank=7), failed("a", "HttpError"), *END, black=True))


def test_another_error_is_violated():
    verdict = judge(CLS, call("a", rank=7), failed("a", "Transport"), *END)
    assert violated(verdict, 0, 1)
    assert verdict.expected == "failed with InvalidDataParallelRank (connected ranks: [0, 1])"
    assert verdict.seen == "failed with Transport"


def test_success_is_violated_black_box():
    assert violated(judge(CLS, call("a", rank=7), done("a"), *END, black=True), 0, 1)


def test_a_request_that_reached_an_engine_is_judged_elsewhere():
    assert unexercised(judge(CLS, call("a", rank=7), add(0, "a"), done("a"), *END))


def test_connected_ranks_and_cancelled_calls_are_not_judged():
    assert unexercised(judge(CLS, call("a", rank=1), done("a"), *END))
    assert unexercised(judge(CLS, call("a", rank=7), cancelled("a"), *END))


def test_ranks_are_those_that_the_client_uses_while_the_call_is_open():
    grown, shrunk = EnginesChanged((0, 1, 2), (0, 1, 2)), EnginesChanged((0,), (0,))
    lost = (call("a", rank=1), failed("a", "Transport"))
    assert unexercised(judge(CLS, grown, call("a", rank=2), done("a"), *END))
    assert unexercised(judge(CLS, lost[0], shrunk, lost[1], *END))
    found = judge(CLS, shrunk, *lost, *END)
    assert violated(found, 1, 2)
    assert found.expected.endswith("(connected ranks: [0])")


def test_call_that_was_refused_as_a_duplicate_is_left_out():
    refused = failed("b", "DuplicateRequestId")
    both = (call("a", rank=0), call("b", external="a", rank=7))
    assert unexercised(judge(CLS, *both, refused, *END))
    # Without another call of its id the refusal has another reason than that.
    assert violated(judge(CLS, call("b", rank=7), refused, *END), 0, 1)
