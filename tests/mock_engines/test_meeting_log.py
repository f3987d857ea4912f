"""What a rank did since all met last, in words, and what lies in its mailbox."""

from __future__ import annotations

import pytest

from mock_engines.lockstep.effects import (
    DUMMY,
    FORWARD,
    AbortInput,
    AddInput,
    CallInput,
    Enter,
    ShutdownInput,
    StartInput,
)
from mock_engines.lockstep.scheduler import Work
from mock_engines.meeting_log import KEPT, MeetingLog, counted, did_of, named


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (AddInput(Work("a b", 3, 0), 1), "ADD a b"),
        (AbortInput(("a", "b")), "ABORT a b"),
        (StartInput(4, None), "START_DP_WAVE 4"),
        (CallInput(0, 7, "sleep"), "UTILITY 7 sleep"),
        (ShutdownInput(0.0), "shutdown"),
    ],
)
def test_message_is_named_as_on_the_wire(message, words):
    assert named(message) == words


def test_forward_pass_and_dummy_are_told_apart_though_they_meet():
    assert DUMMY == FORWARD
    assert did_of([FORWARD, DUMMY, DUMMY, Enter("host", "sync")]) == ("forward", "2 dummy", "sync")


def test_what_is_taken_stands_between_the_operations():
    start = StartInput(1, 0)
    assert did_of([start, DUMMY, start]) == (
        "took START_DP_WAVE 1",
        "dummy",
        "took START_DP_WAVE 1",
    )


def test_equal_neighbours_are_counted_and_others_are_not():
    assert counted([]) == ()
    assert counted(["a", "a", "b", "a"]) == ("2 a", "b", "a")


def test_log_keeps_the_latest_only():
    log = MeetingLog()
    log.extend([FORWARD] * KEPT)
    log.append(DUMMY)
    assert did_of(log) == (f"{KEPT - 1} forward", "dummy")
