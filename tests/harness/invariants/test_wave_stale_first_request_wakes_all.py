"""wave.stale-first-request-wakes-all, on hand-written traces."""

from client.events import FirstRequestHandled
from harness.invariants.wave_stale_first_request_wakes_all import StaleFirstRequestWakesAll
from tests.support.traces import END, add, call, held, judge, start, unexercised, violated, wave

OLD = "0.32.0"


def handled(
    request: int, broadcast: int | None, exclude: int | None, running: bool = False
) -> FirstRequestHandled:
    return FirstRequestHandled(2, request, 4, running, 4, True, broadcast, exclude)


def test_a_stale_request_that_wakes_all_holds():
    assert held(judge(StaleFirstRequestWakesAll, handled(3, 4, None), *END, release=OLD))


def test_a_stale_request_that_leaves_its_target_out_is_violated():
    verdict = judge(StaleFirstRequestWakesAll, handled(3, 4, 2), *END, release=OLD)
    assert violated(verdict, 0)
    assert verdict.expected == "broadcast of wave 4, excluding None"


def test_a_stale_request_that_starts_the_old_wave_is_violated():
    assert violated(judge(StaleFirstRequestWakesAll, handled(3, 3, None), release=OLD), 0)


def test_a_stale_request_without_broadcast_is_violated_unless_engines_run():
    assert violated(judge(StaleFirstRequestWakesAll, handled(3, None, None), release=OLD), 0)
    assert held(judge(StaleFirstRequestWakesAll, handled(3, None, None, running=True), release=OLD))


def test_an_excluded_engine_with_older_requests_only_is_violated_black_box():
    trace = (call("a"), add(1, "a", 3), wave(0, 4, 1), wave(1, 4, 1), *END)
    verdict = judge(StaleFirstRequestWakesAll, *trace, release=OLD, black=True)
    assert violated(verdict, 1, 2)


def test_a_broadcast_to_all_holds_black_box():
    trace = (call("a"), add(1, "a", 3), wave(0, 4), wave(1, 4), *END)
    assert held(judge(StaleFirstRequestWakesAll, *trace, release=OLD, black=True))


def test_a_broadcast_that_an_engine_asked_for_may_leave_it_out():
    trace = (call("a"), add(1, "a", 3), start(1, 4), wave(0, 4, 1), *END)
    assert unexercised(judge(StaleFirstRequestWakesAll, *trace, release=OLD, black=True))


def test_a_call_whose_add_never_arrived_leaves_the_wire_unjudged():
    trace = (call("a"), call("b"), add(1, "a", 3), wave(0, 4, 1), *END)
    assert unexercised(judge(StaleFirstRequestWakesAll, *trace, release=OLD, black=True))


def test_current_requests_alone_are_not_judged():
    assert unexercised(judge(StaleFirstRequestWakesAll, handled(4, 4, 2), *END, release=OLD))


def test_it_is_no_promise_of_a_release_without_first_requests():
    assert "no promise" in judge(StaleFirstRequestWakesAll, handled(3, 4, 2), *END).reason


def test_an_add_of_no_call_is_no_request_of_a_call_black_box():
    stranger = add(1, "stranger", 3)
    broadcast = (wave(0, 4, 1), wave(1, 4, 1), *END)
    trace = (call("a"), stranger, add(1, "a", 3), *broadcast)
    assert violated(judge(StaleFirstRequestWakesAll, *trace, release=OLD, black=True), 1, 3)
    # It does not stand for the ADD of a call that is still under way.
    trace = (call("a"), stranger, *broadcast)
    assert unexercised(judge(StaleFirstRequestWakesAll, *trace, release=OLD, black=True))
