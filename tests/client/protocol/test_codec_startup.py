"""HELLO, INIT, READY, registration, and the external coordinator's messages."""

from __future__ import annotations

import msgpack
import pytest

from client.protocol.codec import Codec, DecodeError, HandshakeStatusError
from client.protocol.messages import (
    CoordinatorPublish,
    FirstRequestNotice,
    Hello,
    Init,
    Ready,
    ReadyResponse,
)
from client.protocol.profiles import RELEASES, profile_for


def packed(value):
    return msgpack.packb(value)


# --- handshake -------------------------------------------------------------------------------


def test_hello_and_ready_are_maps(codec):
    assert msgpack.unpackb(codec.encode_hello(Hello(local=False, headless=True))) == {
        "status": "HELLO",
        "local": False,
        "headless": True,
    }
    ready = Ready(local=True, headless=False, extra={"parallel_config_hash": "h"})
    assert msgpack.unpackb(codec.encode_ready(ready)) == {
        "status": "READY",
        "local": True,
        "headless": False,
        "parallel_config_hash": "h",
    }


@pytest.mark.parametrize("extra", [{}, {"local": None}, {"unknown": 1}])
def test_handshake_needs_the_status_only(codec, extra):
    assert codec.decode_hello_or_ready(packed({"status": "HELLO", **extra})) == Hello()


@pytest.mark.parametrize("values", [{}, {"status": None}, {"status": "hello"}, {"status": "BYE"}])
def test_handshake_with_other_status_has_an_error_of_its_own(codec, values):
    with pytest.raises(HandshakeStatusError, match="unexpected handshake status"):
        codec.decode_hello_or_ready(packed(values))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"status": 1}, "ReadyMessage.status"),
        ({"status": "HELLO", "local": "x"}, "ReadyMessage.local"),
        ({"status": "HELLO", "headless": 1}, "ReadyMessage.headless"),
        ({"status": "HELLO", 1: 2}, "ReadyMessage"),
        (["HELLO"], "ReadyMessage"),
        (None, "ReadyMessage"),
    ],
)
def test_handshake_of_wrong_type_is_a_decode_error(codec, values, field):
    with pytest.raises(DecodeError) as caught:
        codec.decode_hello_or_ready(packed(values))
    assert type(caught.value) is DecodeError
    assert (caught.value.message_type, caught.value.field) == ("ReadyMessage", field)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({}, "Init.addresses"),
        ({"addresses": {"inputs": ["a"]}}, "Init.outputs"),
        ({"addresses": {"inputs": "a", "outputs": []}}, "Init.inputs"),
        ({"addresses": {"inputs": [], "outputs": [], "coordinator_input": 1}}, "Init.coordinator_input"),
        ({"addresses": {"inputs": [], "outputs": []}}, "Init.parallel_config"),
    ],
)  # fmt: skip
def test_init_without_what_an_engine_needs_is_refused(codec, values, field):
    with pytest.raises(DecodeError) as caught:
        codec.decode_init(packed(values))
    assert caught.value.field == field


def test_init_ignores_unknown_keys(codec):
    body = {"addresses": {"inputs": ["a"], "outputs": ["b"], "x": 1}, "parallel_config": {}, "y": 2}
    assert codec.decode_init(packed(body)) == Init(inputs=("a",), outputs=("b",))


# --- registration ----------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES)
def test_empty_registration_is_taken_before_0_23(release):
    codec = Codec(profile_for(release))
    assert codec.encode_ready_response(ReadyResponse()) == b""
    if release < "0.23":
        assert codec.decode_ready_response(b"") == ReadyResponse()
    else:
        with pytest.raises(DecodeError, match="got empty payload"):
            codec.decode_ready_response(b"")


@pytest.mark.parametrize("release", RELEASES)
def test_registration_misses_exactly_the_required_keys(make, release):
    codec = Codec(profile_for(release))
    values = make.ready_values(codec.profile)
    refused = {}
    for key in values:
        body = packed({name: value for name, value in values.items() if name != key})
        try:
            codec.decode_ready_response(body)
        except DecodeError as error:
            refused[key] = (error.field, error.reason)
    assert refused == {
        key: (f"EngineCoreReadyResponse.{key}", f"missing field `{key}`")
        for key in codec.profile.ready_required
    }


def test_registration_with_the_keys_of_every_release_is_taken_by_each(make, codec):
    values = make.ready_values(profile_for("0.33.0"))
    assert codec.decode_ready_response(packed(values)).get("instance_id") == "i"
    assert codec.decode_ready_response(packed(values)).get("no such key") is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "half", 1, None])
@pytest.mark.parametrize("release", ["0.22.0", "0.23.0", "0.33.0"])
def test_registration_takes_three_dtypes(make, release, dtype):
    codec = Codec(profile_for(release))
    body = packed(make.ready_values(codec.profile) | {"dtype": dtype})
    if dtype in ("float16", "bfloat16", "float32") or (dtype is None and release == "0.22.0"):
        assert codec.decode_ready_response(body).get("dtype") == dtype
    else:
        with pytest.raises(DecodeError) as caught:
            codec.decode_ready_response(body)
        assert caught.value.field == "EngineCoreReadyResponse.dtype"


@pytest.mark.parametrize(
    ("key", "value", "since"),
    [
        ("max_model_len", -1, "0.22"),
        ("num_gpu_blocks", None, "0.22"),
        ("dp_stats_address", 1, "0.22"),
        ("vllm_version", 1, "0.23"),
        ("block_size", None, "0.24"),
        ("kv_cache_size_tokens", -1, "0.24"),
        ("tensor_parallel_size", 2**32, "0.27"),
        ("kv_events_config", 1, "0.27"),
        ("enable_sleep_mode", None, "0.28"),
        ("max_loras", None, "0.29"),
        ("effective_attention_block_size", "x", "0.31"),
        ("mamba_block_size", "x", "9"),
        ("coord_store_port", "x", "9"),
    ],
)
def test_registration_value_is_checked_once_the_client_uses_it(make, codec, key, value, since):
    body = packed(make.ready_values(codec.profile) | {key: value})
    if codec.profile.release >= since:
        with pytest.raises(DecodeError) as caught:
            codec.decode_ready_response(body)
        assert caught.value.field == f"EngineCoreReadyResponse.{key}"
    else:
        assert codec.decode_ready_response(body).get(key) == value


# --- external coordinator --------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts", [None, [], [[1, 2]], [[1, 2, 0.5]], [[-1]], [["a"]], "x", 5, {}, [[2**40, 0]]]
)
def test_publish_counts_are_not_looked_at(codec, counts):
    decoded = codec.decode_publish(packed([counts, 2**32 - 1, True]) + b"\xc1")
    kept = counts if isinstance(counts, list) else None
    assert decoded == CoordinatorPublish(kept, current_wave=2**32 - 1, engines_running=True)


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ([None, 1], "CoordinatorPublish"),
        ([None, 1, True, None], "CoordinatorPublish"),
        ({}, "CoordinatorPublish"),
        ([None, 2**32, True], "CoordinatorPublish.current_wave"),
        ([None, -1, True], "CoordinatorPublish.current_wave"),
        ([None, 1.0, True], "CoordinatorPublish.current_wave"),
        ([None, 1, 1], "CoordinatorPublish.engines_running"),
        ([None, 1, None], "CoordinatorPublish.engines_running"),
    ],
)
def test_publish_of_another_form_is_refused(codec, row, field):
    with pytest.raises(DecodeError) as caught:
        codec.decode_publish(packed(row))
    assert caught.value.field == field


def test_first_request_notice_is_a_pair(codec):
    notice = FirstRequestNotice(exclude_engine_index=3, wave=4)
    assert codec.encode_first_request(notice) == b"\x92\x03\x04"
    assert codec.decode_first_request(b"\x92\x03\x04") == notice


@pytest.mark.parametrize("row", [["SCALE_ELASTIC_EP", 2], [1], [1, 2, 3], [None, 1], {}])
def test_first_request_notice_of_another_form_is_refused(codec, row):
    with pytest.raises(DecodeError):
        codec.decode_first_request(packed(row))


def test_engine_says_hello_and_ready_as_local_and_not_headless_unless_told(codec):
    said = [codec.encode_hello(Hello()), codec.encode_ready(Ready())]
    assert [msgpack.unpackb(body) for body in said] == [
        {"status": status, "local": True, "headless": False} for status in ("HELLO", "READY")
    ]
