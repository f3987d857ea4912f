"""lockstep.wave-completes-once counts the reports of rank 0 against the exchanges."""

from __future__ import annotations

from harness.invariants.lockstep_wave_completes_once import WaveCompletesOnce
from mock_engines.events import EngineDied
from tests.support.lockstep import JOINED, REST, born, exchange, verdict
from tests.support.traces import complete, held, unexercised, violated

OVER = (*JOINED, *born(), exchange(goes_on=False))
"""Four events of two engines, and the exchange that ends wave 0 (event 4)."""
NEXT = exchange((0, 1, 1), (1, 1, 1), goes_on=False)


def judge(*events, **parts):
    return verdict(WaveCompletesOnce, *events, *REST, **parts)


def test_each_wave_that_rank_0_reports_once_holds():
    found = judge(*OVER, complete(0, 0), NEXT, complete(0, 1), black=True)
    assert held(found)
    assert found.exercised == 2


def test_report_of_another_rank_is_violated():
    assert violated(judge(*OVER, complete(1, 0), black=True), 4, 5)


def test_report_that_comes_twice_is_violated():
    found = judge(*OVER, complete(0, 0), complete(0, 0), black=True)
    assert violated(found, 5, 6)
    assert found.expected == "wave_complete > 0"


def test_report_of_an_older_wave_is_violated():
    assert violated(judge(*OVER, NEXT, complete(0, 1), complete(0, 0)), 6, 7)


def test_report_of_a_wave_that_no_exchange_ended_is_violated():
    goes_on = (*OVER[:4], exchange(unfinished=(0,)))
    assert violated(judge(*goes_on, complete(0, 0)), 4, 5)
    assert violated(judge(*OVER[:4], complete(0, 0)), 4)


def test_wave_that_nobody_reports_is_violated():
    found = judge(*OVER, black=True)
    assert violated(found, 4)
    assert found.seen == "no wave_complete 0"


def test_wave_whose_rank_0_died_before_its_report_is_not_judged():
    assert unexercised(judge(*OVER, EngineDied(0, "close")))


def test_ranks_without_rank_0_are_not_judged():
    assert unexercised(judge(*OVER, complete(1, 0), ranks=(1, 2)))


def test_rank_that_joined_again_ends_the_judgement():
    assert unexercised(judge(*OVER, JOINED[0], complete(0, 0), complete(0, 0)))
