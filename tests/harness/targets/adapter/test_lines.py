"""Lines: what is read, what is refused and with which words, and the schema of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.events import EngineConnected
from harness.adapters.outlet import plain_fields
from harness.targets.adapter import lines, schema
from harness.targets.adapter.parsing import LineError, keyword, parse, shown, to_bytes
from harness.targets.adapter.values import from_plain, to_plain
from harness.trace.kinds import FIELDS_OF
from tests.support.event_samples import instances

ROOT = Path(__file__).parents[4]
START = lines.Start(
    id=1,
    release="0.33.0",
    mutant=None,
    mode="handshake-owner",
    ranks=(0, 1),
    engine_count=2,
    engine_start_index=0,
    data_parallel_size=2,
    coordinator="none",
    coordinator_address=None,
    ready_timeout_s=30.0,
    utility_timeout_s=None,
    endpoints=lines.Endpoints(handshake="tcp://127.0.0.1:1", input="a", output="b"),
)


def line(**keys: object) -> bytes:
    return json.dumps(keys).encode()


@pytest.mark.parametrize("kind", lines.EVENT_CLASSES)
@settings(max_examples=20)
@given(data=st.data())
def test_event_of_each_kind_survives_its_line(kind: str, data: st.DataObject) -> None:
    cls = lines.EVENT_CLASSES[kind]
    event = data.draw(instances(cls))
    fields = plain_fields(event, dict.fromkeys(FIELDS_OF[cls]))
    taken = parse(line(say="event", kind=kind, fields=fields))
    assert isinstance(taken, lines.EventLine)
    assert taken.fields == event


def test_identity_is_bytes_and_travels_as_hex() -> None:
    fields = {"engine": 1, "identity": "0100"}
    taken = parse(line(say="event", kind="connected", fields=fields))
    assert isinstance(taken, lines.EventLine)
    assert taken.fields == EngineConnected(1, b"\x01\x00")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "it is not JSON (Expecting value: line 1 column 1 (char 0))"),
        (b"ready!", "it is not JSON (Expecting value: line 1 column 1 (char 0))"),
        (b"\xff", "it is not JSON ('utf-8' codec can't decode byte 0xff in position 0: invalid start byte)"),
        (b"[1]", "it is a list, not a JSON object"),
        (b"7", "it is a number, not a JSON object"),
        (b"{}", "key 'say' is missing"),
        (b'{"say":"ende"}', "key 'say' is \"ende\"; nearest: 'ended'; known: hello, reply, output, ended, waiting, broken, event"),
        (b'{"say":["x"]}', "key 'say' is [\"x\"]; known: hello, reply, output, ended, waiting, broken, event"),
        (b'{"say":"event"}', "key 'kind' is missing"),
        (b'{"say":"reply"}', "key 'id': Field required"),
        (b'{"say":"reply","id":"1"}', "key 'id': Input should be a valid integer"),
        (b'{"say":"ended","op":"a","outcome":"done"}', "key 'outcome': Input should be 'finished', 'failed' or 'cancelled'"),
        (b'{"say":"output","op":"a","token":[1]}', "key 'token': Extra inputs are not permitted"),
        (b'{"say":"event","kind":"dropped-output","fields":{}}', "key 'fields.request_id': Field required"),
        (b'{"say":"event","kind":"dropped-output","fields":{"request_id":"a","x":1}}', "key 'fields.x': Unexpected keyword argument"),
    ],
)  # fmt: skip
def test_line_of_no_meaning_is_refused_with_key_and_reason(raw: bytes, message: str) -> None:
    with pytest.raises(LineError) as refused:
        parse(raw)
    assert str(refused.value) == message


def test_many_problems_are_counted_not_listed() -> None:
    keys = {f"k{n}": n for n in range(6)}
    with pytest.raises(LineError, match=r"'k0'.*'k1'.*'k2'.*; and 3 more$"):
        parse(line(say="broken", message="", **keys))


def test_line_shown_to_people_is_cut_and_has_no_control_characters() -> None:
    assert shown(b"a\x1b[31mred\x00\n") == r"a\x1b[31mred\x00"
    assert shown(b"x" * 1000) == "x" * 300 + "… (1000 bytes)"


@pytest.mark.parametrize("command", lines.COMMANDS)
def test_command_has_a_word_of_its_own(command: type[lines.Command]) -> None:
    words = [keyword(other) for other in lines.COMMANDS]
    assert words.count(keyword(command)) == 1


def test_command_is_written_with_all_its_keys() -> None:
    call = json.loads(to_bytes(lines.Call(op="a", request_id="a", prompt=(1,), max_tokens=3)))
    assert set(call) == set(lines.Call.model_fields)
    assert to_bytes(lines.Ping(id=4)) == b'{"do":"ping","id":4}\n'
    start = json.loads(to_bytes(START))
    assert start["do"] == "start"
    assert start["endpoints"]["coordinator_input"] is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.integers() | st.binary(max_size=3), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(VALUES)
def test_value_survives_json(value: object) -> None:
    assert from_plain(json.loads(json.dumps(to_plain(value)))) == value


def test_value_without_a_form_is_refused() -> None:
    with pytest.raises(TypeError, match="a set has no form in a line"):
        to_plain([{1}])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"$bytes": "00", "more": 1}, "no key beside it"),
        ({"$bytes": 1}, "takes hex digits"),
        ({"$map": {}}, "takes a list of pairs"),
        ({"$map": [[1]]}, "takes pairs"),
        ({"$map": [[[1], 2]]}, "a list or a map is no key"),
    ],
)
def test_value_in_a_wrong_form_is_refused(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_plain([value])


def test_schema_in_the_docs_is_current() -> None:
    text = (ROOT / "docs" / schema.SCHEMA_FILE).read_text(encoding="utf-8")
    assert text == schema.schema_text(), "run: python -m harness.targets.adapter.schema"


def test_schema_says_every_key_of_a_command_is_there() -> None:
    start = schema.line_schema()["$defs"]["Start"]
    assert set(start["required"]) == set(lines.Start.model_fields)
    assert start["additionalProperties"] is False
