"""utility.aggregation, on hand-written traces."""

import pytest

from harness.invariants.utility_aggregation import Aggregation
from harness.trace.events import UtilityEnded
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

CLS = Aggregation


def answered(method: str, first: str, second: str, via: str = "method") -> tuple[object, ...]:
    return (
        utility("u", method, via),
        seen(0, 1, method),
        seen(1, 2, method),
        reply(0, 1, first, method=method),
        reply(1, 2, second, method=method),
    )


def inconsistent(method: str = "is_sleeping") -> UtilityEnded:
    return utility_failed("u", "InconsistentUtilityResults", method=method)


@pytest.mark.parametrize("black", [False, True])
def test_agreeing_engines_give_their_value(black: bool):
    trace = (*answered("is_sleeping", "True", "True"), result("u", "True"), *END)
    assert held(judge(CLS, *trace, black=black))


def test_disagreeing_engines_give_an_error():
    assert held(judge(CLS, *answered("is_sleeping", "True", "False"), inconsistent(), *END))


@pytest.mark.parametrize("black", [False, True])
@pytest.mark.parametrize("release", ["0.22.0", "0.33.0"])
def test_the_first_engine_s_value_for_all_is_violated(release: str, black: bool):
    trace = (*answered("is_sleeping", "True", "False"), result("u", "True"), *END)
    verdict = judge(CLS, *trace, release=release, black=black)
    assert violated(verdict, 3, 4, 5)
    assert verdict.expected == "InconsistentUtilityResults with [True, False]"
    assert verdict.seen == "finished with True"


def test_the_error_text_of_a_black_box_tells_disagreement():
    error = utility_failed("u", "HttpError", "inconsistent results across engines: [true, false]")
    assert held(judge(CLS, *answered("is_sleeping", "True", "False"), error, *END, black=True))


def test_an_error_although_engines_agree_is_violated():
    trace = (*answered("is_sleeping", "True", "True"), inconsistent(), *END)
    assert violated(judge(CLS, *trace), 3, 4, 5)


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [("True", "True", "True"), ("True", "False", "False"), ("False", "False", "False")],
)
def test_and_is_true_exactly_if_all_are(first: str, second: str, value: str):
    method = "reset_prefix_cache"
    trace = answered(method, first, second)
    assert held(judge(CLS, *trace, result("u", value, method), *END))
    other = "False" if value == "True" else "True"
    assert violated(judge(CLS, *trace, result("u", other, method), *END), 3, 4, 5)


def test_a_route_that_hides_its_value_is_taken_as_it_is():
    method = "reset_prefix_cache"
    trace = (*answered(method, "True", "False"), result("u", "None", method), *END)
    assert held(judge(CLS, *trace, release="0.25.0", black=True))
    assert violated(judge(CLS, *trace, release="0.25.0"), 3, 4, 5)


def test_an_adapter_route_may_turn_false_into_an_error():
    trace = (*answered("add_lora", "True", "False"), utility_failed("u", method="add_lora"), *END)
    assert held(judge(CLS, *trace, black=True))
    assert violated(judge(CLS, *trace), 3, 4, 5)


def test_success_although_an_engine_failed_is_violated():
    trace = (
        utility("u", "sleep"),
        seen(0, 1, "sleep"),
        seen(1, 2, "sleep"),
        reply(0, 1, "None", method="sleep"),
        reply(1, 2, "None", "no", method="sleep"),
        result("u", "None", "sleep"),
    )
    verdict = judge(CLS, *trace, *END, black=True)
    assert violated(verdict, 3, 4, 5)
    assert verdict.expected == "failure, as engine 1 failed"


def test_consensus_by_request_compares_any_value():
    trace = answered("m", "5", "5", "consensus")
    assert held(judge(CLS, *trace, result("u", "5", "m"), *END))
    trace = answered("m", "5", "6", "consensus")
    assert violated(judge(CLS, *trace, result("u", "5", "m"), *END), 3, 4, 5)
    wrong_type = utility_failed("u", "UtilityResultDecode", method="m")
    assert unexercised(judge(CLS, *trace, wrong_type, *END))


def test_replies_of_another_type_are_left_to_the_decoder():
    trace = (*answered("is_sleeping", "None", "True"), utility_failed("u", "UtilityResultDecode"))
    assert unexercised(judge(CLS, *trace, *END))


def test_calls_that_do_not_aggregate_are_not_judged():
    trace = (*answered("is_sleeping", "True", "False", "raw"), result("u", "[True, False]"))
    assert unexercised(judge(CLS, *trace, *END))
