"""lifecycle.shutdown-leaves-nothing, on hand-written traces."""

from client.events import ClientClosed, RequestRegistered, RequestReleased
from harness.invariants.lifecycle_shutdown_leaves_nothing import ShutdownLeavesNothing
from harness.trace.events import ClientReleased, Snapshot
from tests.support.traces import END, held, judge, unexercised, violated

CLS = ShutdownLeavesNothing
CLEAN = ClientClosed((), 0)


def snapshot(*in_flight: str) -> Snapshot:
    return Snapshot("end", in_flight, (), (), None, None)


def test_a_clean_shutdown_holds():
    assert held(judge(CLS, *END, CLEAN, snapshot()))


def test_a_task_or_socket_left_open_is_violated():
    verdict = judge(CLS, ClientClosed(("output-loop",), 0), *END)
    assert violated(verdict, 0)
    assert verdict.seen == "tasks ('output-loop',) and 0 sockets"
    assert violated(judge(CLS, ClientClosed((), 1), *END), 0)


def test_work_after_the_shutdown_is_violated():
    assert violated(judge(CLS, CLEAN, RequestRegistered("a", 0, None, 0)), 0, 1)
    assert violated(judge(CLS, CLEAN, snapshot("a")), 0, 1)


def test_a_client_that_is_not_shut_down_is_not_judged():
    assert unexercised(judge(CLS, RequestRegistered("a", 0, None, 0), snapshot("a"), *END))


def test_a_black_box_cannot_show_it():
    assert "target lacks" in judge(CLS, *END, black=True).reason


def test_a_request_that_is_forgotten_at_the_shutdown_is_violated():
    began = RequestRegistered("a", 0, None, 0)
    verdict = judge(CLS, began, CLEAN, *END)
    assert violated(verdict, 0, 1)
    assert verdict.seen == "in flight: a"
    released = RequestReleased("a", 0, "client-closed")
    assert held(judge(CLS, began, released, CLEAN, *END))


def test_client_that_something_keeps_alive_is_violated():
    verdict = judge(CLS, *END, CLEAN, ClientReleased(alive=True))
    assert violated(verdict, 4)
    assert verdict.seen == "the client is still alive"
    assert held(judge(CLS, *END, CLEAN, ClientReleased(alive=False)))
