"""Bytes of the real binaries: we read them, and write the same bytes again."""

from __future__ import annotations

import pytest

from client.protocol.codec import Codec
from client.protocol.codec_requests import USUAL_NAMES
from client.protocol.messages import READY_GATE, Abort, Add, StartDpWave, UtilityCall
from client.protocol.profiles import RELEASES, profile_for


def frames_of(message):
    return [bytes.fromhex(frame) for frame in message["frames"]]


def inputs(captured, release, kind):
    codec = Codec(profile_for(release))
    return [
        (m["what"], codec.decode_engine_input(frames_of(m)))
        for m in captured[release]
        if m["kind"] == kind
    ]


def test_captures_cover_every_release(captured):
    assert tuple(captured) == RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_engine_input_of_binary_encodes_to_same_bytes(captured, release):
    codec = Codec(profile_for(release))
    seen = 0
    for message in captured[release]:
        if message["kind"] in ("init", "gate"):
            continue
        frames = frames_of(message)
        decoded = codec.decode_engine_input(frames)
        match decoded:
            case Add():
                again = codec.encode_add(decoded.request, decoded.aux)
            case Abort():
                again = codec.encode_abort(decoded.request_ids)
            case UtilityCall():
                again = codec.encode_utility(decoded)
            case StartDpWave():
                again = codec.encode_start_wave(decoded)
        assert again == frames, message["what"]
        seen += 1
    assert seen >= 20


@pytest.mark.parametrize("release", RELEASES)
def test_init_of_binary_encodes_to_same_bytes(captured, release):
    codec = Codec(profile_for(release))
    bodies = [frames_of(m) for m in captured[release] if m["kind"] == "init"]
    assert len(bodies) == 2
    for (body,) in bodies:
        init = codec.decode_init(body)
        assert (len(init.inputs), len(init.outputs)) == (1, 1)
        assert init.coordinator_input is not None
        assert init.frontend_stats_publish_address is None
        assert codec.encode_init(init) == body


@pytest.mark.parametrize("release", RELEASES)
def test_gate_of_binary_is_one_ascii_frame(captured, release):
    gates = [frames_of(m) for m in captured[release] if m["kind"] == "gate"]
    assert gates == [[READY_GATE], [READY_GATE]]


@pytest.mark.parametrize("release", RELEASES)
def test_add_of_binary_carries_what_was_asked(captured, release):
    adds = dict(inputs(captured, release, "add"))
    ranked = adds["completion with explicit rank 1 and priority"].request
    assert (ranked.data_parallel_rank, ranked.priority) == (1, 3)
    assert (ranked.cache_salt, ranked.prompt_token_ids) == ("salt", (97,))
    later = adds["completion in wave 7"].request
    assert (later.current_wave, later.client_index) == (7, 0)
    assert adds["plain completion"].request.current_wave == 0
    params = adds["completion with sampling parameters"].request.sampling_params
    assert params["logit_bias"] == {65: 1.5, 66: -100.0}
    assert params["temperature"] == pytest.approx(0.7)


@pytest.mark.parametrize("release", RELEASES)
def test_names_in_the_maps_of_each_request_of_binary_are_made_once(captured, release):
    request = dict(inputs(captured, release, "add"))["plain completion"].request
    names = {*request.sampling_params, *(request.reasoning_parser_kwargs or ())}
    later = {"routed_experts_prompt_start": "0.29", "watermarking": "0.30"}
    later["chat_template_kwargs"] = "0.31"
    assert names == {name for name in USUAL_NAMES if release >= later.get(name, "")}
    kept = {id(name) for name in USUAL_NAMES}
    assert all(id(name) in kept for name in names)


@pytest.mark.parametrize("release", [r for r in RELEASES if r >= "0.23"])
def test_lora_request_of_binary_has_fields_of_profile(captured, release):
    profile = profile_for(release)
    calls = [c for _, c in inputs(captured, release, "utility") if c.method == "add_lora"]
    assert [len(call.args[0]) for call in calls] == [profile.lora_request_fields] * 2
    request = dict(inputs(captured, release, "add"))["completion with a LoRA adapter"].request
    assert request.lora_request == calls[0].args[0]


@pytest.mark.parametrize("release", RELEASES)
def test_abort_of_binary_names_the_streaming_request(captured, release):
    adds = dict(inputs(captured, release, "add"))
    left = adds["streaming completion whose caller leaves"].request.request_id
    assert [a for _, a in inputs(captured, release, "abort")] == [Abort(request_ids=(left,))]


@pytest.mark.parametrize("release", RELEASES)
def test_utilities_of_binary_use_one_call_id_per_engine(captured, release):
    calls = [call for _, call in inputs(captured, release, "utility")]
    assert sorted(call.call_id for call in calls) == list(range(1, len(calls) + 1))
    assert all(call.client_index == 0 for call in calls)
    methods = {call.method for call in calls}
    assert ("pause_generation" in methods) is (release == "0.33.0")
    if release >= "0.24":
        assert profile_for(release).pause_method in methods


@pytest.mark.parametrize("release", RELEASES)
def test_waves_of_binary_follow_who_may_start_them(captured, release):
    waves = [wave for _, wave in inputs(captured, release, "start_wave")]
    first = [StartDpWave(wave=0, exclude_engine_index=0)] * 2
    notice = [StartDpWave(wave=7, exclude_engine_index=1)] * 2
    assert waves == (first if profile_for(release).frontend_starts_waves else []) + notice
