"""wave.first-request-marks-running, on hand-written traces."""

from client.events import FirstRequestHandled
from harness.invariants.wave_first_request_marks_running import FirstRequestMarksRunning
from tests.support.traces import END, add, call, held, judge, start, unexercised, violated, wave

OLD = "0.32.0"
CLS = FirstRequestMarksRunning


def handled(running_after: bool) -> FirstRequestHandled:
    return FirstRequestHandled(1, 0, 0, False, 0, running_after, 0, 1)


def test_a_running_flag_that_is_set_holds():
    assert held(judge(CLS, handled(True), *END, release=OLD))


def test_a_running_flag_that_stays_false_is_violated():
    verdict = judge(CLS, handled(False), *END, release=OLD)
    assert violated(verdict, 0)
    assert verdict.expected == "running == True after the first request"


def test_two_broadcasts_of_one_wave_are_violated_black_box():
    trace = (call("a"), add(1, "a"), wave(0, 0, 1), wave(0, 0, 1), *END)
    assert violated(judge(CLS, *trace, release=OLD, black=True), 2, 3)


def test_one_broadcast_of_a_wave_holds_black_box():
    trace = (call("a"), add(1, "a"), wave(0, 0, 1), wave(1, 0, 1), wave(0, 1, 1), *END)
    assert held(judge(CLS, *trace, release=OLD, black=True))


def test_an_engine_may_start_the_wave_too():
    trace = (call("a"), add(1, "a"), start(0, 0), wave(1, 0, 0), wave(1, 0, 1), *END)
    assert unexercised(judge(CLS, *trace, release=OLD, black=True))


def test_the_external_coordinator_may_leave_the_flag_to_the_engines():
    external = {"coordinator": "external", "transport": "bootstrapped"}
    assert unexercised(judge(CLS, handled(False), *END, release=OLD, topology=external))
    assert violated(judge(CLS, handled(False), *END, release="0.28.0", topology=external), 0)


def test_what_follows_a_rewind_is_not_judged_again():
    trace = (call("a"), add(1, "a"), wave(0, 2, 1), wave(0, 1, 1), wave(0, 1, 1), *END)
    assert unexercised(judge(CLS, *trace, release="0.24.0", black=True))


def test_no_first_request_is_not_judged():
    assert unexercised(judge(CLS, *END, release=OLD))
