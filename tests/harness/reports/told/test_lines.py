"""Lines of a trace are read back: lanes, kinds, numbers, times."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.reports.told.lines import place_of, read_line
from harness.trace.events import CallEnded, CallStarted, LogLine, Record
from harness.trace.kinds import EVENT_CLASSES, KIND_OF
from harness.trace.render import describe, render
from mock_engines.events import AddSeen, OutputSent, StartWaveSeen, StatsSent, WaveNoticeSent
from tests.support.event_samples import instances, sample


@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)
def test_line_of_every_class_of_event_is_read_back_with_its_kind(cls):
    line = read_line(render(Record(12, 3_500, sample(cls))))
    assert line is not None
    assert (line.seq, line.time_us, line.place.kind) == (12, 4_000, KIND_OF[cls][0])


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(EVENT_CLASSES).flatmap(instances))
def test_event_with_any_values_has_lanes_when_its_kind_is_known(event):
    kind = KIND_OF[type(event)][0]
    place = place_of(describe(event), kind)
    assert place is not None
    assert place.kind == kind
    assert place.text == describe(event)


@pytest.mark.parametrize(
    ("event", "lanes"),
    [
        (sample(AddSeen), ("client", "engine 7")),
        (sample(OutputSent), ("engine 7", "client")),
        (sample(StartWaveSeen), ("coordinator", "engine 7")),
        (sample(WaveNoticeSent), ("engine 7", "coordinator")),
        (StatsSent(1, 1, 2, 3, "coordinator"), ("engine 1", "coordinator")),
        (StatsSent(1, 1, 2, 3, "main"), ("engine 1", "client")),
        (sample(CallStarted), ("callers", "client")),
        (sample(CallEnded), ("client", "callers")),
        (sample(LogLine), ("client", "client")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_message_goes_from_the_lane_of_its_sender_to_that_of_its_receiver(event, lanes):
    place = place_of(describe(event))
    assert (place.source, place.target) == lanes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "thread panicked at src/main.rs",
        "#12",
        "#12  t=now  client: closed",
        "#1  t=0.0s  x",
        f"#{'1' * 5_000}  t=0.0s  client: closed",
        f"#1  t={'9' * 400}.0s  client: closed",
        f"#1  t=0.0s  engine {'1' * 5_000}: x",
    ],
)
def test_line_that_is_no_event_is_none(text):
    assert read_line(text) is None
