"""The events behind a failure file: replayed with bytes, or as they were recorded."""

from __future__ import annotations

import json

import pytest

from client.protocol.codec import Codec
from client.protocol.messages import Add
from client.protocol.profiles import profile_for
from harness.failure import read_failure
from harness.reports.told.traces import lanes_of, plain, trace_of, window
from tests.support.failures import as_recorded, failing_crowd, failing_run, failure_file


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    return failure_file(failing_run(tmp_path_factory.mktemp("run")))


def traced(path):
    return trace_of(path, read_failure(path))


def test_failure_of_the_simulation_is_played_again_with_the_recorded_events(failing):
    found = traced(failing)
    failure = read_failure(failing)
    trace = found.trace
    assert (trace.origin, trace.note, trace.total) == ("replayed", "", len(failure.events))
    assert [f"#{event.seq}" for event in trace.events] == [
        line.partition(" ")[0] for line in failure.events
    ]
    assert all(event.text in line for event, line in zip(trace.events, failure.events, strict=True))
    assert list(found.witness) == list(failure.witness)
    assert found.message == "the coordinator went from wave 2 back to 1"
    assert [lane.id for lane in trace.lanes] == [
        "callers", "client", "coordinator", "engine 0", "engine 1", "harness",
    ]  # fmt: skip


def test_every_message_of_a_replayed_event_decodes_to_what_the_event_says(failing):
    trace = traced(failing).trace
    codec = Codec(profile_for("0.32.0"))
    adds = [event for event in trace.events if event.kind == "add"]
    assert adds
    for event in adds:
        (number,) = event.messages
        message = trace.messages[number]
        decoded = codec.decode_engine_input([bytes.fromhex(part) for part in message.frames])
        assert isinstance(decoded, Add)
        assert decoded.request.request_id == event.fields["request_id"]
        assert (message.engine, message.direction) == (event.fields["engine"], "to-engine")
        assert event.fields["request_id"] in [row.value.strip("'") for row in message.rows]


def test_every_event_at_an_engines_socket_has_its_bytes(failing):
    trace = traced(failing).trace
    wire = [e for e in trace.events if e.source != e.target and "engine" in e.source + e.target]
    assert wire
    assert [e.text for e in wire if not e.messages] == []
    joined = [e for e in trace.events if e.kind == "joined"]
    kinds = [{trace.messages[n].kind for n in event.messages} for event in joined]
    assert all({"hello", "init", "ready", "registration"} <= found for found in kinds)


def test_listening_at_the_sockets_leaves_the_run_as_it_was(failing):
    """The note would say that the events differ: the digest covers them all."""
    assert traced(failing).trace.note == ""


def test_departures_from_fifo_order_stand_where_they_were_made(tmp_path):
    path = failing_crowd(tmp_path, callers=4)
    trace = traced(path).trace
    assert trace.choices
    assert trace.choices_total == len(read_failure(path).tape["labels"])
    assert len(trace.choices) < trace.choices_total
    assert all(choice.ran in choice.options for choice in trace.choices)
    assert all(choice.ran != choice.options[0] for choice in trace.choices)
    numbers = [(choice.number, choice.before) for choice in trace.choices]
    assert numbers == sorted(numbers)


def test_failure_without_a_tape_is_told_by_its_lines(failing, tmp_path):
    path = as_recorded(failing, tmp_path / "real.json")
    found = traced(path)
    trace, failure = found.trace, read_failure(path)
    assert (trace.origin, trace.choices, trace.messages) == ("recorded", None, [])
    assert len(trace.events) == len(failure.events)
    assert all(event.fields is None for event in trace.events)
    assert list(found.witness) == list(failure.witness)


@pytest.mark.zmq
def test_failure_on_real_sockets_is_told_with_the_payloads_and_bytes_of_that_run(tmp_path):
    path = failure_file(failing_run(tmp_path, "--target", "zmq"))
    trace = traced(path).trace
    assert (trace.origin, trace.note) == ("recorded", "")
    assert all(event.fields is not None for event in trace.events)
    wire = [e for e in trace.events if e.source != e.target and "engine" in e.source + e.target]
    assert [e.text for e in wire if not e.messages] == []
    (add, *_) = [e for e in wire if e.kind == "add"]
    values = [row.value for row in trace.messages[add.messages[0]].rows]
    assert f"'{add.fields['request_id']}'" in values


def test_message_that_was_too_long_to_be_kept_says_so(failing, tmp_path):
    message = {
        "engine": 0, "socket": "input", "direction": "to-engine", "frames": ["00", "92"],
        "sizes": [1, 9_000], "events": [0],
    }  # fmt: skip
    path = as_recorded(
        failing, tmp_path / "f.json", recording={"fields": [{}], "messages": [message]}
    )
    (told,) = traced(path).trace.messages
    assert (told.note, told.rows) == ("it was too long to be kept whole", [])
    assert (told.sizes, told.title) == ([1, 9_000], "ADD")


@pytest.mark.parametrize(
    "recording",
    [{"fields": 1}, {"fields": [], "messages": [{"engine": 0, "socket": "input",
      "direction": "to-engine", "frames": ["zz"], "sizes": [1], "events": [0]}]}],
)  # fmt: skip
def test_recording_that_cannot_be_read_is_said_and_the_lines_are_told(failing, tmp_path, recording):
    path = as_recorded(failing, tmp_path / "f.json", recording=recording)
    trace = traced(path).trace
    assert trace.note.startswith("its payloads and bytes cannot be read: ")
    assert trace.events


def test_black_box_has_a_frontend_in_the_place_of_the_client(failing, tmp_path):
    path = as_recorded(
        failing, tmp_path / "real.json", target="vllm-rs", frontend="0.24.0", mutant=None
    )
    assert "frontend" in [lane.title for lane in traced(path).trace.lanes]


def test_lines_that_are_no_events_are_counted(failing, tmp_path):
    failure = read_failure(failing)
    path = as_recorded(failing, tmp_path / "real.json", events=[*failure.events, "thread panicked"])
    assert traced(path).trace.note == "1 lines of the file are no events"


def test_tape_that_leads_elsewhere_now_is_told_by_the_recorded_lines(failing, tmp_path):
    document = json.loads(failing.read_text(encoding="utf-8"))
    document["tape"]["labels"] = document["tape"]["labels"][:5]
    document["tape"]["choices"] = "0/2 0/2 0/2 0/2 0/2"
    document["tape"].pop("labels")
    document["tape"].pop("names")
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    trace = traced(path).trace
    assert trace.origin == "recorded"
    assert "played again by this version: the run differs from the tape" in trace.note


def test_failure_that_no_longer_fails_is_told_by_the_recorded_lines(failing, tmp_path):
    document = json.loads(failing.read_text(encoding="utf-8"))
    document["mutant"] = None
    path = tmp_path / "mended.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    trace = traced(path).trace
    assert trace.origin == "recorded"
    assert "played again by this version: " in trace.note


def test_scenario_that_is_not_valid_any_more_is_told_by_the_recorded_lines(failing, tmp_path):
    document = json.loads(failing.read_text(encoding="utf-8"))
    document["scenario_text"] = "title: 1\n"
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    trace = traced(path).trace
    assert trace.origin == "recorded"
    assert "its scenario is not valid" in trace.note


@pytest.mark.parametrize(
    ("total", "witness", "kept"),
    [
        (10, [], (0, 10)),
        (100, [], (90, 100)),
        (100, [50], (43, 53)),
        (100, [2], (0, 10)),
        (100, [99], (90, 100)),
    ],
)
def test_long_trace_is_cut_round_the_end_of_its_witness(total, witness, kept):
    assert window(total, witness, 10) == kept


def test_values_that_json_lacks_become_text():
    assert plain({"a": (float("nan"), [float("inf"), 1.5]), "b": None}) == {
        "a": ["nan", ["inf", 1.5]],
        "b": None,
    }


def test_lanes_without_events_are_the_client_alone():
    assert [lane.id for lane in lanes_of([], black_box=False)] == ["client"]
