"""The table of a deadlock report: what each rank did since all met last, taken and untaken."""

from __future__ import annotations

import pytest

from harness.invariants._deadlock_table import (
    ROWS_MAX,
    _arrivals,
    dropped,
    rows_of,
    table_of,
    untaken,
)
from harness.invariants._lockstep import GroupBook
from harness.invariants._wakes import KEPT, WakeBook
from harness.trace.events import Record
from mock_engines.events import AddSeen, UtilitySeen
from mock_engines.meeting_log import abort_named, call_named
from tests.harness.invariants.test_books import context
from tests.support.lockstep import exchange, spin, stuck
from tests.support.traces import abort, wave


def add(engine, request):
    return AddSeen(engine, request, None, 0, None, 0, (1,), "", ())


def utility(engine, call_id, method="sleep"):
    return UtilitySeen(engine, call_id, method, "[]", 0)


def told(*events, last, ranks=(0, 1)):
    """The table after these events, and the numbers of the messages that lie untaken."""
    group, wakes = GroupBook(context(ranks=ranks)), WakeBook()
    for seq, event in enumerate(events):
        for book in (group, wakes):
            if type(event) in book.HANDLES:
                book.feed(Record(seq, 0, event))
    rows = rows_of(last, wakes)
    lying = [each.record.seq for row in rows for each in row.untaken if each.record is not None]
    return table_of(rows, last, group), lying


def test_operations_stand_by_rank_in_the_order_in_which_kinds_came_up():
    log = ((0, ("took ADD a", "2 forward", "draft", "forward"), ()), (1, ("3 dummy",), ()))
    table, _ = told(
        exchange(number=4), add(0, "a"), last=stuck((0, "forward"), log=log, met="exchange 4")
    )
    assert table == [
        "operations of each engine since all met in exchange 4 (#0):",
        "  engine  forward  draft  dummy  waits in  took    in its mailbox",
        "  0       3        1      -      forward   ADD #1  -",
        "  1       -        -      3      -         -       -",
    ]


def test_wake_up_that_lies_in_the_mailbox_is_told_apart_from_one_that_was_taken():
    log = (
        (0, ("took START_DP_WAVE 1", "dummy"), ()),
        (1, ("took UTILITY 7 resume_scheduler", "resume"), ("START_DP_WAVE 1", "ADD b")),
    )
    last = stuck((0, "forward"), elsewhere=((1, "host", "resume"),), log=log, met="resume")
    table, lying = told(
        wave(0, 1), utility(1, 7, "resume_scheduler"), wave(1, 1), add(1, "b"), last=last
    )
    assert table == [
        "operations of each engine since all met in resume:",
        "  engine  dummy  resume  waits in  took                 in its mailbox",
        "  0       1      -       forward   START_DP_WAVE 1 #0   -",
        "  1       -      1       resume    resume_scheduler #1  START_DP_WAVE 1 #2, ADD #3",
    ]
    assert lying == [2, 3]


def test_arrival_is_named_only_where_it_is_certain_which_it_is():
    """A rule may have kept one of two wake-ups: then nobody knows which one was taken."""
    log = ((0, ("took START_DP_WAVE 1",), ()),)
    table, _ = told(wave(0, 1), wave(0, 1), last=stuck((0, "forward"), log=log))
    assert table[-1].split("  ")[-2].strip() == "START_DP_WAVE 1"
    both = ((0, ("took START_DP_WAVE 1",), ("START_DP_WAVE 1",)),)
    table, lying = told(wave(0, 1), wave(0, 1), last=stuck((0, "forward"), log=both))
    assert table[-1].endswith("START_DP_WAVE 1 #0  START_DP_WAVE 1 #1")
    assert lying == [1]


def test_ids_of_requests_and_calls_are_left_out_and_many_messages_are_cut():
    log = ((0, ("took ADD a", "took ABORT a", "took shutdown", "took ADD c"), ()),)
    table, _ = told(add(0, "a"), abort(0, "a"), add(0, "c"), last=stuck((0, "forward"), log=log))
    assert "1 more, ABORT #1, shutdown, ADD #2" in table[-1]


def test_ranks_at_which_all_is_alike_share_a_row():
    log = ((0, ("2 dummy",), ()), (1, ("2 dummy",), ()), (2, ("dummy", "forward"), ()))
    table, _ = told(last=stuck((2, "forward"), log=log), ranks=(0, 1, 2))
    assert table[0] == "operations of each engine since it began:"
    assert table[2].split() == ["0,", "1", "2", "-", "-", "-", "-"]
    assert table[3].split() == ["2", "1", "1", "forward", "-", "-"]


def test_rows_beyond_a_screen_are_counted():
    log = tuple((rank, (f"{rank + 2} dummy",), ()) for rank in range(20))
    table, _ = told(last=stuck((0, "forward"), log=log), ranks=tuple(range(20)))
    assert len(table) == ROWS_MAX + 3
    assert table[-1] == "  … and 12 more rows"
    alike = tuple((rank, ("dummy",), ()) for rank in range(20))
    table, _ = told(last=stuck((20, "forward"), log=alike), ranks=tuple(range(20)))
    assert table[-1].startswith("  0, 1, 2, 3, 4, 5, 6, 7 …")


def test_ranks_that_spin_do_the_same_again_and_again():
    log = ((0, ("16 dummy", "sync"), ()), (1, ("16 dummy", "sync"), ()))
    table, _ = told(exchange(number=3), last=spin(log=log, met="exchange 2"))
    assert table == [
        "operations of each engine since all met in exchange 2, again and again:",
        "  engine  dummy  sync  waits in  took  in its mailbox",
        "  0, 1    16     1     -         -     -",
    ]


@pytest.mark.parametrize("event", [stuck((0, "forward")), spin()])
def test_trace_without_a_log_has_no_table(event):
    assert told(last=event) == ([], [])
    assert untaken(event, 0) == ()


def test_mailbox_is_told_message_by_message():
    event = stuck((0, "forward"), log=((0, (), ("2 START_DP_WAVE 1", "ADD a")),))
    assert untaken(event, 0) == ("START_DP_WAVE 1", "START_DP_WAVE 1", "ADD a")
    assert untaken(event, 1) == ()


def test_messages_that_are_not_kept_are_counted_in_the_row():
    log = ((0, ("3 forward", "3 took ABORT a", "took START_DP_WAVE 1"), ()),)
    last = stuck((0, "forward"), log=log, dropped=((0, 144),))
    table, _ = told(last=last)
    assert "145 more (144 of them not kept), ABORT, ABORT, START_DP_WAVE 1" in table[-1]
    assert (dropped(last, 0), dropped(last, 1)) == (144, 0)
    alone = stuck((0, "forward"), log=((0, ("forward", "took ABORT a"), ()),), dropped=((0, 1),))
    assert "1 more (1 of them not kept), ABORT" in told(last=alone)[0][-1]


def test_names_from_the_wire_stay_in_their_cell():
    name = "sleep\n  1  9  forward" + " " * 500_000
    log = ((0, (f"took {call_named(7, name)}",), (abort_named(["r"] * 9_999),)),)
    last = stuck((0, "forward"), log=log)
    table, lying = told(utility(0, 7, name), abort(0, *["r"] * 9_999), last=last)
    assert "'sleep\\n" in table[-1]
    assert max(map(len, table)) < 200
    assert (len(table), lying) == (3, [1])


class Word(str):
    """Counts how often any of its kind is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Word.compared += 1
        return str.__eq__(self, other)


def test_arrivals_are_found_without_a_look_at_all_the_others():
    """One look for each, not one for each pair: thousands of messages lie in a busy mailbox."""
    number = 500
    words = [Word(f"ADD r{place}") for place in range(number)]
    wakes = WakeBook()
    for seq in range(number):
        wakes.feed(Record(seq, 0, add(0, f"r{seq}")))
    Word.compared = 0
    found = _arrivals(words, wakes, 0)
    known = [each.record.seq for each in found if each.record is not None]
    assert known == list(range(number - KEPT, number))
    assert Word.compared <= 10 * number
