"""routing.explicit-rank, on hand-written traces."""

import pytest

from harness.invariants.routing_explicit_rank import ExplicitRank
from tests.support.traces import END, add, call, failed, held, judge, unexercised, violated

CLS = ExplicitRank


def test_the_engine_that_was_asked_for_holds():
    assert held(judge(CLS, call("a", rank=1), add(1, "a"), *END, black=True))


def test_another_engine_is_violated_black_box():
    verdict = judge(CLS, call("a", rank=1), add(0, "a"), *END, black=True)
    assert violated(verdict, 0, 1)
    assert verdict.expected == "ADD at engine 1, or none"
    assert verdict.seen == "ADD at engine 0"


def test_a_rank_beyond_two_bytes_that_is_served_is_violated():
    assert violated(judge(CLS, call("a", rank=65536), add(0, "a"), *END), 0, 1)


def test_a_refused_rank_without_add_holds():
    trace = (call("a", rank=7), failed("a", "InvalidDataParallelRank"), *END)
    assert held(judge(CLS, *trace))


@pytest.mark.parametrize("text", [("1",), (" 1 ",), ("+1",), ("01",), ("1", "0")])
@pytest.mark.parametrize("surface", ["native", "http", "http-stream", "grpc", "grpc-stream"])
def test_a_text_that_is_a_number_counts_everywhere(surface: str, text: tuple[str, ...]):
    asked = call("a", text=text, surface=surface)
    assert held(judge(CLS, asked, add(1, "a"), *END, black=True))
    assert violated(judge(CLS, asked, add(0, "a"), *END, black=True), 0, 1)


@pytest.mark.parametrize("text", ["abc", "-1", "", "4294967296", "1_0", "١"])
def test_a_text_that_is_no_rank_is_ignored_by_http_and_refused_by_grpc(text: str):
    http = call("a", text=(text,), surface="http")
    assert unexercised(judge(CLS, http, add(0, "a"), *END, black=True))
    grpc = call("a", text=(text,), surface="grpc")
    assert violated(judge(CLS, grpc, add(0, "a"), *END, black=True), 0, 1)
    assert held(judge(CLS, grpc, failed("a", "InvalidArgument"), *END, black=True))


def test_calls_of_one_external_id_are_judged_together():
    both = (call("a", external="x", rank=0), call("b", external="x", rank=1))
    adds = (add(1, "x-00000001", external="x"), add(0, "x-00000002", external="x"))
    assert held(judge(CLS, *both, *adds, *END, ranks=(0, 1, 2)))
    stray = add(2, "x-00000001", external="x")
    assert violated(judge(CLS, *both, stray, *END, ranks=(0, 1, 2)), 0, 2)


def test_calls_without_a_rank_are_not_judged():
    assert unexercised(judge(CLS, call("a"), add(0, "a"), failed("a"), *END))
