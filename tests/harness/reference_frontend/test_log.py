"""The log: what is written is what the one table of patterns reads."""

from __future__ import annotations

import io

import pytest

from client import events
from client.components import Components
from client.protocol.profiles import profile_for
from harness.mutants import find_mutant
from harness.reference_frontend.client_log import ClientLog
from harness.reference_frontend.log import COORDINATOR, SERVER, Bare, Log, LogFilter
from harness.reference_frontend.watch import Watch
from harness.targets.vllm_rs.log_patterns import field, parse_line

HANDLED = events.FirstRequestHandled(1, 3, 4, False, 4, True, 4, None)
COMPLETE = events.WaveNoticeHandled("complete", 0, 4, 4, True, 5, False, False)
STALE = events.WaveNoticeHandled("complete", 0, 3, 4, True, 4, True, False)
START = events.WaveNoticeHandled("start", 1, 5, 5, False, 5, True, True)


def lines_of(*told, release="0.33.0", filters="debug", health=None, watch=None):
    stream = io.StringIO()
    profile = profile_for(release)
    log = Log(profile, filters, stream)
    observer = ClientLog(log, profile, watch or Watch(), health or (lambda: None))
    for event in told:
        observer(event)
    return [parse_line(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("event", "release", "level", "pattern", "fields"),
    [
        (
            events.RequestRegistered("a-1", 1, None, 0),
            "0.33.0",
            "DEBUG",
            "request-registered",
            {"request_id": "a-1", "engine": "1", "identity": "0100"},
        ),
        (
            events.EngineConnected(256, b"\x00\x01"),
            "0.33.0",
            "DEBUG",
            "registration",
            {"engine": "256", "identity": "0001"},
        ),
        (
            events.RequestReleased("a-1", 0, "finished"),
            "0.33.0",
            "DEBUG",
            "request-completed",
            {"request_id": "a-1"},
        ),
        (
            events.RequestReleased("a-1", 0, "stream-closed"),
            "0.33.0",
            "WARN",
            "stream-closed",
            {"request_id": "a-1"},
        ),
        (
            events.RequestReleased("a-1", 0, "auto-aborted"),
            "0.33.0",
            "INFO",
            "auto-abort",
            {"request_id": "a-1"},
        ),
        (
            events.OutputDropped("a-1"),
            "0.33.0",
            "DEBUG",
            "output-dropped",
            {"request_id": "a-1"},
        ),
        (
            events.AbortFailed(1, ("a",), "gone"),
            "0.33.0",
            "WARN",
            "auto-abort-failed",
            {"error": "gone"},
        ),
        (events.UtilityReplyDropped(9), "0.33.0", "WARN", "utility-dropped", {"call_id": "9"}),
        (COMPLETE, "0.33.0", "DEBUG", "wave-finished", {"wave": "4", "current_wave": "5"}),
        (HANDLED, "0.32.0", "DEBUG", "wave-first-request", {"wave": "3", "target_engine": "1"}),
        (START, "0.32.0", "DEBUG", "wave-started-stale", {"wave": "5"}),
        (START, "0.33.0", "DEBUG", "wave-started", {"wave": "5"}),
    ],
    ids=lambda value: getattr(value, "pattern", None) or type(value).__name__,
)
def test_event_is_written_as_the_line_that_the_patterns_know(
    event, release, level, pattern, fields
):
    (line,) = lines_of(event, release=release)
    assert (line.level, line.pattern) == (level, pattern)
    assert {name: field(line, name) for name in fields} == fields


def test_fatal_error_is_told_by_the_side_that_met_it_and_by_every_request_it_ends():
    told = []
    lines = lines_of(
        events.HealthFailed("UnexpectedCoordinatorOutput", "odd\nthing", first=True),
        events.RequestReleased("a-1", 0, "client-closed"),
        events.HealthFailed("EngineCoreDead", "dead", first=False),
        health=lambda: told.append(None),
    )
    assert [line.pattern for line in lines] == ["coordinator-failed", "stream-error"]
    assert {field(line, "error") for line in lines} == {"odd thing"}
    assert len(told) == 1
    dead = lines_of(events.HealthFailed("EngineCoreDead", "dead", first=True))
    assert [line.pattern for line in dead] == ["engine-dead", "dispatcher-failed"]


@pytest.mark.parametrize(
    "event",
    [
        STALE,
        events.RequestReleased("a", 0, "aborted"),
        events.RequestReleased("a", 0, "rolled-back"),
        events.HealthFailed("ClientClosed", "client is closed", first=True),
    ],
    ids=["stale notice", "aborted", "rolled back", "closed"],
)
def test_event_without_a_line_writes_none(event):
    assert lines_of(event) == []


def test_reply_that_found_a_waiter_goes_without_a_word_and_any_other_is_warned_of():
    watch = Watch()
    registry = watch.over(Components()).utilities()
    registry.allocate("waiter")
    dropped = events.UtilityReplyDropped(1)
    assert registry.resolve(1) == "waiter"
    assert lines_of(dropped, watch=watch) == []
    assert registry.resolve(1) is None
    assert [field(line, "call_id") for line in lines_of(dropped, watch=watch)] == ["1"]


def test_watch_keeps_the_loads_that_count_and_what_a_mutant_replaced():
    watch = Watch()
    components = watch.over(find_mutant("rank-truncated").components(Components()))
    routing = components.routing([b"\x00\x00"], waiting_weight=0)
    stats = {"num_running_reqs": 2, "num_waiting_reqs": 3}
    assert routing.apply_stats(0, stats)
    assert not routing.apply_stats(7, stats)
    assert watch.loads == {0: (2, 3)}
    assert routing.identity_for_rank(65536) == b"\x00\x00"


def test_filter_takes_the_longest_target_and_the_default():
    filters = LogFilter(f"info,{COORDINATOR}=debug,vllm_engine_core_client=off,not a level")
    assert filters.lets(COORDINATOR, "debug")
    assert not filters.lets("vllm_engine_core_client::client", "error")
    assert filters.lets(SERVER, "info")
    assert not filters.lets(SERVER, "debug")
    assert not LogFilter("").lets(SERVER, "warn")


@pytest.mark.parametrize(("release", "name"), [("0.26.0", "out"), ("0.27.0", "err")])
def test_log_goes_to_standard_error_since_0_27(release, name, capsys):
    Log(profile_for(release), "info")("info", "hello", text='say "x"', plain=Bare("y"), on=True)
    written = capsys.readouterr()
    line = getattr(written, name)
    assert line.endswith('hello text="say \\"x\\"" plain=y on=true\n')
    assert parse_line(line).level == "INFO"
