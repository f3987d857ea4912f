"""JSON lines: what is written is read back equal, and what is not a trace is refused."""

import io
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.trace.events import Record
from harness.trace.jsonl import TraceFormatError, read, write
from harness.trace.kinds import EVENT_CLASSES


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of one field's type."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(values(arg) for arg in args))
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(arg) for arg in args))
    plain = {
        int: st.integers(-(2**64), 2**64),
        str: st.text(max_size=8),
        bytes: st.binary(max_size=4),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return plain[hint]


def instances(cls: type) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{name: values(hint) for name, hint in hints.items()})


EVENTS = st.one_of(*(instances(cls) for cls in EVENT_CLASSES))


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=5))
def test_a_trace_that_is_written_reads_back_equal(events: list[Any]):
    records = [Record(seq, seq * 7, event) for seq, event in enumerate(events)]
    file = io.StringIO()
    write(records, file)
    file.seek(0)
    assert read(file) == records


@pytest.mark.parametrize("cls", EVENT_CLASSES)
def test_every_field_type_of_an_event_can_be_written(cls: type):
    instances(cls).validate()


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
