"""utility.settles-before-return, on hand-written traces."""

from client.events import UtilityRegistered, UtilityReleased, UtilitySettled
from harness.invariants.utility_settles_before_return import SettlesBeforeReturn
from mock_engines.events import EngineDied, RawSent
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
)

CLS = SettlesBeforeReturn
SENT = (utility("u"), seen(0, 1), seen(1, 2))


def registered(call_id: int, engine: int) -> UtilityRegistered:
    return UtilityRegistered(call_id, engine, "is_sleeping")


def test_a_failure_that_waits_for_the_other_engine_holds():
    trace = (*SENT, reply(0, 1, failure="no"), reply(1, 2), utility_failed("u"), *END)
    assert held(judge(CLS, *trace, black=True))


def test_a_failure_that_does_not_wait_is_violated_black_box():
    trace = (*SENT, reply(0, 1, failure="no"), utility_failed("u"), reply(1, 2), *END)
    verdict = judge(CLS, *trace, black=True)
    assert violated(verdict, 2, 3, 4)
    assert verdict.expected == "replies of engines [0, 1] before the call ends"
    assert verdict.seen == "replies of engines [0] before the call ended"


def test_a_message_that_arrives_after_the_end_is_violated():
    trace = (utility("u"), seen(0, 1), reply(0, 1, failure="no"), utility_failed("u"), seen(1, 2))
    assert violated(judge(CLS, *trace, *END, black=True), 3, 4)


def test_an_engine_whose_waiter_never_settled_is_violated():
    trace = (
        utility("u"),
        registered(1, 0),
        registered(2, 1),
        UtilitySettled(1, 0, "is_sleeping", "UtilityCallFailed"),
        utility_failed("u"),
    )
    assert violated(judge(CLS, *trace, *END), 2, 4)


def test_an_engine_whose_reply_was_sent_and_not_taken_is_told_apart_from_one_that_works():
    trace = (
        *(utility("u"), registered(1, 0), registered(2, 1), seen(0, 1), seen(1, 2)),
        *(reply(0, 1, failure="no"), reply(1, 2, failure="no")),
        UtilitySettled(1, 0, "is_sleeping", "UtilityCallFailed"),
        utility_failed("u"),
    )
    found = judge(CLS, *trace, *END)
    assert violated(found, 2, 5, 6, 8)
    assert found.message.endswith("ended failed before the client took the reply of engine 1")
    assert found.seen == "replies of engines [0] taken; that of engine 1 was sent (event 6)"


def test_a_call_that_failed_in_preparation_holds():
    trace = (
        utility("u"),
        registered(1, 0),
        registered(2, 1),
        UtilityReleased(1),
        UtilityReleased(2),
        utility_failed("u", "Encode"),
    )
    assert held(judge(CLS, *trace, *END))


def test_an_engine_that_died_has_settled():
    trace = (*SENT, reply(0, 1, failure="no"), EngineDied(1, "close"), utility_failed("u"), *END)
    assert held(judge(CLS, *trace))


def test_cancelled_and_timed_out_calls_are_left_out():
    assert unexercised(judge(CLS, *SENT, leave("u"), utility_cancelled("u"), *END))
    timed_out = utility_failed("u", "UtilityCallTimeout")
    assert unexercised(judge(CLS, *SENT, timed_out, *END))


def test_a_frontend_that_may_have_failed_is_left_out():
    trace = (*SENT, RawSent(0, "main", ("00",)), utility_failed("u"), *END)
    assert unexercised(judge(CLS, *trace, black=True))


def test_concurrent_calls_of_one_method_are_told_apart_by_their_blocks_or_left_out():
    trace = (
        utility("u"),
        utility("v"),
        seen(0, 3),
        seen(0, 1),
        seen(1, 4),
        reply(0, 3, failure="no"),
        reply(1, 4),
        utility_failed("v"),
        *END,
    )
    assert unexercised(judge(CLS, *trace, black=True))


def test_a_later_call_of_the_method_is_told_apart_by_its_block():
    trace = (
        utility("u"),
        seen(0, 1),
        leave("u"),
        utility_cancelled("u"),
        utility("v"),
        seen(0, 3),
        seen(1, 2),
        seen(1, 4),
        reply(0, 3),
        reply(1, 4),
        result("v"),
        *END,
    )
    assert held(judge(CLS, *trace, black=True))


def test_one_engine_alone_is_not_judged():
    trace = (utility("u"), seen(0, 1), reply(0, 1), result("u"), *END)
    assert unexercised(judge(CLS, *trace, ranks=(0,)))


def test_an_engine_in_whose_place_another_one_replied_may_hear_of_the_call_late():
    answered = (reply(1, 2), reply(1, 1), result("u"))
    assert held(
        judge(CLS, utility("u"), *registered_both(), seen(1, 2), *answered, seen(0, 1), *END)
    )
    too_late = (reply(1, 2), result("u"), seen(0, 1), reply(1, 1))
    assert violated(judge(CLS, utility("u"), seen(1, 2), *too_late, *END, black=True), 3, 4)


def registered_both() -> tuple[object, ...]:
    settled = (UtilitySettled(1, 0, "is_sleeping", None), UtilitySettled(2, 1, "is_sleeping", None))
    return (registered(1, 0), registered(2, 1), *settled)


def test_an_end_of_no_call_and_a_second_end_are_not_judged():
    assert unexercised(judge(CLS, utility_failed("stranger"), *END))
    settled = (*SENT, reply(0, 1), reply(1, 2), result("u"))
    verdict = judge(CLS, *settled, utility_failed("u"), *END)
    assert held(verdict)
    assert verdict.exercised == 1
