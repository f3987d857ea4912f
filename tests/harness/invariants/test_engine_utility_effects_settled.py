"""engine.utility-effects-settled, on hand-written traces."""

import pytest

from harness.invariants.engine_utility_effects_settled import UtilityEffectsSettled
from mock_engines.events import EngineDied, UtilityApplied
from tests.support.traces import (
    END,
    held,
    judge,
    reply,
    result,
    seen,
    unexercised,
    utility,
    utility_failed,
    violated,
)

CLS = UtilityEffectsSettled
HALF = (
    utility("u", "add_lora"),
    seen(0, 1, "add_lora"),
    seen(1, 2, "add_lora"),
    reply(0, 1, "None", "no", method="add_lora"),
    UtilityApplied(1, 2, "add_lora", "loras=[1], pinned=[]"),
    utility_failed("u", method="add_lora"),
)


def test_a_change_that_the_caller_undoes_holds():
    undo = (
        utility("v", "remove_lora"),
        seen(0, 3, "remove_lora"),
        seen(1, 4, "remove_lora"),
        UtilityApplied(1, 4, "remove_lora", "loras=[]"),
    )
    assert held(judge(CLS, *HALF, *undo, *END, black=True))


def test_engines_that_stay_apart_are_violated_black_box():
    verdict = judge(CLS, *HALF, *END, black=True)
    assert verdict.level == "should"
    assert violated(verdict, 4, 5)
    assert verdict.expected == "one value of loras at all engines"
    assert verdict.seen == "engine 0: None, engine 1: '[1]'"


def test_a_dead_engine_and_counters_of_resets_are_left_out():
    assert held(judge(CLS, *HALF, EngineDied(0, "close"), *END))
    counted = UtilityApplied(1, 2, "add_lora", "prefix_cache_resets=1")
    assert held(judge(CLS, *HALF[:4], counted, HALF[5], *END))


def test_calls_that_succeed_are_not_judged():
    assert unexercised(judge(CLS, *HALF[:5], result("u", method="add_lora"), *END))


@pytest.mark.parametrize("text", ["<half done", "1) + (2"])
def test_a_state_that_is_no_list_of_keys_is_compared_as_a_whole(text):
    whole = UtilityApplied(1, 2, "add_lora", text)
    verdict = judge(CLS, *HALF[:4], whole, HALF[5], *END, black=True)
    assert violated(verdict, 4, 5)
    assert verdict.seen == f"engine 0: None, engine 1: {text!r}"
    both = (UtilityApplied(0, 1, "add_lora", text), whole)
    assert held(judge(CLS, *HALF[:4], *both, HALF[5], *END, black=True))
