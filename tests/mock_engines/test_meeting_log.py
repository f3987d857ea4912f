"""What a rank did since all met last, in words, and what lies in its mailbox."""

from __future__ import annotations

import pytest

from client.protocol.shown import NAME_CHARS_MAX
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
from mock_engines.meeting_log import KEPT, NAMED_MAX, MeetingLog, counted, named


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (AddInput(Work("a", 3, 0), 1), "ADD a"),
        (AbortInput(("a", "b")), "ABORT a b"),
        (StartInput(4, None), "START_DP_WAVE 4"),
        (CallInput(0, 7, "sleep"), "UTILITY 7 sleep"),
        (ShutdownInput(0.0), "shutdown"),
    ],
)
def test_message_is_named_as_on_the_wire(message, words):
    assert named(message) == words


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (AddInput(Work("a b", 3, 0), 1), "ADD 'a b'"),
        (CallInput(0, 7, "sleep\n  1  forged"), r"UTILITY 7 'sleep\n  1  forged'"),
        (CallInput(0, 7, ""), "UTILITY 7 ''"),
        (AbortInput(("\x1b[2J", "b")), r"ABORT '\x1b[2J' b"),
    ],
)
def test_name_that_is_no_word_is_quoted(message, words):
    assert named(message) == words


def test_names_of_any_length_and_number_make_a_short_line():
    long = "a" * 250_000 + "\n" + "z" * 250_000
    half = NAME_CHARS_MAX // 2
    assert named(CallInput(0, 7, long)) == f"UTILITY 7 {'a' * half}…{'z' * half}"
    ids = tuple(f"r{number}" for number in range(10_000))
    assert named(AbortInput(ids)) == f"ABORT r0 r1 r2 r3 and {10_000 - NAMED_MAX} more"


def log_of(*entries):
    log = MeetingLog()
    for entry in entries:
        if isinstance(entry, Enter):
            log.enter(entry)
        else:
            log.take(entry)
    return log


def test_forward_pass_and_dummy_are_told_apart_though_they_meet():
    assert DUMMY == FORWARD
    log = log_of(FORWARD, DUMMY, DUMMY, Enter("host", "sync"))
    assert log.did() == ("forward", "2 dummy", "sync")


def test_operations_are_counted_by_kind_and_messages_stand_behind_them_in_order():
    start = StartInput(1, 0)
    log = log_of(start, DUMMY, AbortInput(("a",)), Enter("host", "sync"), DUMMY, start, start)
    assert log.did() == (
        "2 dummy",
        "sync",
        "took START_DP_WAVE 1",
        "took ABORT a",
        "2 took START_DP_WAVE 1",
    )


def test_equal_neighbours_are_counted_and_others_are_not():
    assert counted([]) == ()
    assert counted(["a", "a", "b", "a"]) == ("2 a", "b", "a")


def test_operations_outlive_any_number_of_messages_and_those_dropped_are_counted():
    log = log_of(StartInput(1, 0), FORWARD, *[AbortInput(("a",))] * KEPT)
    assert log.did() == ("forward", f"{KEPT} took ABORT a")
    assert log.dropped == 1
    assert log_of(*[AbortInput(("a",))] * KEPT).dropped == 0


def test_log_does_not_grow_with_operations_that_it_counts():
    log = log_of(*[FORWARD, Enter("device", "draft")] * KEPT * 2)
    assert log.did() == (f"{2 * KEPT} forward", f"{2 * KEPT} draft")
    assert (log.dropped, len(log.taken)) == (0, 0)
