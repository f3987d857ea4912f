"""JSON lines: what is written is read back equal, and what is not a trace is refused."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.trace.events import Record
from harness.trace.jsonl import TraceFormatError, read, write
from harness.trace.kinds import EVENT_CLASSES
from tests.support.event_samples import instances, sample

EVENTS = st.one_of(*(instances(cls) for cls in EVENT_CLASSES))


@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS, max_size=5))
def test_a_trace_that_is_written_reads_back_equal(events: list[Any]):
    records = [Record(seq, seq * 7, event) for seq, event in enumerate(events)]
    file = io.StringIO()
    write(records, file)
    file.seek(0)
    assert read(file) == records


@pytest.mark.parametrize("cls", EVENT_CLASSES)
def test_an_event_of_each_class_reads_back_equal(cls: type):
    file = io.StringIO()
    write([Record(0, 0, sample(cls))], file)
    file.seek(0)
    assert read(file) == [Record(0, 0, sample(cls))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"wavecheck_trace":2}\n', "reads format 1"),
        ("[]\n", "trace format None"),
        ("nonsense\n", "line 1: not JSON"),
        ('{"wavecheck_trace":1}\n{"seq":0}\n', "line 2: not a trace record"),
        (
            '{"wavecheck_trace":1}\n{"seq":0,"time_us":0,"event":"NoSuch","fields":{}}\n',
            "line 2: not a trace record: KeyError",
        ),
        (
            '{"wavecheck_trace":1}\n{"seq":0,"time_us":0,"event":"Healed","fields":{"x":1}}\n',
            "line 2: not a trace record: TypeError",
        ),
    ],
)
def test_what_is_no_trace_is_refused_with_line_and_reason(text: str, reason: str):
    with pytest.raises(TraceFormatError, match=reason):
        read(io.StringIO(text))
