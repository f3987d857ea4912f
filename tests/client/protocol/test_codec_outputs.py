"""How strictly outputs are read, row by row of the protocol page, and how they are classed."""

from __future__ import annotations

from collections import deque

import msgpack
import pytest

from client.protocol.codec import Codec, DecodeError, EncodeError
from client.protocol.ids import CallId, RequestId, Wave
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineDead,
    FinishReason,
    RequestBatch,
    RequestError,
    StartWave,
    Unclassified,
    UtilityOutput,
    UtilityReply,
    WaveComplete,
)
from client.protocol.profiles import RELEASES, profile_for

EMPTY = [0, [], None, 1.0, None, None, None, None]
PREFIX_CACHE = dict.fromkeys(
    ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits"), 0
) | {"reset": False}
STATS = {
    "num_running_reqs": 1,
    "num_waiting_reqs": 2,
    "step_counter": 0,
    "current_wave": 0,
    "kv_cache_usage": 0.0,
    "prefix_cache_stats": PREFIX_CACHE,
    "kv_cache_eviction_events": [],
}
LORA = {"waiting_lora_adapters": {}, "running_lora_adapters": {}}


def codec_for(release):
    return Codec(profile_for(release))


def envelope(**changes):
    names = ("index", "outputs", "stats", "timestamp", "utility", "finished", "complete", "start")
    row = dict(zip(names, EMPTY, strict=True)) | changes
    return [msgpack.packb(list(row.values()))]


def row_frames(codec, **changes):
    values = {"request_id": "r", "new_token_ids": [1], "num_nans_in_logits": 0} | changes
    return envelope(outputs=[[values.get(name) for name in codec.profile.output_field_names]])


def decodes(codec, frames):
    try:
        codec.decode_outputs(frames)
    except DecodeError:
        return False
    return True


# --- fewer and more trailing fields ----------------------------------------------------------


@pytest.mark.parametrize("length", range(9))
def test_envelope_with_fewer_fields_decodes(codec, length):
    decoded = codec.decode_outputs([msgpack.packb(EMPTY[:length])])
    assert decoded == EngineCoreOutputs(timestamp=1.0 if length > 3 else 0.0)


@pytest.mark.parametrize("release", RELEASES)
def test_envelope_with_more_fields_is_refused_beyond_its_bound(release):
    codec, limit = codec_for(release), 9 if release >= "0.32" else 8
    taken = [n for n in range(8, 12) if decodes(codec, [msgpack.packb(EMPTY + [None] * (n - 8))])]
    assert taken == list(range(8, limit + 1))


@pytest.mark.parametrize("release", RELEASES)
def test_output_row_takes_two_fields_up_to_its_bound(release):
    codec = codec_for(release)
    full = ["r", [1], *[None] * 11]
    full[codec.profile.output_field_names.index("num_nans_in_logits") :] = [0]
    longest = {"0.26": 14, "0.27": 14, "0.28": 16, "0.29": 17, "0.30": 17}.get(release[:4], 13)
    limit = 24 if release >= "0.31" else longest
    taken = [
        n
        for n in range(26)
        if decodes(codec, envelope(outputs=[(full + [None] * 26)[:n]])) or n > 24
    ]
    assert taken == [*range(2, limit + 1), 25]


def test_output_row_ignores_junk_behind_its_fields_since_0_31():
    row = ["r", [1], *[None] * 11, 0, *[None] * 5, "junk", msgpack.ExtType(5, b"")]
    frames = envelope(outputs=[row])
    assert codec_for("0.33.0").decode_outputs(frames).outputs[0].request_id == "r"
    with pytest.raises(DecodeError, match="invalid length 21, expected 2 to 17 elements"):
        codec_for("0.30.0").decode_outputs(frames)


@pytest.mark.parametrize(
    ("utility", "taken"),
    [
        ([], False),
        ([9], True),
        ([9, None], True),
        ([9, None, None], True),
        ([9, None, None, None], False),
        ([9, None, []], True),
        ([9, None, [None]], True),
        ([9, None, [None, 1]], True),
        ([9, None, [None, 1, 2]], False),
        ([9, None, 3], False),
    ],
)
def test_utility_output_and_its_envelope_have_bounds(codec, utility, taken):
    assert decodes(codec, envelope(utility=utility)) is taken


@pytest.mark.parametrize("utility", [[9], [9, None, None], [9, None, []], [9, None, [None]]])
def test_utility_output_without_value_reads_as_nil(newest, utility):
    decoded = newest.decode_outputs(envelope(utility=utility)).utility_output
    assert decoded == UtilityOutput(call_id=CallId(9), value=None)


@pytest.mark.parametrize("type_info", [None, "x", ["builtins", "int"], {"a": 1}])
def test_type_info_of_utility_result_is_ignored(newest, type_info):
    frames = envelope(utility=[9, None, [type_info, 7]])
    assert newest.decode_outputs(frames).utility_output.value == 7


@pytest.mark.parametrize("call_id", [-(2**63), -2, -1, 0, 2**63, 2**64 - 1])
def test_call_id_may_have_64_bits_of_either_sign(newest, call_id):
    assert newest.decode_outputs(envelope(utility=[call_id])).utility_output.call_id == call_id


# --- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", range(5))
def test_finish_reason_in_range_is_named(newest, value):
    frames = row_frames(newest, finish_reason=value)
    assert newest.decode_outputs(frames).outputs[0].finish_reason is FinishReason(value)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("finish_reason", 5, "expected integer in 0..4, got int 5"),
        ("finish_reason", -1, "expected integer in 0..4, got int -1"),
        ("finish_reason", "stop", "expected integer in 0..4, got str 'stop'"),
        ("finish_reason", True, "expected integer in 0..4, got bool True"),
        ("num_nans_in_logits", None, "expected integer in 0..4294967295, got nil"),
        ("num_nans_in_logits", -1, "expected integer in 0..4294967295, got int -1"),
        ("new_token_ids", [2**32], "expected integer in 0..4294967295, got int 4294967296"),
        ("new_token_ids", None, "expected array, got nil"),
        ("request_id", None, "expected string, got nil"),
        ("request_id", b"\xff", "expected UTF-8, got bytes b'\\xff'"),
        ("stop_reason", 1.5, "expected u32 token id or string, got float 1.5"),
        ("kv_transfer_params", {1: 2}, "expected string, got int 1"),
        ("mm_cache_miss_hashes", [1], "expected string, got int 1"),
    ],
)
def test_wrong_value_is_refused_with_message_field_and_reason(newest, field, value, reason):
    with pytest.raises(DecodeError) as caught:
        newest.decode_outputs(row_frames(newest, **{field: value}))
    error = caught.value
    assert (error.message_type, error.field) == ("EngineCoreOutputs", f"EngineCoreOutput.{field}")
    assert error.reason == reason
    assert str(error) == (
        f"messagepack decode failed for EngineCoreOutputs: EngineCoreOutput.{field}: {reason}"
    )


@pytest.mark.parametrize(
    ("part", "value", "field"),
    [
        ("index", -1, "EngineCoreOutputs.engine_index"),
        ("index", 2**32, "EngineCoreOutputs.engine_index"),
        ("outputs", None, "EngineCoreOutputs.outputs"),
        ("timestamp", "now", "EngineCoreOutputs.timestamp"),
        ("finished", {}, "EngineCoreOutputs.finished_requests"),
        ("finished", [1], "EngineCoreOutputs.finished_requests"),
        ("complete", 2**32, "EngineCoreOutputs.wave_complete"),
        ("start", 2**32, "EngineCoreOutputs.start_wave"),
        ("start", -1, "EngineCoreOutputs.start_wave"),
        ("utility", ["a"], "UtilityOutput.call_id"),
        ("utility", [1, 2], "UtilityOutput.failure_message"),
        ("stats", {}, "SchedulerStats.num_running_reqs"),
        ("stats", 3, "EngineCoreOutputs.scheduler_stats"),
    ],
)
def test_wrong_part_of_envelope_names_its_field(codec, part, value, field):
    with pytest.raises(DecodeError) as caught:
        codec.decode_outputs(envelope(**{part: value}))
    assert caught.value.field == field


@pytest.mark.parametrize("part", ["complete", "start"])
def test_largest_u32_is_a_wave(codec, part):
    decoded = codec.decode_outputs(envelope(**{part: 2**32 - 1}))
    assert 2**32 - 1 in (decoded.wave_complete, decoded.start_wave)


def test_weight_version_must_be_a_string_or_nil(newest):
    assert newest.decode_outputs([msgpack.packb([*EMPTY, "w"])]).weight_version == "w"
    with pytest.raises(DecodeError) as caught:
        newest.decode_outputs([msgpack.packb([*EMPTY, 1])])
    assert caught.value.field == "EngineCoreOutputs.weight_version"


def test_bytes_behind_the_body_and_unused_frames_are_ignored(codec):
    (body,) = envelope(finished=[])
    assert codec.decode_outputs([body + b"\xc1", b"x", b""]) == codec.decode_outputs([body])


def test_error_is_a_map_or_an_array_and_retryable_may_be_absent(newest):
    wanted = RequestError("c", "m", retryable=True)
    calm = RequestError("c", "m", retryable=False)
    forms = {
        ("c", "m", True): wanted,
        ("c", "m"): calm,
    }
    for form, error in forms.items():
        frames = row_frames(newest, error=list(form))
        assert newest.decode_outputs(frames).outputs[0].error == error
    as_map = {"code": "c", "message": "m", "more": 1}
    assert newest.decode_outputs(row_frames(newest, error=as_map)).outputs[0].error == calm
    with pytest.raises(DecodeError, match=r"RequestError\.message: missing field `message`"):
        newest.decode_outputs(row_frames(newest, error={"code": "c"}))


# --- structs inside a row --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "taken"),
    [
        ([0, 1.0], False), ([1, 1.0], True), ([2, 1], True), ([3, 1.0], True), ([4, 1.0], False),
        ([True, 1.0], False), ([1, "now"], False), ([1], False), ([1, 1.0, None], False),
        ({"type": 1, "timestamp": 1.0, "more": 2}, True), ({"type": 1}, False),
        ({"timestamp": 1.0}, False), ({"type": 4, "timestamp": 1.0}, False), (None, False),
        (1, False), ({1: 2}, False),
    ],
)  # fmt: skip
def test_event_of_a_request_has_one_of_three_types_and_a_time(newest, event, taken):
    frames = row_frames(newest, events=[[1, 0.5], event])
    assert decodes(newest, frames) is taken
    if taken:
        assert newest.decode_outputs(frames).outputs[0].events == ([1, 0.5], event)


@pytest.mark.parametrize("field", ["prefill_stats", "spec_decode_metrics"])
@pytest.mark.parametrize(
    ("value", "taken"),
    [({}, True), ([], True), ({"other": "x"}, True), (1, False), ("x", False), (True, False)],
)
def test_metrics_of_a_request_are_a_map_or_an_array(newest, field, value, taken):
    frames = row_frames(newest, **{field: value})
    assert decodes(newest, frames) is taken
    if taken:
        assert getattr(newest.decode_outputs(frames).outputs[0], field) == value


@pytest.mark.parametrize(
    ("field", "row"),
    [("prefill_stats", [1, 2, 3, 4, 5, 6]), ("spec_decode_metrics", [1, [2, 3], 4, [5], [6]])],
)
def test_metrics_of_a_request_have_their_fields_in_order_and_no_more(newest, field, row):
    for length in range(len(row) + 1):
        frames = row_frames(newest, **{field: row[:length]})
        assert getattr(newest.decode_outputs(frames).outputs[0], field) == row[:length]
    with pytest.raises(DecodeError, match=f"invalid length {len(row) + 1}, expected 0 to"):
        newest.decode_outputs(row_frames(newest, **{field: [*row, 7]}))
    for position in range(len(row)):
        wrong = [*row[:position], "x", *row[position + 1 :]]
        assert not decodes(newest, row_frames(newest, **{field: wrong})), position


@pytest.mark.parametrize(
    ("field", "bound"), [("prefill_stats", 2**32 - 1), ("spec_decode_metrics", 2**64 - 1)]
)
def test_metrics_of_a_request_are_counts_of_their_width(newest, field, bound):
    name = {"prefill_stats": "num_cached_tokens", "spec_decode_metrics": "num_draft_tokens"}[field]
    for value, taken in ((0, True), (bound, True), (-1, False), (1.5, False), (None, False)):
        assert decodes(newest, row_frames(newest, **{field: {name: value}})) is taken, value


@pytest.mark.parametrize(
    ("error", "taken"),
    [
        (["c"], False), (["c", "m", True, 1], False), (["c", "m", 1], False), (["c", 1], False),
        ([1, "m"], False), ({"code": "c", "message": "m", "retryable": None}, False),
        ({"message": "m"}, False), (1, False), ([b"c", b"m"], True),
    ],
)  # fmt: skip
def test_error_of_a_request_has_a_code_and_a_message(newest, error, taken):
    assert decodes(newest, row_frames(newest, error=error)) is taken


@pytest.mark.parametrize(
    ("reason", "taken"),
    [
        (0, True), (2**32 - 1, True), (2**32, False), (-1, False), ("x", True), (b"x", True),
        (b"\xff", False), (True, False), ([], False),
    ],
)  # fmt: skip
def test_stop_reason_is_a_token_or_a_text(newest, reason, taken):
    frames = row_frames(newest, stop_reason=reason)
    assert decodes(newest, frames) is taken
    if taken:
        read = newest.decode_outputs(frames).outputs[0].stop_reason
        assert read == (reason.decode() if isinstance(reason, bytes) else reason)


# --- scheduler stats -------------------------------------------------------------------------


@pytest.mark.parametrize("key", [*STATS, *LORA])
@pytest.mark.parametrize("release", ["0.22.0", "0.23.0", "0.24.0", "0.33.0"])
def test_stats_key_that_the_release_needs_must_be_there(release, key):
    codec = codec_for(release)
    stats = {name: value for name, value in (STATS | LORA).items() if name != key}
    needed = key in STATS or release < "0.24"
    assert decodes(codec, envelope(stats=stats)) is not needed
    assert decodes(
        codec, envelope(stats=stats | {key: (STATS | LORA)[key], "new": object.__name__})
    )


@pytest.mark.parametrize("key", PREFIX_CACHE)
def test_prefix_cache_key_must_be_there(codec, key):
    cache = {name: value for name, value in PREFIX_CACHE.items() if name != key}
    with pytest.raises(DecodeError) as caught:
        codec.decode_outputs(envelope(stats=STATS | LORA | {"prefix_cache_stats": cache}))
    assert caught.value.field == f"PrefixCacheStats.{key}"


EVICTION = {"lifetime_seconds": 1.0, "idle_seconds": 2, "reuse_gaps_seconds": [1, 2.5]}
SPEC_DECODING = {
    "num_spec_tokens": 1, "num_drafts": 2, "num_draft_tokens": 3, "num_accepted_tokens": 4,
    "num_accepted_tokens_per_pos": [5],
}  # fmt: skip
CUDAGRAPH = {
    "num_unpadded_tokens": 1, "num_padded_tokens": 2, "num_paddings": 3, "runtime_mode": "FULL",
}  # fmt: skip
PERF = {"num_flops_per_gpu": 1, "num_read_bytes_per_gpu": 2, "num_write_bytes_per_gpu": 3}


@pytest.mark.parametrize(
    ("key", "sound", "wrong"),
    [
        ("kv_cache_eviction_events", [EVICTION],
         [[EVICTION, 1], {}, [EVICTION, EVICTION | {"reuse_gaps_seconds": [1, "x"]}],
          [EVICTION | {"idle_seconds": None}], [{"idle_seconds": 1}]]),
        ("spec_decoding_stats", SPEC_DECODING,
         [SPEC_DECODING | {"num_accepted_tokens_per_pos": [-1]}, {}, []]),
        ("cudagraph_stats", CUDAGRAPH, [CUDAGRAPH | {"runtime_mode": 1}, {}]),
        ("perf_stats", PERF, [PERF | {"num_flops_per_gpu": 1.5}, {}]),
        ("connector_prefix_cache_stats", PREFIX_CACHE, [PREFIX_CACHE | {"reset": 0}, {}]),
        ("kv_connector_stats", {"any": object.__name__}, [[], {1: 2}]),
        ("num_running_reqs", 2**64 - 1, [-1, 1.0, True, None]),
        ("kv_cache_usage", 1, ["1", None, True]),
    ],
)  # fmt: skip
def test_part_of_the_stats_is_checked_to_its_last_number(codec, key, sound, wrong):
    assert decodes(codec, envelope(stats=STATS | LORA | {key: sound}))
    for value in wrong:
        assert not decodes(codec, envelope(stats=STATS | LORA | {key: value})), value


@pytest.mark.parametrize("key", LORA)
@pytest.mark.parametrize("release", ["0.23.0", "0.24.0"])
def test_loads_of_loras_are_looked_at_while_they_are_required(release, key):
    codec = codec_for(release)
    assert decodes(codec, envelope(stats=STATS | LORA | {key: {"a": 0, "b": 2**64 - 1}}))
    for value in ({"a": 0, "b": -1}, [], {"a": "1"}):
        taken = decodes(codec, envelope(stats=STATS | LORA | {key: value}))
        assert taken is (release == "0.24.0"), value


# --- classes ---------------------------------------------------------------------------------

ROW = EngineCoreOutput(RequestId("r"), (1,))
REPLY = UtilityOutput(call_id=CallId(1), value=True)


def classified(codec, **values):
    return codec.classify(codec.encode_outputs(EngineCoreOutputs(engine_index=3, **values)))


def test_each_part_alone_decides_the_class(codec):
    stats = STATS | LORA
    assert classified(codec, outputs=(ROW,)) == RequestBatch(3, (ROW,), None, None)
    assert classified(codec, scheduler_stats=stats) == RequestBatch(3, (), stats, None)
    assert classified(codec, finished_requests=()) == RequestBatch(3, (), None, ())
    assert classified(codec, utility_output=REPLY) == UtilityReply(3, REPLY)
    assert classified(codec, wave_complete=Wave(4)) == WaveComplete(3, Wave(4))
    assert classified(codec, start_wave=Wave(5)) == StartWave(3, Wave(5))


COMBINATIONS = [
    {},
    {"wave_complete": Wave(0), "start_wave": Wave(0)},
    {"finished_requests": (), "wave_complete": Wave(0)},
    {"outputs": (ROW,), "start_wave": Wave(0)},
    {"outputs": (ROW,), "utility_output": REPLY},
    {"utility_output": REPLY, "wave_complete": Wave(0)},
]


@pytest.mark.parametrize("values", COMBINATIONS, ids=lambda values: "+".join(values) or "empty")
@pytest.mark.parametrize("release", RELEASES)
def test_every_other_combination_has_no_class(release, values):
    codec = codec_for(release)
    if release < "0.25":
        wanted = EngineCoreOutputs(engine_index=3, **values)
        assert classified(codec, **values) == Unclassified(raw=wanted)
    else:
        with pytest.raises(DecodeError, match="invalid wire shape"):
            classified(codec, **values)


def test_weight_version_plays_no_part_in_the_class(newest):
    assert classified(newest, wave_complete=Wave(1), weight_version="w") == WaveComplete(3, Wave(1))
    with pytest.raises(DecodeError, match="invalid wire shape"):
        classified(newest, weight_version="w")


def test_sentinel_counts_as_the_first_frame_only(codec):
    (body,) = envelope(complete=1)
    assert codec.classify([b"ENGINE_CORE_DEAD"]) == EngineDead()
    assert codec.classify([b"ENGINE_CORE_DEAD", b"x"]) == EngineDead()
    assert codec.classify([body, b"ENGINE_CORE_DEAD"]) == WaveComplete(0, Wave(1))
    with pytest.raises(DecodeError):
        codec.classify([b""])


# --- encoding --------------------------------------------------------------------------------


def test_bare_output_leaves_all_out_that_can_be(newest):
    (body,) = newest.encode_outputs(EngineCoreOutputs(outputs=(EngineCoreOutput("r", ()),)))
    assert msgpack.unpackb(body) == [
        0, [["r", [], *[None] * 11, 0, *[None] * 5]], None, 0.0, None, None, None, None, None,
    ]  # fmt: skip


def test_every_field_of_the_release_is_written(codec):
    (body,) = codec.encode_outputs(EngineCoreOutputs(outputs=(ROW,)))
    row = msgpack.unpackb(body)
    assert len(row) == codec.profile.outputs_fields
    assert len(row[1][0]) == codec.profile.output_fields


@pytest.mark.parametrize(
    ("release", "message", "field"),
    [
        ("0.31.0", EngineCoreOutputs(weight_version="w"), "weight_version"),
        ("0.25.0", EngineCoreOutputs(outputs=(EngineCoreOutput(RequestId("r"), (), ec_transfer_params={}),)), "ec_transfer_params"),
        ("0.32.0", EngineCoreOutputs(outputs=(EngineCoreOutput(RequestId("r"), (), error=RequestError("c", "m", retryable=True)),)), "error"),
    ],
)  # fmt: skip
def test_field_that_the_release_has_not_is_refused(release, message, field):
    with pytest.raises(EncodeError, match=f"release {release} has no field {field}"):
        codec_for(release).encode_outputs(message)


@pytest.mark.parametrize("value", [object(), 2**64, {1, 2}, "\ud800"])
def test_value_without_msgpack_form_is_refused_and_the_codec_goes_on(newest, value):
    good = EngineCoreOutputs(utility_output=REPLY)
    before = newest.encode_outputs(good)
    with pytest.raises(EncodeError, match="messagepack encode failed for EngineCoreOutputs"):
        newest.encode_outputs(
            EngineCoreOutputs(utility_output=UtilityOutput(CallId(1), None, value))
        )
    assert newest.encode_outputs(good) == before


@pytest.mark.parametrize("value", [range(3), deque([0, 1, 2]), (0, 1, 2)])
def test_sequence_of_any_kind_is_an_array(newest, value):
    def sent(of):
        return newest.encode_outputs(
            EngineCoreOutputs(utility_output=UtilityOutput(CallId(1), None, of))
        )

    assert sent({"a": [value]}) == sent({"a": [[0, 1, 2]]})
