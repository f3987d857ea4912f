"""request.no-registration-outlives-end, on hand-written traces."""

from client.events import HealthFailed, RequestRegistered, RequestReleased
from harness.invariants.request_no_registration_outlives_end import NoRegistrationOutlivesEnd
from harness.trace.events import Snapshot
from tests.support.traces import (
    END,
    call,
    cancelled,
    done,
    held,
    judge,
    leave,
    unexercised,
    violated,
)

CLS = NoRegistrationOutlivesEnd
BEGUN = (call("a"), RequestRegistered("a", 0, None, 0))


def snapshot(*in_flight: str) -> Snapshot:
    return Snapshot("end", in_flight, (), (), None, None)


def test_a_request_that_is_released_holds():
    trace = (*BEGUN, done("a"), RequestReleased("a", 0, "finished"), snapshot(), *END)
    assert held(judge(CLS, *trace))


def test_a_registration_left_by_a_cancelled_call_is_violated():
    verdict = judge(CLS, *BEGUN, leave("a"), cancelled("a"), *END)
    assert violated(verdict, 1, 3, 5)
    assert verdict.seen == "a in flight, says the client's events"


def test_a_registration_that_only_the_snapshot_shows_is_violated():
    trace = (*BEGUN, done("a"), RequestReleased("a", 0, "finished"), snapshot("a"), *END)
    verdict = judge(CLS, *trace)
    assert violated(verdict, 2, 4, 6)
    assert verdict.seen == "a in flight, says the snapshot"


def test_an_open_call_and_a_failed_frontend_are_left_out():
    assert held(judge(CLS, *BEGUN, snapshot("a"), *END))
    failed = HealthFailed("Decode", "", True)
    assert held(judge(CLS, *BEGUN, failed, cancelled("a"), *END))


def test_a_black_box_cannot_show_it():
    assert "target lacks" in judge(CLS, *END, black=True).reason


def test_no_registration_is_not_judged():
    assert unexercised(judge(CLS, *END))


def test_an_id_that_still_waits_for_its_abort_at_the_end_is_violated():
    taken = Snapshot("end", (), (), (), None, None, ("a",))
    released = RequestReleased("a", 0, "aborted")
    verdict = judge(CLS, *BEGUN, leave("a"), released, cancelled("a"), taken, *END)
    assert violated(verdict, 5, 7)
    assert verdict.seen == "a waits for its ABORT to leave, says the snapshot"
    early = Snapshot("step", (), (), (), None, None, ("a",))
    assert held(judge(CLS, *BEGUN, leave("a"), released, cancelled("a"), early, *END))
