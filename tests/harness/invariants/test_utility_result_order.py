"""utility.result-order, on hand-written traces."""

from harness.invariants.utility_result_order import ResultOrder
from tests.support.traces import (
    END,
    held,
    judge,
    reply,
    result,
    seen,
    unexercised,
    utility,
    violated,
)

CLS = ResultOrder


def raw(value: str, via: str = "raw", method: str = "m") -> tuple[object, ...]:
    return (
        utility("u", method, via),
        seen(0, 1, method),
        seen(1, 2, method),
        reply(1, 2, "[20]", method=method),
        reply(0, 1, "10", method=method),
        result("u", value, method),
        *END,
    )


def test_results_in_engine_order_hold():
    assert held(judge(CLS, *raw("[10, [20]]"), black=True))


def test_results_in_order_of_arrival_are_violated_black_box():
    verdict = judge(CLS, *raw("[[20], 10]"), black=True)
    assert violated(verdict, 3, 4, 5)
    assert verdict.expected == "[10, [20]] (engines [0, 1])"
    assert verdict.seen == "[[20], 10]"


def test_a_missing_result_is_violated():
    assert violated(judge(CLS, *raw("[10]")), 3, 4, 5)


def test_collective_rpc_is_flattened_in_engine_order():
    assert held(judge(CLS, *raw("[10, 20]", "method", "collective_rpc")))
    assert violated(judge(CLS, *raw("[20, 10]", "method", "collective_rpc")), 3, 4, 5)


def test_aggregated_calls_are_not_judged():
    assert unexercised(judge(CLS, *raw("True", "method")))
    # Nor is what all agree on, whatever the method.
    assert unexercised(judge(CLS, *raw("[10]", "consensus", "collective_rpc")))


def test_results_of_engines_that_are_not_there_yet_are_not_missed():
    later = {"later": 1, "coordinator": "external", "transport": "bootstrapped"}
    assert held(judge(CLS, *raw("[10, [20]]"), topology=later))
    assert violated(judge(CLS, *raw("[[20], 10]"), topology=later), 3, 4, 5)


def test_results_of_which_one_failed_or_that_are_no_list_are_not_judged():
    assert unexercised(judge(CLS, *raw("10")))
    broken = reply(0, 1, "None", "no", method="m")
    trace = raw("[10, [20]]")
    assert unexercised(judge(CLS, *trace[:4], broken, *trace[5:]))
