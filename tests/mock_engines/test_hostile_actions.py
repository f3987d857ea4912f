"""What hostile engines need: scripted msgpack, many rows in one message, lists of any length."""

from __future__ import annotations

import msgpack
import pytest

from mock_engines import events
from mock_engines.behaviours.model import Action
from mock_engines.behaviours.registry import action_problem
from mock_engines.frames import parse_frame
from mock_engines.outlets import ScriptError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("json:[0, [], null, 0.5]", [0, [], None, 0.5]),
        ('json:{"a": 18446744073709551615}', {"a": 2**64 - 1}),
        ('json:["@a", {"b": "@a"}, "c@"]', ["id-a", {"b": "id-a"}, "c@"]),
    ],
)
def test_json_frame_is_the_msgpack_value_with_requests_named_by_their_wire_id(text, value):
    assert msgpack.unpackb(parse_frame(text, lambda name: f"id-{name}")) == value


@pytest.mark.parametrize("text", ["json:[", "json:18446744073709551616", "zz"])
def test_frame_that_is_none_is_refused_before_the_run(text):
    problem = action_problem(Action.model_validate({"raw": {"frames": [text]}}), "act")
    assert problem is not None
    assert text in problem


def test_raw_names_a_request_of_its_engine_and_repeats(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()
        frame = 'json:[0, [["@a", [7]]], null, 0.0]'
        await run.cluster.act(0, run.actions({"raw": {"frames": [frame], "times": 2}}))
        with pytest.raises(ScriptError, match="'nobody', which this engine never had"):
            await run.cluster.act(0, run.actions({"raw": {"frames": ['json:["@nobody"]']}}))
        await run.settle()

    run = play(story, specs=[{"rules": [{"on": "add", "do": {"hang": True}}]}])
    assert run.peer.rows() == [("a", (7,), None)] * 2
    assert len(run.seen(events.RawSent)) == 2


def test_rows_and_finished_ids_travel_in_one_message(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    do = {"output": {"tokens": [7, 8], "finish": "stop", "rows": 3, "finished": 2}}
    run = play(story, specs=[{"rules": [{"on": "add", "do": do}]}])
    (batch,) = run.peer.kinds
    assert run.peer.rows() == [("a", (7, 8), "stop")] * 3
    assert list(batch.finished_requests) == ["a-0123abcd"] * 2
    assert len(run.seen(events.OutputSent)) == 3
    assert [event.request_ids for event in run.seen(events.FinishedOnlySent)] == [
        ("a-0123abcd", "a-0123abcd")
    ]


def test_row_alone_lists_nothing_as_finished(play):
    async def story(run):
        await run.peer.add("a")
        await run.settle()

    do = {"output": {"tokens": [7], "finish": "stop"}}
    run = play(story, specs=[{"rules": [{"on": "add", "do": do}]}])
    assert run.peer.kinds[0].finished_requests is None
    assert run.seen(events.FinishedOnlySent) == []


def test_reply_is_a_list_of_as_many_as_told(play):
    async def story(run):
        for _ in range(2):
            await run.peer.utility("collective_rpc", "echo", None, [], {})
        await run.settle()

    rules = [
        {"on": "utility", "nth": 1, "do": {"reply_with": {"value": [1], "list_of": 3}}},
        {"on": "utility", "do": {"reply_with": {"value": 1, "list_of": 0}}},
    ]
    run = play(story, specs=[{"rules": rules}])
    assert run.peer.replies() == [(1, None, [[1], [1], [1]]), (2, None, [])]
