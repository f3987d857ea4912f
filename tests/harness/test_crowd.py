"""Crowds of short-lived callers, in simulation."""

from __future__ import annotations

import pytest

from harness.targets.base import instant
from harness.targets.client_frontend import ClientFrontend
from harness.trace.events import CallEnded, CallStarted, CancelRequested
from harness.worlds import ZmqWorld
from mock_engines.events import AbortSeen, AddSeen
from tests.support.stories import of, perform

HANGS = "engines:\n  - rules: [{on: add, do: {hang: never}}]\nopen_at_end: [never]\n"


def crowd(leave: str, engines: str = "", callers: int = 5) -> str:
    return (
        f"{engines}steps:\n"
        f"  - crowd: {{id: c, callers: {callers}, at_once: 2, leave: {leave}, rank: 1}}\n"
    )


def outcomes_of(played) -> list[str]:
    return [event.outcome for event in of(played, CallEnded)]


def test_crowd_that_stays_reads_its_answers_and_no_more_than_at_once_are_open():
    played = perform(crowd("no"))
    assert outcomes_of(played) == ["finished"] * 5
    assert [event.op for event in of(played, CallStarted)] == [f"c-{n}" for n in range(5)]
    assert {event.engine for event in of(played, AddSeen)} == {1}
    open_now = most = 0
    for record in played.records:
        open_now += isinstance(record.event, CallStarted)
        open_now -= isinstance(record.event, CallEnded)
        most = max(most, open_now)
    assert most == 2


def test_crowd_that_leaves_after_its_add_is_aborted_once_each():
    played = perform(crowd("after-add", HANGS))
    assert outcomes_of(played) == ["cancelled"] * 5
    aborted = [name for event in of(played, AbortSeen) for name in event.request_ids]
    assert sorted(aborted) == [f"c-{n}" for n in range(5)]


def test_crowd_that_leaves_after_an_output_has_seen_one():
    engines = (
        "engines:\n  - rules: [{on: add, do: {stream: {tokens: 3, pause_at: 1, gate: never}}}]\n"
        "open_at_end: [never]\n"
    )
    played = perform(crowd("after-output", engines))
    assert outcomes_of(played) == ["cancelled"] * 5
    assert [event.how for event in of(played, CancelRequested)] == ["crowd"] * 5


def test_crowd_that_leaves_at_once_leaves_nothing_behind():
    played = perform(crowd("at-once", HANGS))
    assert outcomes_of(played) == ["cancelled"] * 5
    started = {event.request_id for event in of(played, AddSeen)}
    aborted = {name for event in of(played, AbortSeen) for name in event.request_ids}
    assert started <= aborted


def test_caller_whose_answer_came_first_has_not_left():
    played = perform(crowd("after-output", callers=3))
    assert len(outcomes_of(played)) == 3
    assert len(of(played, CancelRequested)) == outcomes_of(played).count("cancelled")


@pytest.mark.parametrize("name", ["c-0", "c-4"])
def test_single_callers_can_be_named_afterwards(name):
    story = crowd("no") + f"  - expect: {{op: {name}, outcome: finished, engine: 1}}\n"
    played = perform(story)
    assert [r.outcome.status for r in played.story.results] == ["held"]


def test_crowd_that_asks_for_its_abort_at_the_add_ends_aborted():
    played = perform(crowd("abort-after-add", HANGS))
    assert {event.finish for event in of(played, CallEnded)} == {"abort"}
    assert of(played, CancelRequested) == []
    aborted = [name for event in of(played, AbortSeen) for name in event.request_ids]
    assert sorted(aborted) == [f"c-{n}" for n in range(5)]


def test_caller_whose_abort_was_lost_hangs_up(monkeypatch):
    async def lost(_self, _ids):
        return None

    monkeypatch.setattr(ClientFrontend, "abort", lost)
    played = perform(crowd("abort-after-add", HANGS))
    assert outcomes_of(played) == ["cancelled"] * 5
    assert [event.how for event in of(played, CancelRequested)] == ["crowd"] * 5


def test_crowd_that_spreads_leaves_at_twelve_instants():
    assert sorted(instant(n, 0.012) for n in range(24)) == pytest.approx(
        sorted([n / 1000 for n in range(12)] * 2)
    )


def test_crowd_that_leaves_within_a_while_leaves_nothing_behind():
    played = perform(crowd("at-once, spread_ms: 2", HANGS, callers=24))
    assert outcomes_of(played) == ["cancelled"] * 24
    assert len(of(played, AddSeen)) == 24
    aborted = [name for event in of(played, AbortSeen) for name in event.request_ids]
    assert sorted(aborted) == sorted(f"c-{n}" for n in range(24))


def test_crowd_of_a_target_that_hurries_has_left_before_it_is_sent(monkeypatch):
    hurried = []

    async def hurry(_self, calls, at_once, spread_s):
        hurried.append(([call.id for call in calls], calls[0].rank, at_once, spread_s))

    monkeypatch.setattr(ClientFrontend, "hurries", lambda _self, _surface: True)
    monkeypatch.setattr(ClientFrontend, "hurry", hurry)
    played = perform(crowd("at-once, spread_ms: 2"))
    assert hurried == [([f"c-{n}" for n in range(5)], 1, 2, 0.002)]
    assert outcomes_of(played) == ["cancelled"] * 5
    assert [event.op for event in of(played, CancelRequested)] == [f"c-{n}" for n in range(5)]
    assert {op.outcome for op in played.story.ops.values()} == {"cancelled"}


class Line:
    """An abort line on which every second abort is lost."""

    def __init__(self, frontend):
        self.frontend, self.log, self.due = frontend, frontend.lines, []
        self.log.append("open")

    def send(self, request_ids):
        self.log.append(f"send {request_ids[0]}")
        self.due = request_ids if self.log.count("answered") % 2 == 0 else []

    async def answered(self):
        await self.frontend.abort(self.due)
        self.log.append("answered")

    def close(self):
        self.log.append("close")


def test_aborts_go_over_the_line_of_a_worker_one_after_the_other(monkeypatch):
    async def abort_line(self):
        return Line(self)

    lines = []
    monkeypatch.setattr(ClientFrontend, "lines", lines, raising=False)
    monkeypatch.setattr(ClientFrontend, "abort_line", abort_line)
    played = perform(crowd("abort-after-add", HANGS, callers=3).replace("at_once: 2", "at_once: 1"))
    assert [line for line in lines if line != "answered"] == [
        *("open", "send c-0", "send c-1", "send c-2", "close"),
    ]
    assert [(event.outcome, event.finish) for event in of(played, CallEnded)] == [
        *(("finished", "abort"), ("cancelled", None), ("finished", "abort")),
    ]


def test_crowd_that_does_not_abort_opens_no_line(monkeypatch):
    async def abort_line(_self):
        raise AssertionError

    monkeypatch.setattr(ClientFrontend, "abort_line", abort_line)
    assert outcomes_of(perform(crowd("after-add", HANGS))) == ["cancelled"] * 5


@pytest.mark.parametrize(("virtual", "callers"), [(True, 2), (False, 5)])
def test_crowd_may_be_smaller_where_the_order_is_chosen(virtual, callers):
    played = perform(
        crowd("no").replace("callers: 5", "callers: 5, simulated: 2"),
        world=None if virtual else ZmqWorld(),
    )
    assert outcomes_of(played) == ["finished"] * callers
