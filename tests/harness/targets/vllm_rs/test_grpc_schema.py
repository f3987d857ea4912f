"""The gRPC messages that are built at run time."""

from __future__ import annotations

import pytest

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.grpc_api import rank_metadata
from harness.targets.vllm_rs.grpc_messages import ENUMS, MESSAGES, METHODS, full_name
from harness.targets.vllm_rs.grpc_schema import messages, service

pytest.importorskip("google.protobuf", reason="the extra `frontend` is not installed")


def test_a_request_has_the_bytes_that_the_field_numbers_give():
    request = messages()["vllm.GenerateRequest"](request_id="a", model="m")
    request.token_ids.ids.extend([104, 105])
    request.stopping.max_new_tokens = 3
    request.response.output_token_ids = True
    assert request.SerializeToString() == (
        b"\x0a\x01a"  # 1: request_id
        b"\x12\x01m"  # 2: model
        b"\x22\x04\x0a\x02\x68\x69"  # 4: token_ids {1: packed ids}
        b"\x42\x02\x08\x03"  # 8: stopping {1: 3}
        b"\x4a\x02\x28\x01"  # 9: response {5: true}
    )


def test_a_response_is_read_with_its_finish_and_without_unknown_fields_in_the_way():
    data = (
        b"\x0a\x02\x08\x02"  # 1: prompt_info
        b"\x7a\x01x"  # 15: in no table
        b"\x12\x0c"  # 2: outputs
        b"\x12\x01a"  # 2: text
        b"\x22\x01\x61"  # 4: token_ids
        b"\x42\x04\x08\x01\x10\x02"  # 8: finish_info {1: 1, 2: 2}
    )
    response = messages()["vllm.GenerateResponse"].FromString(data)
    (output,) = response.outputs
    assert (output.text, list(output.token_ids)) == ("a", [97])
    assert output.HasField("finish_info")
    assert output.finish_info.finish_reason == 2


def test_an_optional_field_keeps_track_of_its_presence():
    options = messages()["vllm.ResponseOptions"]()
    assert not options.HasField("output_text")
    options.output_text = False
    assert options.HasField("output_text")
    assert options.SerializeToString() == b"\x20\x00"


def test_the_service_is_named_by_release():
    assert service("0.26.0") == "vllm.Generate"
    assert service("0.27.0") == "vllm.Inference"


def test_field_numbers_and_names_are_unique_within_a_message():
    for package in MESSAGES.values():
        for fields in package.values():
            assert len({field.number for field in fields}) == len(fields)
            assert len({field.name for field in fields}) == len(fields)


def test_every_method_has_known_messages_and_every_enumeration_counts_from_zero():
    known = messages()
    for method in METHODS.values():
        assert method.request in known
        assert method.response in known
    mode = known["vllm.PauseGenerationRequest"](mode="PAUSE_MODE_KEEP")
    assert mode.SerializeToString() == b"\x08\x03"
    assert ENUMS["vllm"]["PauseMode"][3] == "PAUSE_MODE_KEEP"


def test_a_method_is_of_package_vllm_unless_it_is_named_in_full():
    assert full_name("Control/Abort") == "vllm.Control/Abort"
    assert full_name("grpc.health.v1.Health/Check") == "grpc.health.v1.Health/Check"


def test_rank_texts_travel_as_given_and_repeat_the_key():
    key = "x-data-parallel-rank"
    assert rank_metadata(CallStep(id="a", rank=1)) == [(key, "1")]
    assert rank_metadata(CallStep(id="a", rank_text=[" 1 ", ""])) == [(key, " 1 "), (key, "")]
    assert rank_metadata(CallStep(id="a")) == []
