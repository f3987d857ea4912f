"""A fence of a frontend in its own process waits for the ends of requests that nobody wants."""

from __future__ import annotations

import asyncio

import pytest

from client.aio import all_done
from harness.abandoned import PATIENCE_S, Abandoned
from harness.trace.events import ProcessExited
from harness.trace.recorder import Recorder
from mock_engines.events import EngineDied
from tests.support.stories import sim
from tests.support.traces import abort, add, call, cancelled, done, failed, leave, out

LEFT = (call("a"), add(0, "a"), leave("a"))


def waited_for(before, after=(), live=(0, 1)):
    """Seconds that it waits; ``after`` happens 0.1 s after each other."""
    found = []

    async def main():
        loop = asyncio.get_running_loop()
        trace = Recorder()
        abandoned = Abandoned(trace)
        for event in before:
            trace.emit(event)
        for number, event in enumerate(after):
            loop.call_later(0.1 * (number + 1), trace.emit, event)
        since = loop.time()
        await abandoned.over(lambda rank: rank in live)
        found.append(round(loop.time() - since, 3))
        await abandoned.over(lambda rank: rank in live)
        found.append(round(loop.time() - since, 3))

    sim()._loop.run(main())
    assert found[0] == found[1], "nothing is waited for twice"
    return found[0]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(abort(0, "a"), id="abort"),
        pytest.param(out(0, "a", finish="stop"), id="finish"),
        pytest.param(EngineDied(0, "vanish"), id="engine-died"),
        pytest.param(ProcessExited(0), id="frontend-ended"),
    ],
)
def test_it_waits_until_the_request_of_a_caller_who_left_has_ended(end):
    assert waited_for(LEFT, [abort(1, "a"), end]) == 0.2


@pytest.mark.parametrize("end", [cancelled("a"), done("a"), failed("a")])
def test_whatever_ended_the_call_nobody_waits_any_more(end):
    assert waited_for([call("a"), add(0, "a"), end], [abort(0, "a")]) == 0.1


def test_each_of_several_requests_is_waited_for():
    others = (call("b"), add(1, "b"), leave("b"))
    assert waited_for([*LEFT, *others], [abort(0, "a"), abort(1, "b")]) == 0.2


def test_who_never_ends_it_is_given_up():
    assert waited_for(LEFT) == PATIENCE_S


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([], id="nothing"),
        pytest.param([call("a"), add(0, "a")], id="a-caller-waits"),
        pytest.param([add(0, "a")], id="nobodys"),
        pytest.param([*LEFT, abort(0, "a")], id="ended-already"),
        pytest.param([*LEFT, call("b", external="a")], id="one-of-two-waits"),
        pytest.param([*LEFT, EngineDied(1, "sentinel")], id="the-frontend-fails"),
        pytest.param([*LEFT, ProcessExited(0)], id="the-frontend-is-gone"),
    ],
)
def test_it_does_not_wait_for_what_will_not_or_need_not_come(before):
    assert waited_for(before) == 0


def test_an_engine_that_cannot_answer_is_left_out():
    assert waited_for(LEFT, live=(1,)) == 0


def test_it_can_be_given_up_from_outside():
    async def main():
        trace = Recorder()
        abandoned = Abandoned(trace)
        for event in LEFT:
            trace.emit(event)
        task = asyncio.get_running_loop().create_task(abandoned.over(lambda _rank: True))
        moment = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(moment.set_result, None)
        await moment
        task.cancel()
        await all_done([task])
        trace.emit(abort(0, "a"))

    sim()._loop.run(main())
