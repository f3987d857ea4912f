"""From the text of an answer to the name of the client's error."""

from __future__ import annotations

import pytest

import client.errors
from harness.targets.vllm_rs.client_errors import (
    adapter_rejected,
    classify,
    grpc_error_name,
    http_error_name,
)

TEXTS = {
    "failed to call sleep: utility call `sleep` failed (call_id=3): boom": "UtilityCallFailed",
    "failed to call wake_up: utility call `wake_up` returned an invalid result (call_id=5): error "
    "while decoding value: invalid type: unit value, expected a boolean": "UtilityResultDecode",
    "failed to call is_sleeping: utility call `is_sleeping` returned inconsistent results across "
    "engines: [false, true]": "InconsistentUtilityResults",
    "failed to submit completion request: engine-core error: data parallel rank 7 is out of range "
    "for 2 engine(s)": "InvalidDataParallelRank",
    "engine-core error: data parallel rank 5 is not connected to this frontend; connected ranks: "
    "[0, 1]": "InvalidDataParallelRank",
    "x-data-parallel-rank metadata must be an unsigned 32-bit integer": "InvalidRankMetadata",
    "engine-core error: request output stream for `cmpl-a-1` closed unexpectedly": (
        "RequestStreamClosed"
    ),
    "failed to call is_sleeping: engine core reported fatal failure": "EngineCoreDead",
    "timed out while waiting for READY after 2s": "HandshakeTimeout",
    "input registration timed out after 2s": "InputRegistrationTimeout",
    "unexpected startup handshake message: duplicate engine id": "UnexpectedHandshakeMessage",
    "messagepack ext value decode failed: x: y": "ExtValueDecode",
    "messagepack decode failed for EngineCoreOutputs: invalid wire shape": "Decode",
    "unexpected output on main dispatcher path: DpControl": "UnexpectedDispatcherOutput",
    "transport error: Broken pipe": "Transport",
}


@pytest.mark.parametrize(("text", "name"), TEXTS.items())
def test_a_text_of_the_frontend_names_an_error_of_the_client(text, name):
    assert classify(text) == name
    assert issubclass(getattr(client.errors, name), client.errors.ClientError)


def test_the_engine_s_own_words_do_not_change_the_name_of_a_failed_utility():
    text = "utility call `sleep` failed (call_id=3): engine core reported fatal failure"
    assert classify(text) == "UtilityCallFailed"


def test_a_bare_engine_core_error_is_a_refused_rank_only_if_a_rank_was_asked_for():
    assert http_error_name(400, "engine-core error", explicit_rank=True) == (
        "InvalidDataParallelRank"
    )
    assert http_error_name(400, "engine-core error", explicit_rank=False) == "HttpError400"
    assert http_error_name(500, "engine-core error", explicit_rank=True) == "HttpError500"


def test_what_shows_no_client_error_keeps_the_name_of_its_status():
    assert http_error_name(404, "no such model", explicit_rank=False) == "HttpError404"
    assert grpc_error_name("INVALID_ARGUMENT", "what?") == "GrpcInvalidArgument"
    assert classify("Internal server error") is None


@pytest.mark.parametrize(
    "text",
    [
        "failed to load LoRA adapter 'q': engine rejected the adapter",
        "one or more engine ranks rejected LoRA adapter `q`",
    ],
)
def test_an_engine_that_answers_false_to_add_lora_is_recognised(text):
    assert adapter_rejected(text)
    assert not adapter_rejected("failed to load LoRA adapter `q`: something else")
