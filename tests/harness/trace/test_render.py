"""Rendering: one line for people for each event."""

import pytest

from client.events import FirstRequestHandled, HealthFailed
from harness.trace.events import Healed, LogLine, Record, UtilityEnded
from harness.trace.kinds import EVENT_CLASSES
from harness.trace.render import render
from mock_engines.events import (
    EngineDied,
    EngineJoined,
    EngineResumed,
    EngineStalled,
    RankMoved,
    RanksSpin,
)
from tests.support.event_samples import sample
from tests.support.traces import abort, call, out, reply, start, wave


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (wave(1, 4, 1), "engine 1 <- START_DP_WAVE wave=4 exclude=1"),
        (wave(1, 4), "engine 1 <- START_DP_WAVE wave=4 exclude=None"),
        (abort(0, "a", "b"), "engine 0 <- ABORT request_ids=[a, b] client_index=0"),
        (out(0, "a", 1, 2, finish="stop"), "engine 0 -> output request_id=a tokens=[1, 2] finish=stop"),
        (reply(0, 1, "None", "it broke"), "engine 0 -> utility reply call_id=1 method=is_sleeping failure='it broke' value=None"),
        (start(0, 3), "engine 0 -> wave notice notice=start wave=3"),
        (EngineJoined(1, b"\1\0", False), "engine 1: joined identity=0100 coordinator=False"),
        (EngineDied(1, "vanish"), "engine 1: died how=vanish"),
        (EngineStalled(1, "thaw"), "engine 1: stalled gate=thaw"),
        (EngineResumed(1), "engine 1: resumed"),
        (call("a", rank=1), "caller a: call-started external_id=a explicit_rank=1 surface=native"),
        (UtilityEnded("u", "m", "finished", "3", None, ""), "caller u: utility-ended method=m outcome=finished value=3"),
        (FirstRequestHandled(1, 0, 0, False, 0, True, 0, 1), "coordinator: first-request engine=1 request_wave=0 wave_before=0 running_before=False wave_after=0 running_after=True broadcast_wave=0 exclude=1"),
        (HealthFailed("Decode", "", True), "client: health error=Decode first=True"),
        (LogLine("WARN", "other", (), "hm"), "frontend: log level=WARN pattern=other text=hm"),
        (Healed(), "harness: healed"),
    ],
)  # fmt: skip
def test_an_event_is_shown_with_lane_arrow_and_message(event: object, line: str):
    assert render(Record(118, 412_000, event)) == f"#118  t=0.412s  {line}"  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", EVENT_CLASSES)
def test_every_event_has_one_line(cls: type):
    line = render(Record(0, 0, sample(cls)))
    assert line.startswith("#0  t=0.000s  ")
    assert "\n" not in line


def test_a_long_message_is_cut():
    line = render(Record(0, 0, LogLine("WARN", "other", (), "x" * 500)))
    assert len(line) < 200
    assert line.endswith("…")


def test_rank_shows_only_what_is_set_and_a_meeting_leaves_states_to_the_verdict():
    moved = RankMoved(1, True, 4, "new", False, False, ())
    assert render(Record(1, 0, moved)).endswith("engine 1: moved running=True wave=4 pause=new")
    spin = RanksSpin(0, (1,), ("engine 0: runs", "engine 1: runs"))
    assert render(Record(2, 0, spin)).endswith("engine 0: spin pausing=[1]")
