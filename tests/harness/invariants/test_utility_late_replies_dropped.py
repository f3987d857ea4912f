"""utility.late-replies-dropped, on hand-written traces."""

from client.events import HealthFailed, UtilityReplyDropped, UtilitySettled
from harness.invariants.utility_late_replies_dropped import LateRepliesDropped
from mock_engines.events import EngineDied
from tests.support.traces import END, held, judge, reply, unexercised, violated, warning

CLS = LateRepliesDropped


def settled(call_id: int, engine: int = 0) -> UtilitySettled:
    return UtilitySettled(call_id, engine, "is_sleeping", None)


def test_a_double_reply_that_is_dropped_holds():
    trace = (reply(0, 1), settled(1), reply(0, 1), UtilityReplyDropped(1), *END)
    assert held(judge(CLS, *trace))


def test_a_reply_to_an_unknown_id_that_is_dropped_holds():
    assert held(judge(CLS, reply(0, 99), UtilityReplyDropped(99), *END))


def test_a_double_reply_that_vanishes_is_violated():
    verdict = judge(CLS, reply(0, 1), settled(1), reply(0, 1), *END)
    assert violated(verdict, 0, 2)
    assert verdict.expected == "1 dropped replies"
    assert verdict.seen == "0 dropped replies"


def test_a_reply_to_a_released_call_that_vanishes_is_violated():
    assert violated(judge(CLS, reply(0, 1), *END), 0)


def test_a_call_id_that_settles_twice_is_violated():
    assert violated(judge(CLS, settled(1), settled(1), *END), 0, 1)


def test_the_warnings_of_a_black_box_are_counted():
    trace = (reply(0, 1), reply(0, 1), *END)
    assert held(judge(CLS, *trace, warning(1), black=True))
    assert violated(judge(CLS, *trace, black=True), 0, 1)


def test_notices_of_engines_and_failed_frontends_are_left_out():
    assert unexercised(judge(CLS, reply(0, -1), *END))
    assert unexercised(judge(CLS, HealthFailed("Decode", "", True), reply(0, 1), *END))


def test_replies_that_settle_are_not_judged():
    assert unexercised(judge(CLS, reply(0, 1), settled(1), *END))


def test_a_reply_to_a_call_whose_send_failed_must_be_dropped_too():
    unsent = UtilitySettled(1, 0, "is_sleeping", "Transport")
    assert violated(judge(CLS, unsent, reply(1, 1), *END), 1)
    assert held(judge(CLS, unsent, reply(1, 1), UtilityReplyDropped(1), *END))


def test_a_reply_that_settles_with_its_own_error_is_not_judged():
    for error in ("UtilityCallFailed", "UtilityResultDecode"):
        outcome = UtilitySettled(1, 0, "is_sleeping", error)
        assert unexercised(judge(CLS, reply(0, 1), outcome, *END))


def test_what_an_engine_that_died_said_twice_is_not_counted_on_a_black_box():
    said = (reply(0, 1), reply(0, 1), EngineDied(0, "vanish"), *END)
    assert unexercised(judge(CLS, *said, black=True))
