"""wave.current-first-request-excludes-holder, on hand-written traces."""

from client.events import FirstRequestHandled, FirstRequestQueued
from harness.invariants.wave_current_first_request_excludes_holder import (
    CurrentFirstRequestExcludesHolder,
)
from tests.support.traces import END, add, call, held, judge, unexercised, violated, wave

OLD = "0.32.0"
CLS = CurrentFirstRequestExcludesHolder


def handled(
    request: int, broadcast: int | None, exclude: int | None, running: bool = False
) -> FirstRequestHandled:
    return FirstRequestHandled(2, request, 4, running, 4, True, broadcast, exclude)


def test_a_current_request_that_leaves_out_its_engine_holds():
    assert held(judge(CLS, FirstRequestQueued(2, 4), handled(4, 4, 2), *END, release=OLD))


def test_a_newer_request_is_broadcast_with_the_current_wave():
    assert held(judge(CLS, handled(5, 4, 2), *END, release=OLD))
    assert violated(judge(CLS, handled(5, 5, 2), *END, release=OLD), 0)


def test_a_current_request_that_leaves_out_another_engine_is_violated():
    verdict = judge(CLS, FirstRequestQueued(2, 4), handled(4, 4, 1), *END, release=OLD)
    assert violated(verdict, 0, 1)
    assert verdict.expected == "broadcast of wave 4, excluding 2"
    assert verdict.seen == "broadcast of wave 4, excluding 1"


def test_a_current_request_that_wakes_all_is_violated():
    assert violated(judge(CLS, handled(4, 4, None), *END, release=OLD), 0)


def test_a_first_request_that_nobody_queued_is_violated():
    verdict = judge(CLS, FirstRequestQueued(1, 4), handled(4, 4, 2), *END, release=OLD)
    assert violated(verdict, 0, 1)


def test_running_engines_need_no_broadcast():
    assert held(judge(CLS, handled(4, None, None, running=True), *END, release=OLD))


def test_a_broadcast_to_all_without_an_older_request_is_violated_black_box():
    trace = (call("a"), add(1, "a", 4), wave(0, 4), *END)
    assert violated(judge(CLS, *trace, release=OLD, black=True), 1, 2)


def test_a_broadcast_that_leaves_an_engine_out_holds_black_box():
    trace = (call("a"), add(1, "a", 4), wave(0, 4, 1), *END)
    assert held(judge(CLS, *trace, release=OLD, black=True))


def test_stale_requests_alone_are_not_judged():
    assert unexercised(judge(CLS, handled(3, 4, None), *END, release=OLD))
