"""lockstep.comes-to-rest looks at ranks that step for nobody."""

from __future__ import annotations

from harness.invariants.lockstep_comes_to_rest import ComesToRest
from harness.trace.events import Fenced, Healed, RunEnded
from mock_engines.events import EngineDied
from tests.support.lockstep import IDLE, JOINED, born, exchange, spin, verdict
from tests.support.traces import held, unexercised, violated

BEGIN = (*JOINED, *born())
IN_VAIN = exchange(goes_on=True)
END = (Fenced("end"), RunEnded(()))


def judge(*events, **parts):
    return verdict(ComesToRest, *BEGIN, *events, **parts)


def test_wave_that_ends_holds():
    found = judge(exchange(unfinished=(0,)), exchange(), Healed(), *IDLE, *END, black=True)
    assert held(found)
    assert found.exercised == 1


def test_ranks_that_spin_at_the_last_look_are_violated():
    found = judge(IN_VAIN, IN_VAIN, Healed(), *IDLE, spin(), *END, black=True)
    assert violated(found, 5, 9)
    assert "no exchange says so" in found.message
    assert found.seen == "engine 0: runs\nengine 1: runs"


def test_report_says_who_was_told_to_pause():
    found = judge(IN_VAIN, IN_VAIN, Healed(), *IDLE, spin(0), *END)
    assert found.message.endswith("engine 0 told to pause, engine 1 not")


def test_ranks_that_spun_at_an_earlier_look_hold():
    assert held(judge(IN_VAIN, *IDLE, spin(0), exchange(), Healed(), *IDLE, *END))


def test_ranks_that_never_rest_after_healing_are_violated():
    found = judge(IN_VAIN, Healed(), IN_VAIN, IN_VAIN, RunEnded(()))
    assert violated(found, 6, 7)


def test_work_that_goes_on_is_another_matter():
    busy = exchange(unfinished=(0,))
    assert unexercised(judge(Healed(), IN_VAIN, busy, busy, RunEnded(())))


def test_spin_that_no_look_followed_is_not_judged():
    found = judge(exchange(goes_on=False), *IDLE, spin(), RunEnded(()))
    assert found.verdict == "not_judged"
    assert "before it could be seen" in found.reason


def test_ranks_of_which_one_died_are_not_judged():
    gone = EngineDied(1, "close")
    assert unexercised(judge(gone, Healed(), IDLE[0], spin(), *END))
