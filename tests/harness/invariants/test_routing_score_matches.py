"""routing.score-matches, on hand-written traces."""

from client.events import EnginesChanged, RequestRegistered, RequestReleased
from harness.invariants.routing_score_matches import ScoreMatches
from harness.trace.events import Fenced
from mock_engines.events import StatsSent
from tests.support.traces import END, held, judge, unexercised, violated

CLS = ScoreMatches


def registered(request_id: str, engine: int, rank: int | None = None) -> RequestRegistered:
    return RequestRegistered(request_id, engine, rank, 0)


def stats(engine: int, running: int, waiting: int = 0) -> StatsSent:
    return StatsSent(engine, engine, running, waiting, "main")


def test_the_least_loaded_engine_holds():
    trace = (registered("a", 0), registered("b", 1), RequestReleased("a", 0, "finished"))
    assert held(judge(CLS, *trace, registered("c", 0), *END))


def test_a_busier_engine_is_violated():
    verdict = judge(CLS, registered("a", 0), registered("b", 0), *END)
    assert violated(verdict, 1)
    assert verdict.expected == "engine 1, score 0"
    assert verdict.seen == "engine 0, score 1"


def test_a_tie_goes_to_the_smallest_identity():
    assert violated(judge(CLS, registered("a", 1), *END), 0)
    assert held(judge(CLS, registered("a", 256), *END, ranks=(1, 256)))


def test_stats_behind_a_fence_count():
    trace = (stats(0, 2), Fenced("step"), registered("a", 1), registered("b", 1))
    assert held(judge(CLS, *trace, *END))
    assert violated(judge(CLS, stats(0, 2), Fenced("step"), registered("a", 0), *END), 2)


def test_stats_under_way_may_count_or_not():
    assert held(judge(CLS, stats(0, 2), registered("a", 1), *END))
    assert held(judge(CLS, stats(0, 2), registered("a", 0), *END))


def test_waiting_weighs_more_up_to_0_26():
    trace = (stats(0, 0, 1), stats(1, 3), Fenced("step"))
    assert held(judge(CLS, *trace, registered("a", 1), *END, release="0.26.0"))
    assert violated(judge(CLS, *trace, registered("a", 0), *END, release="0.26.0"), 3)
    assert held(judge(CLS, *trace, registered("a", 0), *END, release="0.27.0"))


def test_explicit_ranks_count_as_load_and_are_not_judged():
    trace = (registered("a", 0, 0), registered("b", 0, 0))
    assert unexercised(judge(CLS, *trace, *END))
    assert held(judge(CLS, *trace, registered("c", 1), *END))


def test_stats_of_an_unknown_index_move_no_score():
    stranger = StatsSent(0, 70000, 9, 9, "main")
    assert held(judge(CLS, stranger, Fenced("step"), registered("a", 0), *END))


def test_a_black_box_cannot_show_it():
    assert "target lacks" in judge(CLS, *END, black=True).reason


def test_engine_that_came_is_a_choice_once_it_is_used():
    came = EnginesChanged((0, 1, 2), (0, 1))
    used = EnginesChanged((0, 1, 2), (0, 1, 2))
    busy = (registered("a", 0), registered("b", 1))
    assert held(judge(CLS, *busy, came, registered("c", 0), *END))
    assert violated(judge(CLS, *busy, came, used, registered("c", 0), *END), 4)


def test_engine_that_left_is_no_choice_and_returns_without_load():
    left = (stats(1, 5), Fenced("step"), EnginesChanged((0,), (0,)), registered("a", 0))
    assert unexercised(judge(CLS, *left, *END))
    back = (EnginesChanged((0, 1), (0, 1)), registered("b", 1))
    assert held(judge(CLS, *left, *back, *END))


def test_request_at_an_engine_that_is_no_choice_moves_no_score():
    elsewhere = registered("x", 9)
    assert held(
        judge(CLS, elsewhere, RequestReleased("x", 9, "finished"), registered("a", 0), *END)
    )
    assert violated(judge(CLS, elsewhere, registered("a", 1), *END), 1)
