"""Kinds: a name for every event, and what matches what."""

import pytest

from client.events import ClientClosed, FirstRequestHandled, UtilityReplyDropped
from harness.scenario.model import EventMatch
from harness.trace.events import CallOutput, GateWasOpened, Record
from harness.trace.kinds import (
    EVENT_CLASSES,
    KIND_OF,
    UnknownKindError,
    check_fields,
    class_of,
    id_belongs,
    kinds,
    matches,
)
from mock_engines.events import AddSeen, GateOpened, StartWaveSeen
from tests.support.traces import abort, add, call, out, reply, seen, wave


def test_every_event_class_has_a_kind_of_its_own_and_a_meaning():
    assert set(KIND_OF) == set(EVENT_CLASSES)
    assert len(kinds()) == len(EVENT_CLASSES)
    assert all(meaning for meaning in kinds().values())


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("add", AddSeen),
        ("start_wave", StartWaveSeen),
        ("start-wave", StartWaveSeen),
        ("ready_gate", GateOpened),
        ("gate-opened", GateWasOpened),
        ("first-request", FirstRequestHandled),
        ("dropped-reply", UtilityReplyDropped),
        ("call-output", CallOutput),
        ("closed", ClientClosed),
    ],
)
def test_a_kind_names_its_class(kind: str, cls: type):
    assert class_of(kind) is cls


def test_an_unknown_kind_or_field_names_the_nearest():
    with pytest.raises(UnknownKindError, match="did you mean 'start_wave'"):
        class_of("start_wafe")
    with pytest.raises(UnknownKindError, match="did you mean 'engine'"):
        check_fields("add", ["engin"])
    check_fields("add", ["engine", "wave"])


@pytest.mark.parametrize(
    ("request_id", "belongs"),
    [
        ("a", True),
        ("cmpl-a", True),
        ("chatcmpl-a", True),
        ("a-0123abcd", True),
        ("cmpl-a-0123abcd", True),
        ("ab", False),
        ("a-1", False),
        ("a-0123abcd9", False),
        ("b", False),
    ],
)
def test_an_id_belongs_to_a_call_with_prefix_and_suffix(request_id: str, belongs: bool):
    assert id_belongs(request_id, "a") is belongs
    assert id_belongs(request_id, "") is False


def match(event: object, /, **wanted: object) -> bool:
    ops = {"one": call("one", external="x")}
    return matches(Record(0, 0, event), EventMatch.model_validate(wanted), ops)  # type: ignore[arg-type]


def test_a_match_narrows_by_engine_method_and_field():
    assert match(add(1, "x"), event="add", engine=1)
    assert not match(add(1, "x"), event="add", engine=0)
    assert not match(add(1, "x"), event="abort")
    assert match(seen(0, 1), event="utility", method="is_sleeping")
    assert not match(seen(0, 1), event="utility", method="sleep")
    assert match(wave(0, 4, 1), event="start_wave", where={"wave": 4, "exclude": 1})
    assert not match(wave(0, 4, 1), event="start_wave", where={"exclude": None})


def test_lists_of_a_scenario_match_tuples_of_events():
    assert match(abort(0, "x", "y"), event="abort", where={"request_ids": ["x", "y"]})
    assert match(out(0, "x", 1, 2), event="output", where={"tokens": [1, 2]})


def test_a_field_that_the_event_lacks_is_an_error():
    with pytest.raises(UnknownKindError, match="no field of 'add'"):
        match(add(1, "x"), event="add", where={"nonsense": 1})


def test_a_request_matches_by_op_and_by_any_of_its_ids():
    assert match(add(1, "x-0123abcd", external="x"), event="add", request="one")
    assert match(add(1, "cmpl-x-0123abcd", external="cmpl-x"), event="add", request="one")
    assert match(abort(0, "y", "x"), event="abort", request="one")
    assert match(out(0, "x"), event="output", request="one")
    assert match(CallOutput("one", (), None), event="call-output", request="one")
    assert not match(add(1, "y"), event="add", request="one")
    assert not match(reply(0, 1), event="reply", request="one")


def test_a_call_of_a_shared_id_matches_its_own_op_only():
    assert match(call("one", external="x"), event="call-started", request="one")
    assert not match(call("two", external="x"), event="call-started", request="one")
