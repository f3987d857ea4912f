"""The recorder: numbers, times, digest, listeners."""

import weakref

from harness.scenario.model import EventMatch
from harness.trace.events import Record
from harness.trace.recorder import Recorder
from tests.support.traces import add, call, out, wave


def recorder(*, keep: bool = True) -> Recorder:
    return Recorder(clock=lambda: 0.25, keep=keep)


def test_events_are_numbered_and_timed_in_microseconds():
    trace = recorder()
    first, second = trace.emit(add(0, "a")), trace.emit(wave(0, 1))
    assert trace.records == [first, second]
    assert second == Record(1, 250_000, wave(0, 1))
    assert trace.count == 2


def test_equal_sequences_have_equal_digests_whatever_the_time():
    one, two = recorder(), Recorder(clock=lambda: 9.0, keep=False)
    for trace in (one, two):
        trace.emit(add(0, "a"))
        trace.emit(wave(0, 1))
    assert one.digest == two.digest != 0
    assert two.records == []


def test_another_order_or_value_has_another_digest():
    digests = set()
    for events in ([add(0, "a"), wave(0, 1)], [wave(0, 1), add(0, "a")], [add(1, "a")]):
        trace = recorder()
        for event in events:
            trace.emit(event)
        digests.add(trace.digest)
    assert len(digests) == 3


def test_the_digest_of_a_trace_never_changes():
    trace = recorder()
    trace.emit(add(0, "a"))
    assert f"{trace.digest:08x}" == "5d979340"


def test_a_subscriber_hears_later_events_until_it_leaves():
    trace, heard = recorder(), []
    trace.emit(add(0, "a"))
    leave = trace.subscribe(heard.append)
    second = trace.emit(wave(0, 1))
    leave()
    leave()
    trace.emit(wave(0, 2))
    assert heard == [second]


def test_a_subscriber_may_leave_while_it_is_told():
    trace, heard = recorder(), []

    def once(record: Record) -> None:
        heard.append(record.seq)
        leave()

    leave = trace.subscribe(once)
    trace.subscribe(lambda record: heard.append(-record.seq))
    trace.emit(add(0, "a"))
    trace.emit(add(0, "b"))
    assert heard == [0, 0, -1]


def test_matching_uses_the_calls_of_the_trace():
    trace = recorder()
    trace.emit(call("one", external="x"))
    sent = trace.emit(out(0, "x-0123abcd", 1))
    trace.emit(out(0, "y", 1))
    assert trace.matching(EventMatch(event="output", request="one")) == [sent]


def test_a_subscriber_to_some_kinds_of_events_hears_no_others():
    trace, heard = recorder(), []
    trace.subscribe(lambda record: heard.append(("adds", record.seq)), type(add(0, "a")))
    leave = trace.subscribe(lambda record: heard.append(("all", record.seq)))
    trace.emit(add(0, "a"))
    trace.emit(wave(0, 1))
    leave()
    trace.emit(add(0, "b"))
    assert heard == [("adds", 0), ("all", 0), ("all", 1), ("adds", 2)]


def test_one_who_subscribes_while_the_trace_goes_on_hears_what_comes_later():
    trace, heard = recorder(), []
    trace.emit(add(0, "a"))
    trace.subscribe(lambda record: heard.append(record.seq), type(add(0, "a")))
    trace.emit(add(0, "b"))
    assert heard == [1]


def test_a_closed_trace_refers_to_nobody_who_listened():
    class Listener:
        def __init__(self, trace: Recorder) -> None:
            self.trace, self.heard = trace, 0
            trace.subscribe(self.hear)

        def hear(self, _record: Record) -> None:
            self.heard += 1

    trace = recorder()
    listener = Listener(trace)
    trace.emit(add(0, "a"))
    assert listener.heard == 1
    gone = weakref.ref(listener)
    del listener
    assert gone() is not None
    trace.close()
    assert gone() is None
    trace.emit(add(0, "a"))


def test_digest_is_the_same_however_often_it_is_asked_for_and_whether_records_are_kept():
    events = [add(0, "a"), add(1, "b"), add(0, "c")]
    asked, late, without = recorder(), recorder(), Recorder(clock=lambda: 0.0, keep=False)
    seen = []
    for event in events:
        for trace in (asked, late, without):
            trace.emit(event)
        seen.append(asked.digest)
        assert asked.digest == without.digest
    assert len(set(seen)) == 3
    assert late.digest == seen[-1]
    late.emit(events[0])
    asked.emit(events[0])
    assert late.digest == asked.digest != seen[-1]
