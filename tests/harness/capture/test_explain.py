"""One message explained: what it is, its fields, who takes it, and where a refusal strikes."""

from __future__ import annotations

import json
from pathlib import Path

import msgpack
import msgspec
import pytest

from client.protocol.codec import Codec
from client.protocol.messages import (
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FirstRequestNotice,
    Tensor,
    UtilityCall,
    UtilityOutput,
)
from client.protocol.profiles import RELEASES, profile_for
from harness.capture import vectors
from harness.capture.explain import explain
from harness.capture.explain_report import json_of, spans, text_of
from harness.capture.kinds import KINDS, guess_kind, kind_of_frame, without_identity
from harness.capture.recording import Frame

GOLDEN = Path(__file__).parents[3] / "golden"
OLD, NEW = Codec(profile_for("0.22.0")), Codec(profile_for("0.33.0"))
REQUEST = EngineCoreRequest(
    request_id="a-1",
    prompt_token_ids=(1, 2, 3),
    sampling_params={"temperature": 0.5, "extra_args": {"x": 0.5}},
    external_req_id="a",
)
OUTPUTS = EngineCoreOutputs(
    engine_index=1,
    outputs=(EngineCoreOutput("a", (1,)), EngineCoreOutput("b", (2,), finish_reason=1)),
    timestamp=2.5,
)


def field(explained, label):
    return next(f for f in explained.fields if f.label == label)


def test_an_add_is_explained_field_by_field_with_places():
    frames = NEW.encode_add(REQUEST)
    explained = explain(frames)
    assert explained.kind is KINDS["add"]
    assert explained.taken == RELEASES
    assert explained.written == ("0.31.0", "0.32.0", "0.33.0")
    assert explained.named_by == "0.33.0"
    assert explained.refusals == ()
    prompt = field(explained, "prompt_token_ids")
    assert (prompt.type, prompt.value, prompt.frame) == ("array of 3", "[1, 2, 3]", 1)
    raw = frames[1][prompt.offset : prompt.offset + prompt.length]
    assert msgpack.unpackb(raw) == [1, 2, 3]
    assert field(explained, "sampling_params.temperature").type == "float32"
    assert field(explained, "sampling_params.extra_args.x").type == "float64"
    assert explained.value["request"]["external_req_id"] == "a"
    assert json.loads(json.dumps(json_of(1, "here", explained)))["written_by"][0] == "0.31.0"


def test_an_identity_in_front_is_told_apart():
    frames = [b"\x01\x00", *OLD.encode_abort(["a"])]
    explained = explain(frames)
    assert (explained.identity, explained.kind.name) == (b"\x01\x00", "abort")
    assert "  identity    0100" in list(text_of(1, "here", explained))
    assert without_identity([b"\x02", b"\x92\x00\x00"]) == (b"", (b"\x02", b"\x92\x00\x00"))


@pytest.mark.parametrize("codec", [OLD, NEW])
def test_outputs_carry_the_names_of_the_release_that_writes_them(codec):
    explained = explain(codec.encode_outputs(OUTPUTS))
    assert codec.profile.release in explained.written
    assert field(explained, "outputs[1].finish_reason").value == "1"
    assert field(explained, "timestamp").value == "2.5"
    last = codec.profile.output_field_names[-1]
    assert field(explained, f"outputs[0].{last}").depth == 3


def test_a_refusal_names_releases_reason_and_byte():
    frames = NEW.encode_outputs(OUTPUTS)
    bad = msgspec.structs.replace(
        OUTPUTS,
        outputs=(OUTPUTS.outputs[0], msgspec.structs.replace(OUTPUTS.outputs[1], request_id=7)),
    )
    explained = explain(NEW.encode_outputs(bad), release="0.33.0")
    (refusal,) = [r for r in explained.refusals if "0.33.0" in r.releases]
    wrong = field(explained, "outputs[1].request_id")
    assert (refusal.frame, refusal.offset) == (0, wrong.offset)
    assert "expected string, got int 7" in refusal.text
    assert explain(frames).refusals[0].offset == 0


def test_a_missing_key_is_placed_at_its_map_and_a_wrong_one_at_its_value():
    values = {"max_model_len": "long", "num_gpu_blocks": 1}
    explained = explain([msgpack.packb(values)], kind=KINDS["registration"])
    by_release = {release: r for r in explained.refusals for release in r.releases}
    assert by_release["0.33.0"].offset == 0
    assert "missing field `block_size`" in by_release["0.33.0"].text
    assert by_release["0.22.0"].offset == field(explained, "max_model_len").offset


def test_bytes_that_are_no_msgpack_are_refused_where_they_break():
    explained = explain([b"\x00", b"\x93\x01\xc1"])
    assert explained.taken == ()
    (refusal,) = explained.refusals
    assert (refusal.releases, refusal.frame, refusal.offset) == (RELEASES, 1, 2)
    assert "  refused by  0.22.0-0.33.0 at frame 1, byte 2" in "\n".join(
        text_of(1, "here", explained)
    )


def test_one_release_alone_can_be_asked():
    explained = explain(NEW.encode_outputs(OUTPUTS), only="0.22.0")
    assert (explained.taken, explained.named_by) == ((), "0.22.0")
    assert [r.releases for r in explained.refusals] == [("0.22.0",)]


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"\0" * 24, "tensor float32 [2, 3]: 24 bytes inline (ext 3)"),
        (b"\0" * 20, "tensor float32 [2, 3]: 20 bytes inline (ext 3), where 24 are needed"),
    ],
)
def test_an_inline_tensor_is_described(data, note):
    request = msgspec.structs.replace(REQUEST, prompt_embeds=Tensor("float32", (2, 3), data))
    explained = explain(NEW.encode_add(request))
    assert field(explained, "prompt_embeds").note == note
    assert bool(explained.refusals) is (len(data) != 24)
    if explained.refusals:
        assert explained.refusals[0].offset == field(explained, "prompt_embeds").offset


def test_a_tensor_in_an_aux_frame_is_described_and_missed_where_it_is_not():
    request = msgspec.structs.replace(REQUEST, prompt_embeds=Tensor("float32", (128,), b"\0" * 512))
    frames = NEW.encode_add(request)
    assert len(frames) == 3
    note = field(explain(frames), "prompt_embeds").note
    assert note == "tensor float32 [128]: 512 bytes in aux frame 1"
    cut = explain(frames[:2])
    assert field(cut, "prompt_embeds").note.endswith("aux frame 1 of 0 is not there")
    assert cut.taken == ()


def test_extension_types_in_free_values_are_shown_with_their_code():
    call = UtilityCall(0, 1, "odd", [msgpack.ExtType(5, b"\xab\xcd"), b"\xef"])
    explained = explain(NEW.encode_utility(call))
    assert (field(explained, "args[0]").type, field(explained, "args[0]").value) == (
        "ext 5",
        "abcd",
    )
    assert explained.value["args"] == [{"ext": 5, "hex": "abcd"}, {"hex": "ef"}]


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([b"READY"], "ready-gate"),
        ([b"\x01"], "subscription"),
        ([b"\x00"], "unsubscription"),
        ([b"ENGINE_CORE_DEAD"], "dead"),
        ([b"\x02", b"\x92\x00\xc0"], "start-dp-wave"),
        ([msgpack.packb({"status": "HELLO"})], "hello"),
        ([msgpack.packb({"status": "READY"})], "ready"),
        ([msgpack.packb({"addresses": {}})], "init"),
        ([msgpack.packb({"max_model_len": 1})], "registration"),
        ([msgpack.packb([None, 3, True])], "publish"),
        ([NEW.encode_first_request(FirstRequestNotice(1, 2))], "first-request"),
        (NEW.encode_outputs(EngineCoreOutputs(utility_output=UtilityOutput(1))), "outputs"),
        ([b"\xc1"], "unknown"),
        ([msgpack.packb("text")], "unknown"),
        ([msgpack.packb({})], "unknown"),
        ([], "unknown"),
    ],
)
def test_a_message_is_recognised_by_its_look(frames, name):
    assert guess_kind(frames).name == name


@pytest.mark.parametrize(
    ("socket", "direction", "frames", "name"),
    [
        ("output", "from-engine", (b"garbage",), "outputs"),
        ("output", "from-engine", (b"ENGINE_CORE_DEAD",), "dead"),
        ("input", "from-engine", (b"",), "registration"),
        ("input", "to-engine", (b"\x09", b"x"), "unknown"),
        ("handshake", "from-engine", (b"\xc1",), "hello"),
        ("coordinator-input", "from-engine", (b"\x01",), "subscription"),
        ("coordinator-input", "to-engine", (b"READY",), "ready-gate"),
    ],
)
def test_a_recorded_message_is_recognised_by_its_socket(socket, direction, frames, name):
    assert kind_of_frame(Frame(0, 0, 0, socket, direction, frames)).name == name


def test_releases_are_written_as_ranges():
    assert spans(RELEASES) == "0.22.0-0.33.0"
    assert spans(["0.22.0", "0.24.0", "0.25.0", "0.33.0"]) == "0.22.0, 0.24.0-0.25.0, 0.33.0"
    assert spans([]) == "none"


@pytest.mark.parametrize("vector", vectors.load(GOLDEN)[::4], ids=lambda vector: vector.name)
def test_damaged_messages_are_explained_with_places_inside_their_frames(vector):
    kind, body = KINDS[vector.kind], vector.frames[-1]
    damaged = [body[:cut] for cut in range(0, len(body), 9)]
    damaged += [body[:cut] + b"\xc1" + body[cut + 1 :] for cut in range(0, len(body), 9)]
    for frame in damaged:
        explained = explain([*vector.frames[:-1], frame], kind=kind, only="0.33.0")
        json.dumps(json_of(1, "here", explained))
        for refusal in explained.refusals:
            assert refusal.offset is None or refusal.offset <= explained.sizes[refusal.frame]
