"""The HTTP APIs: what a call becomes, and what its answer means."""

from __future__ import annotations

import json

import pytest

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces import (
    HTTP_SURFACES,
    EventParser,
    Reading,
    error_message,
    merged,
)
from harness.targets.vllm_rs.http_surfaces.sse import ServerEvent


def read(name, *events):
    """Read events (name, data) of one surface; returns the reading and what the caller got."""
    seen = []
    reading = Reading(lambda tokens, finish, text="": seen.append((tokens, finish, text)))
    for kind, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        HTTP_SURFACES[name].event(ServerEvent(kind, text), reading)
    return reading, seen


def answer(name, body):
    seen = []
    reading = Reading(lambda tokens, finish, text="": seen.append((tokens, finish, text)))
    HTTP_SURFACES[name].answer(body, reading)
    return reading, seen


def test_a_call_becomes_the_body_of_its_api():
    call = CallStep(id="a", prompt=[104, 105], max_tokens=4, stop="x")
    bodies = {n: api.body(call, "m", stream=False) for n, api in HTTP_SURFACES.items()}
    assert bodies["http"]["prompt"] == [104, 105]
    assert bodies["chat"]["messages"] == [{"role": "user", "content": "hi"}]
    assert bodies["chat-batch"]["messages"] == [[{"role": "user", "content": "hi"}]]
    assert bodies["responses"]["input"] == "hi"
    assert bodies["messages"]["stop_sequences"] == ["x"]
    assert bodies["generate"]["token_ids"] == [104, 105]
    assert bodies["generate"]["sampling_params"] == {"max_tokens": 4}
    assert [b.get("stop") for b in bodies.values()] == [["x"], ["x"], ["x"], ["x"], None, None]


def test_keys_of_a_step_are_merged_into_mappings_and_replace_the_rest():
    body = {"a": 1, "deep": {"x": 1, "y": {"z": 1}}}
    assert merged(body, {"a": 2, "deep": {"y": {"w": 2}}, "new": []}) == {
        "a": 2,
        "deep": {"x": 1, "y": {"z": 1, "w": 2}},
        "new": [],
    }
    assert body["deep"] == {"x": 1, "y": {"z": 1}}


CHAT = [
    ("", {"choices": [{"delta": {"role": "assistant"}}]}),
    ("", {"choices": [{"delta": {"content": "a"}, "token_ids": [97]}]}),
    ("", {"choices": [{"delta": {}, "finish_reason": "length"}]}),
    ("", {"choices": [], "usage": {"completion_tokens": 1}}),
    ("", "[DONE]"),
]


def test_a_stream_of_chunks_gives_pieces_the_finish_and_the_last_body():
    reading, seen = read("chat", *CHAT)
    assert seen == [((97,), None, "a"), ((), "length", "")]
    assert (reading.text, reading.finish, reading.over, reading.overrun) == (
        "a",
        "length",
        True,
        False,
    )
    assert reading.last["usage"] == {"completion_tokens": 1}


def test_a_stream_that_is_cut_off_is_not_over_and_one_that_goes_on_is_overrun():
    cut, _ = read("chat", *CHAT[:-1])
    assert not cut.over
    overrun, seen = read("chat", *CHAT, CHAT[1])
    assert overrun.overrun
    assert len(seen) == 2


def test_an_error_event_is_a_failure_with_its_code():
    error = {"error": {"message": "boom", "code": 503}}
    reading, seen = read("http", ("", error), ("", "[DONE]"))
    assert (reading.failure, reading.failure_code, reading.finish, seen) == ("boom", 503, None, [])


@pytest.mark.parametrize("name", ["http", "chat", "chat-batch", "generate"])
def test_a_whole_answer_gives_tokens_text_finish_and_transfer_parameters(name):
    choice = {"token_ids": [97, 98], "finish_reason": "abort"}
    text = "" if name == "generate" else "ab"
    choice |= {"text": text} if name == "http" else {"message": {"content": text or None}}
    reading, seen = answer(name, {"choices": [choice], "kv_transfer_params": {"x": 1}})
    assert seen == [((97, 98), "abort", text)]
    assert reading.kv_transfer_params == {"x": 1}


@pytest.mark.parametrize(
    ("status", "finish"),
    [("completed", "stop"), ("incomplete", "length"), ("cancelled", "abort")],
)
def test_a_response_s_status_is_its_finish_reason(status, finish):
    item = {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}
    reading, seen = answer("responses", {"status": status, "output": [item]})
    assert (seen, reading.failure) == ([((), finish, "ab")], None)


def test_a_failed_response_is_a_failure_in_one_answer_and_in_a_stream():
    failed = {"status": "failed", "error": {"code": "server_error", "message": "boom"}}
    assert answer("responses", failed)[0].failure == "boom"
    reading, _ = read(
        "responses",
        ("response.created", {"type": "response.created"}),
        ("response.output_text.delta", {"type": "response.output_text.delta", "delta": "a"}),
        ("response.failed", {"type": "response.failed", "response": failed}),
    )
    assert (reading.failure, reading.text, reading.over) == ("boom", "a", True)


def test_a_streamed_response_ends_with_its_terminal_event():
    events = [
        ("x", {"type": "response.output_text.delta", "delta": "ab"}),
        ("x", {"type": "response.incomplete", "response": {"status": "incomplete"}}),
    ]
    reading, seen = read("responses", *events)
    assert (reading.over, reading.overrun) == (True, False)
    assert seen == [((), None, "ab"), ((), "length", "")]
    assert read("responses", *events, events[0])[0].overrun


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("stop_sequence", "stop")],
)
def test_messages_show_text_and_stop_reason(reason, finish):
    body = {"content": [{"type": "text", "text": "ab"}], "stop_reason": reason}
    assert answer("messages", body)[1] == [((), finish, "ab")]
    reading, seen = read(
        "messages",
        ("message_start", {"type": "message_start"}),
        ("content_block_delta", {"type": "content_block_delta", "delta": {"text": "ab"}}),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": reason}}),
        ("message_stop", {"type": "message_stop"}),
    )
    assert seen == [((), None, "ab"), ((), finish, "")]
    assert reading.over


def test_an_error_event_of_messages_ends_its_stream():
    error = {"type": "error", "error": {"type": "api_error", "message": "boom"}}
    reading, _ = read("messages", ("error", error))
    assert (reading.failure, reading.over) == ("boom", True)


def test_events_are_found_across_chunks_and_comments_are_skipped():
    parser = EventParser()
    data = b': keep-alive\n\nevent: a\r\ndata: {"x":\r\ndata: 1}\r\n\r\ndata: \xc3\xa9\n\nda'
    found = [event for byte in data for event in parser.feed(bytes([byte]))]
    assert found == [ServerEvent("a", '{"x":\n1}'), ServerEvent("", "é")]
    assert list(parser.feed(b"ta: z\n\n")) == [ServerEvent("", "z")]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error":{"message":"boom","type":"server_error","code":500}}', "boom"),
        ('{"error":"boom"}', '{"error":"boom"}'),
        ("[1]", "[1]"),
        ("plain words", "plain words"),
        ("", ""),
    ],
)
def test_the_message_of_an_error_body_is_found_or_the_body_is_it(body, message):
    assert error_message(body) == message
