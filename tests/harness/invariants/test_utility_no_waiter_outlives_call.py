"""utility.no-waiter-outlives-call, on hand-written traces."""

from client.events import (
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from harness.invariants.utility_no_waiter_outlives_call import NoWaiterOutlivesCall
from harness.trace.events import Fenced, LogLine, ScaleEnded, ScaleStarted, Snapshot
from tests.support.traces import (
    END,
    held,
    judge,
    leave,
    reply,
    result,
    seen,
    unexercised,
    utility,
    utility_cancelled,
    utility_failed,
    violated,
    warning,
)

CLS = NoWaiterOutlivesCall


def registered(call_id: int, engine: int) -> UtilityRegistered:
    return UtilityRegistered(call_id, engine, "is_sleeping")


def settled(call_id: int, engine: int) -> UtilitySettled:
    return UtilitySettled(call_id, engine, "is_sleeping", None)


def snapshot(*pending: int) -> Snapshot:
    return Snapshot("step", (), pending, (), None, None)


BEGUN = (utility("u"), registered(1, 0), registered(2, 1))
LEFT = (leave("u"), utility_cancelled("u"))


def test_waiters_that_settle_or_are_released_hold():
    assert held(judge(CLS, *BEGUN, settled(1, 0), settled(2, 1), result("u"), snapshot(), *END))
    trace = (*BEGUN, leave("u"), UtilityReleased(1), UtilityReleased(2), utility_cancelled("u"))
    assert held(judge(CLS, *trace, *END))


def test_a_waiter_left_by_a_cancelled_call_is_violated():
    trace = (*BEGUN, leave("u"), UtilityReleased(1), utility_cancelled("u"))
    verdict = judge(CLS, *trace, *END)
    assert violated(verdict, 2, 5)
    assert verdict.seen == "waiters of call ids [2]"


def test_a_waiter_that_only_the_snapshot_shows_is_violated():
    released = (leave("u"), UtilityReleased(1), UtilityReleased(2), utility_cancelled("u"))
    assert violated(judge(CLS, *BEGUN, *released, snapshot(2), *END), 6, 7)
    unreported = (utility("u"), utility_cancelled("u"), snapshot(2))
    assert violated(judge(CLS, *unreported, *END), 2)


def test_waiters_of_an_open_call_are_no_leak():
    assert unexercised(judge(CLS, *BEGUN, snapshot(1, 2), *END))


def test_concurrent_calls_of_one_method_are_counted_together():
    begun = (utility("u"), utility("v"), registered(1, 0), registered(2, 1))
    both = (*begun, registered(3, 0), registered(4, 1))
    # Whichever of the two calls the ids belong to: two are left, and one call is open.
    released = (UtilityReleased(3), UtilityReleased(4))
    assert held(judge(CLS, *both, leave("u"), *released, utility_cancelled("u"), *END))
    assert violated(judge(CLS, *both, leave("u"), utility_cancelled("u"), *END), 2, 3, 4, 5, 7)


SEEN = (utility("u"), seen(0, 1), seen(1, 2))


def test_late_replies_that_are_warned_of_hold_black_box():
    late = (Fenced("step"), reply(0, 1), reply(1, 2))
    trace = (*SEEN, *LEFT, *late, *END, warning(1), warning(2))
    assert held(judge(CLS, *trace, black=True))


def test_late_replies_that_are_swallowed_are_violated_black_box():
    late = (Fenced("step"), reply(0, 1), reply(1, 2))
    verdict = judge(CLS, *SEEN, *LEFT, *late, *END, warning(1), black=True)
    assert violated(verdict, 4, 7)
    assert verdict.expected == "a warning about the unexpected reply to call id 2"


def test_a_late_reply_to_a_failed_call_that_is_swallowed_is_violated_black_box():
    trace = (*SEEN, reply(0, 1, failure="no"), utility_failed("u"), reply(1, 2), *END)
    assert violated(judge(CLS, *trace, black=True), 4, 5)


def test_a_reply_that_races_with_the_hang_up_is_not_judged_black_box():
    trace = (*SEEN, *LEFT, reply(0, 1), reply(1, 2), *END)
    assert unexercised(judge(CLS, *trace, black=True))


def test_no_utility_call_is_not_judged():
    assert unexercised(judge(CLS, *END))


def test_a_waiter_that_went_with_a_reply_which_was_dropped_holds():
    left = (leave("u"), UtilityReplyDropped(1), UtilityReleased(2), utility_cancelled("u"))
    assert held(judge(CLS, *BEGUN, reply(0, 1), *left, *END))
    silent = (leave("u"), UtilityReleased(2), utility_cancelled("u"))
    assert violated(judge(CLS, *BEGUN, reply(0, 1), *silent, *END), 1, 6)


def test_calls_of_a_change_of_the_number_of_engines_are_nobodys():
    over = (*BEGUN, settled(1, 0), settled(2, 1), result("u"))
    change = (ScaleStarted("grow", 3), snapshot(9))
    assert held(judge(CLS, *over, *change, ScaleEnded("grow", 3, "finished", None, ""), *END))
    assert violated(judge(CLS, *over, snapshot(9), *END), 6)


def test_late_reply_that_is_said_twice_is_judged_once():
    begun = (utility("u"), seen(0, 1), seen(1, 2), reply(0, 1, failure="no"), utility_failed("u"))
    late = (reply(1, 2), reply(1, 2))
    verdict = judge(CLS, *begun, *late, *END, warning(2), black=True)
    assert held(verdict)
    assert verdict.exercised == 1


def test_warnings_that_name_no_call_are_counted():
    begun = (utility("u"), seen(0, 1), seen(1, 2), reply(0, 1, failure="no"), utility_failed("u"))
    nameless = LogLine("WARN", "utility-dropped", (), "text")
    assert held(judge(CLS, *begun, reply(1, 2), *END, nameless, black=True))
    again = (*begun, utility("v"), seen(0, 3), seen(1, 4), reply(0, 3, failure="no"))
    both = (*again, utility_failed("v"), reply(1, 2), reply(1, 4), *END)
    assert held(judge(CLS, *both, nameless, nameless, black=True))
    verdict = judge(CLS, *both, nameless, black=True)
    assert verdict.verdict == "violated"
    assert verdict.seen == "1 such warnings for 2 late replies"
