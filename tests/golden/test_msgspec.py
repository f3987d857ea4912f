"""Our bytes against vLLM's published structs, rebuilt with the library that vLLM uses."""

from __future__ import annotations

import pytest

from client.protocol.codec import Codec
from client.protocol.ids import CallId, RequestId, Wave
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FinishReason,
    RequestError,
    UtilityOutput,
)
from client.protocol.profiles import profile_for

RELEASES = ("0.22.0", "0.25.0", "0.29.0", "0.33.0")
STATS = {
    "num_running_reqs": 1,
    "num_waiting_reqs": 2,
    "num_skipped_waiting_reqs": 0,
    "step_counter": 3,
    "current_wave": 4,
    "kv_cache_usage": 0.5,
    "prefix_cache_stats": {
        "reset": False,
        "requests": 1,
        "queries": 2,
        "hits": 3,
        "preempted_requests": 0,
        "preempted_queries": 0,
        "preempted_hits": 0,
    },
    "kv_cache_eviction_events": [],
    "waiting_lora_adapters": {},
    "running_lora_adapters": {"a": 1},
}


@pytest.fixture(params=RELEASES)
def release(request):
    return request.param


@pytest.fixture
def codec(release):
    return Codec(profile_for(release))


@pytest.fixture
def theirs(msgspec_types, release):
    return msgspec_types.structs_for(release)


def full_request(release):
    values = {
        "request_id": "r-1",
        "prompt_token_ids": [1, 2, 300, 70_000],
        "sampling_params": {"max_tokens": 5, "stop_token_ids": [7], "logit_bias": {3: 1}},
        "arrival_time": 12.5,
        "lora_request": ["one", 1, "path", None, False, False],
        "cache_salt": "s",
        "data_parallel_rank": 3,
        "prompt_is_token_ids": [True, False],
        "client_index": 2,
        "current_wave": 9,
        "priority": -4,
        "trace_headers": {"a": "b"},
        "resumable": True,
        "external_req_id": "r",
        "reasoning_ended": False,
        "reasoning_parser_kwargs": {"chat_template_kwargs": {}},
        "abort_immediately": True,
    }
    if release >= "0.28":
        values["session_id"] = "s-1"
    if release >= "0.31":
        values["kv_hints"] = {"x": 1}
    return values


def row_values(release):
    values = {
        "request_id": "r-1",
        "new_token_ids": [5, 6],
        "finish_reason": FinishReason.STOP,
        "stop_reason": "end",
        "kv_transfer_params": {"a": [1, None]},
        "trace_headers": {"t": "u"},
        "prefill_stats": {"num_prompt_tokens": 3},
        "num_nans_in_logits": 1,
    }
    if release >= "0.26":
        values["ec_transfer_params"] = {"b": 2}
    if release >= "0.28":
        values["mm_cache_miss_hashes"] = ["h"]
    if release >= "0.29":
        values["spec_decode_metrics"] = {"num_spec_tokens": 1}
    return values


def test_default_request_encodes_to_bytes_of_msgspec(codec, theirs):
    wanted = theirs.request("r", [1], None, None, None, 1.0, None, None, None)
    ours = codec.encode_add(
        EngineCoreRequest(RequestId("r"), prompt_token_ids=(1,), arrival_time=1.0)
    )
    assert ours == [b"\x00", theirs.encode(wanted)]


def test_full_request_encodes_to_bytes_of_msgspec(codec, theirs, release):
    values = full_request(release)
    wanted = theirs.request(**{"mm_features": None, "pooling_params": None, **values})
    assert codec.encode_add(EngineCoreRequest(**values)) == [b"\x00", theirs.encode(wanted)]


def test_request_is_read_by_msgspec_and_back(codec, theirs, release):
    values = full_request(release)
    _, body = codec.encode_add(EngineCoreRequest(**values))
    read = theirs.decode(body, theirs.request)
    assert {name: getattr(read, name) for name in values} == values
    again = codec.decode_engine_input([b"\x00", theirs.encode(read)]).request
    assert list(again.prompt_token_ids) == values["prompt_token_ids"]
    assert (again.current_wave, again.data_parallel_rank) == (9, 3)


def test_sampling_floats_are_singles_as_from_the_rust_client(codec, theirs):
    request = EngineCoreRequest(RequestId("r"), sampling_params={"temperature": 0.7})
    _, body = codec.encode_add(request)
    assert theirs.decode(body, theirs.request).sampling_params["temperature"] == pytest.approx(
        0.7, abs=1e-7
    )
    assert b"temperature\xca" in body


def test_outputs_encode_to_bytes_of_msgspec(codec, theirs, release):
    values = row_values(release)
    wanted = theirs.outputs(
        engine_index=1,
        outputs=[theirs.output(**values), theirs.output("r-2", [])],
        scheduler_stats=STATS,
        timestamp=2.5,
        finished_requests={"r-1"},
    )
    ours = EngineCoreOutputs(
        engine_index=1,
        outputs=(
            EngineCoreOutput(**values),
            EngineCoreOutput(request_id=RequestId("r-2"), new_token_ids=()),
        ),
        scheduler_stats=STATS,
        timestamp=2.5,
        finished_requests=(RequestId("r-1"),),
    )
    assert codec.encode_outputs(ours) == [theirs.encode(wanted)]


def test_outputs_of_msgspec_decode_to_our_message(codec, theirs, release):
    values = row_values(release)
    body = theirs.encode(
        theirs.outputs(
            outputs=[theirs.output(**values)],
            scheduler_stats=STATS,
            timestamp=2.5,
            finished_requests={"r-1"},
        )
    )
    row = EngineCoreOutput(**{**values, "new_token_ids": (5, 6)})
    if release >= "0.28":
        row = EngineCoreOutput(
            **{**values, "new_token_ids": (5, 6), "mm_cache_miss_hashes": ("h",)}
        )
    assert codec.decode_outputs([body]) == EngineCoreOutputs(
        outputs=(row,), scheduler_stats=STATS, timestamp=2.5, finished_requests=(RequestId("r-1"),)
    )


@pytest.mark.parametrize("finish", list(FinishReason))
def test_finish_reason_has_number_of_msgspec(codec, theirs, msgspec_types, finish):
    row = theirs.output("r", [], finish_reason=msgspec_types.Finish[finish.name])
    body = theirs.encode(theirs.outputs(outputs=[row], timestamp=1.0))
    assert codec.decode_outputs([body]).outputs[0].finish_reason is finish


def test_events_of_msgspec_are_maps(codec, theirs, msgspec_types):
    row = theirs.output("r", [], events=[msgspec_types.Event(2, 1.5)])
    body = theirs.encode(theirs.outputs(outputs=[row], timestamp=1.0))
    assert codec.decode_outputs([body]).outputs[0].events == ({"type": 2, "timestamp": 1.5},)


@pytest.mark.parametrize("value", [None, True, "x", [1, {"a": None}]])
def test_utility_result_has_envelope_of_msgspec(codec, theirs, msgspec_types, value):
    reply = msgspec_types.UtilityOutput(7, None, msgspec_types.Result(value))
    body = theirs.encode(theirs.outputs(timestamp=1.0, utility_output=reply))
    ours = EngineCoreOutputs(
        timestamp=1.0, utility_output=UtilityOutput(call_id=CallId(7), value=value)
    )
    assert codec.encode_outputs(ours) == [body]
    assert codec.decode_outputs([body]) == ours


def test_utility_failure_has_bytes_of_msgspec(codec, theirs, msgspec_types):
    reply = msgspec_types.UtilityOutput(-2, "boom")
    body = theirs.encode(theirs.outputs(timestamp=1.0, utility_output=reply))
    output = UtilityOutput(call_id=CallId(-2), failure_message="boom")
    ours = EngineCoreOutputs(timestamp=1.0, utility_output=output)
    assert codec.encode_outputs(ours) == [body]
    assert codec.decode_outputs([body]) == ours


@pytest.mark.parametrize("field", ["wave_complete", "start_wave"])
def test_wave_notice_has_bytes_of_msgspec(codec, theirs, field):
    body = theirs.encode(theirs.outputs(engine_index=3, timestamp=1.0, **{field: 70_000}))
    ours = EngineCoreOutputs(engine_index=3, timestamp=1.0, **{field: Wave(70_000)})
    assert codec.encode_outputs(ours) == [body]


def test_request_error_of_newest_release_is_a_map(msgspec_types):
    theirs = msgspec_types.structs_for("0.33.0")
    codec = Codec(profile_for("0.33.0"))
    error = msgspec_types.Error("engine_paused", "paused", retryable=True)
    row = theirs.output("r", [], finish_reason=3, error=error)
    body = theirs.encode(theirs.outputs(outputs=[row], timestamp=1.0))
    ours = EngineCoreOutput(
        RequestId("r"),
        (),
        finish_reason=FinishReason.ERROR,
        error=RequestError("engine_paused", "paused", retryable=True),
    )
    assert codec.decode_outputs([body]).outputs == (ours,)
    assert codec.encode_outputs(EngineCoreOutputs(outputs=(ours,), timestamp=1.0)) == [body]
