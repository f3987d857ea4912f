"""lockstep.waves-agree compares the ranks that meet in an exchange."""

from __future__ import annotations

import pytest

from harness.invariants.lockstep_waves_agree import WavesAgree
from tests.support.lockstep import JOINED, exchange, verdict
from tests.support.traces import held, unexercised, violated


def test_ranks_in_one_step_of_one_wave_hold():
    found = verdict(WavesAgree, *JOINED, exchange(), exchange((0, 0, 16), (1, 0, 16)), black=True)
    assert held(found)
    assert found.exercised == 2


@pytest.mark.parametrize("place", [(1, 1, 1), (1, 0, 2)])
def test_rank_in_another_wave_or_step_is_violated(place):
    found = verdict(WavesAgree, *JOINED, exchange(), exchange((0, 0, 1), place), black=True)
    assert violated(found, 2, 3)
    assert found.expected == "all engines: wave 0, step 1"
    assert found.seen == f"engine 0: wave 0, step 1; engine 1: wave {place[1]}, step {place[2]}"


def test_first_exchange_is_its_own_witness():
    assert violated(verdict(WavesAgree, exchange((0, 0, 1), (1, 1, 1))), 0)


def test_rank_that_joined_again_ends_the_judgement():
    again = (*JOINED, JOINED[1])
    assert unexercised(verdict(WavesAgree, *again, exchange((0, 3, 1), (1, 0, 1))))
