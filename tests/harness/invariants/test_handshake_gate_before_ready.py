"""handshake.gate-before-ready, on hand-written traces."""

from harness.invariants.handshake_gate_before_ready import GateBeforeReady
from harness.trace.events import GateWasOpened
from mock_engines.events import EngineDied, EngineJoined, GateOpened
from tests.support.traces import END, held, judge, unexercised, violated

CLS = GateBeforeReady


def joined(engine: int, coordinator: bool = True) -> EngineJoined:
    return EngineJoined(engine, engine.to_bytes(2, "little"), coordinator)


def test_gates_before_joins_hold():
    trace = (GateOpened(0), GateOpened(1), joined(0), joined(1), *END)
    assert held(judge(CLS, *trace, black=True))


def test_a_join_without_a_gate_is_violated_black_box():
    trace = (GateOpened(0), joined(0), joined(1), *END)
    verdict = judge(CLS, *trace, black=True)
    assert violated(verdict, 2)
    assert verdict.seen == "no READY at engine 1"


def test_a_gate_that_opens_without_an_engine_is_violated():
    never = [{"engine": 1, "join": {"never": True}}]
    assert violated(judge(CLS, GateOpened(0), *END, engines=never), 0)


def test_a_gate_that_opens_before_an_engine_joins_is_violated():
    late = [{"engine": 1, "join": {"gate": "come"}}]
    assert violated(judge(CLS, GateOpened(0), GateWasOpened("come"), engines=late), 0)
    trace = (GateWasOpened("come"), GateOpened(0), GateOpened(1), joined(0), joined(1))
    assert held(judge(CLS, *trace, engines=late))


def test_an_engine_that_subscribes_twice_opens_the_gate_for_another():
    engines = [
        {"engine": 0, "join": {"subscribe_times": 2}},
        {"engine": 1, "join": {"never": True}},
    ]
    assert held(judge(CLS, GateOpened(0), joined(0), *END, engines=engines))


def test_an_engine_that_returns_or_goes_its_own_way_is_left_out():
    again = (GateOpened(0), joined(0), EngineDied(0, "close"), joined(0))
    assert held(judge(CLS, *again, *END))
    own_way = [{"engine": 0, "join": {"ready_before_gate": True}}]
    assert unexercised(judge(CLS, joined(0), *END, engines=own_way))


def test_engines_without_a_coordinator_are_not_judged():
    assert unexercised(judge(CLS, joined(0, coordinator=False), *END))
