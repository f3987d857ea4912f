"""utility.unique-call-ids, on hand-written traces."""

from client.events import UtilityRegistered
from harness.invariants.utility_unique_call_ids import UniqueCallIds
from mock_engines.events import UtilitySeen
from tests.support.traces import END, held, judge, seen, unexercised, violated

CLS = UniqueCallIds


def test_ids_that_differ_hold():
    assert held(judge(CLS, seen(0, 1), seen(1, 2), seen(0, 3), *END))


def test_an_id_at_two_engines_is_violated_black_box():
    verdict = judge(CLS, seen(0, 1), seen(1, 1), *END, black=True)
    assert violated(verdict, 0, 1)


def test_an_id_that_is_registered_twice_is_violated():
    twice = (UtilityRegistered(1, 0, "m"), UtilityRegistered(1, 1, "m"))
    assert violated(judge(CLS, *twice, *END), 0, 1)


def test_two_frontends_have_ids_of_their_own():
    other = UtilitySeen(0, 1, "m", "[]", 1)
    assert held(judge(CLS, seen(0, 1), other, *END))


def test_no_utility_is_not_judged():
    assert unexercised(judge(CLS, *END))
