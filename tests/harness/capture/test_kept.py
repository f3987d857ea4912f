"""What a failure file keeps of a run on real sockets: payloads and bytes, within bounds."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pytest

from client.protocol.codec import Codec
from client.protocol.profiles import profile_for
from harness.capture import kept, listening
from harness.capture.kept import frames_of, keep, read_kept
from harness.capture.listening import Listening
from harness.play import play
from harness.runner import cached_target, make_spec
from harness.targets.request import TargetRequest
from harness.worlds import ZmqWorld
from tests.support.stories import load

PROFILE = profile_for("0.33.0")
STORY = "steps:\n  - call: {id: a, rank: 1}\n  - finish: a\n  - fence: true\n"
GONE = (
    "engines:\n  - engine: 1\n    rules: [{on: add, do: {die: vanish}}]\n"
    "steps:\n  - call: {id: a, rank: 1}\n  - finish: a\n"
)


def played(story: str, target: str = "zmq"):
    loaded = load(story, "x/y")
    where = cached_target(TargetRequest(target))
    heard = Listening(PROFILE)
    spec = make_spec(loaded.scenario, where, PROFILE, None)
    spec = dataclasses.replace(spec, tap=heard.tap, tap_spares_processes=True)
    return play(spec, where.world(None), heard.event), heard


@pytest.mark.zmq
def test_payloads_and_bytes_of_a_run_on_real_sockets_are_kept():
    run, heard = played(STORY)
    document = json.loads(json.dumps(keep(run.records, heard, 5_000)))
    found = read_kept(document)
    assert len(found.fields) == len(run.records)
    adds = [r.seq for r in run.records if type(r.event).__name__ == "AddSeen"]
    (message,) = [m for m in found.messages if m.events == adds]
    frames = [
        list(f.frames)
        for f, m in zip(frames_of(found), found.messages, strict=True)
        if m is message
    ]
    request = Codec(PROFILE).decode_engine_input(frames[0]).request
    assert request.request_id == found.fields[adds[0]]["request_id"]
    assert message.sizes == [len(part) for part in frames[0]]


@pytest.mark.zmq
def test_engine_that_vanishes_does_so_in_a_process_of_its_own_though_others_are_listened_to(
    monkeypatch,
):
    monkeypatch.setattr(
        ZmqWorld, "step_limit_s", 1.0
    )  # nobody is told, so its caller waits for ever
    run, heard = played(GONE)
    died = [r.event for r in run.records if type(r.event).__name__ == "EngineDied"]
    assert [(event.engine, event.how) for event in died] == [(1, "vanish")]
    assert {passed.engine for passed in heard.passed} == {0}


@pytest.mark.zmq
def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    run, heard = played(STORY)
    whole = keep(run.records, heard, 5_000)
    monkeypatch.setattr(kept, "SIZE_MAX", 500)
    few = keep(run.records, heard, 5_000)
    assert 0 < len(few["fields"]) < len(whole["fields"])
    assert few["messages"] == []
    assert few["fields"] == whole["fields"][: len(few["fields"])]


@pytest.mark.zmq
def test_events_without_a_line_are_not_kept():
    run, heard = played(STORY)
    few = keep(run.records, heard, 3)
    assert len(few["fields"]) == 3
    assert all(message["events"][0] < 3 for message in few["messages"])


@pytest.mark.zmq
def test_flood_of_messages_is_not_held_in_memory(monkeypatch):
    monkeypatch.setattr(listening, "BYTES_MAX", 300)
    run, heard = played(STORY)
    assert sum(len(part) for passed in heard.passed for part in passed.frames) <= 300
    assert len(keep(run.records, heard, 5_000)["fields"]) == len(run.records)


@pytest.mark.parametrize(
    "document",
    [{}, {"fields": 1, "messages": []}, {"fields": [], "messages": [{"engine": "x"}]}],
)
def test_recording_of_another_form_is_refused(document):
    with pytest.raises(msgspec.ValidationError):
        read_kept(document)
