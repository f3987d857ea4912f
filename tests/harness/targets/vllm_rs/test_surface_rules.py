"""What a release serves, and what a surface cannot carry or show."""

from __future__ import annotations

import pytest

from harness.scenario.model import CallStep, CrowdStep, Expect, GrpcStep
from harness.targets.vllm_rs import surface_rules
from harness.targets.vllm_rs.surfaces import external_id, surface_of

UNSERVED = {
    *("surface.chat-batch", "surface.chat-batch-stream"),
    *("surface.responses", "surface.responses-stream"),
    *("surface.messages", "surface.messages-stream"),
}


def test_the_raw_generate_route_streams_since_0_23_and_three_apis_are_not_served():
    old, new = surface_rules.surfaces("0.22.1"), surface_rules.surfaces("0.23.0")
    assert new - old == {"surface.generate-stream"}
    assert "surface.chat-stream" in old
    assert not surface_rules.surfaces("0.33.0") & UNSERVED


@pytest.mark.parametrize(
    ("surface", "expected"),
    [
        ("auto", "cmpl-a"),
        ("http-stream", "cmpl-a"),
        ("chat", "chatcmpl-a"),
        ("responses-stream", "resp_a"),
        ("generate", "a"),
        ("grpc-stream", "a"),
    ],
)
def test_an_external_id_has_the_prefix_of_its_api(surface, expected):
    assert external_id(CallStep(id="a", surface=surface)) == expected
    assert external_id(CallStep(id="b", request_id="a", surface=surface)) == expected


def test_completions_carry_what_names_no_surface():
    assert surface_of(CallStep(id="a")) == "http-stream"
    assert surface_of(CallStep(id="a", kv_transfer_params={})) == "http"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"surface": "generate", "stop": "x"}, "no stop strings"),
        ({"surface": "chat", "prompt": [256]}, "takes text"),
        ({"surface": "chat", "prompt": [255]}, "takes text"),
        ({"prompt": [257]}, "257 tokens"),
        ({"rank_text": ["1\n"]}, "no header value"),
    ],
)
def test_what_a_call_cannot_carry_says_why(call, words):
    (reason, *_rest) = surface_rules.of_call(CallStep(id="a", **call))
    assert words in reason


def test_what_a_call_can_carry_has_no_reason():
    assert not list(surface_rules.of_call(CallStep(id="a", surface="chat", stop="x")))
    assert not list(surface_rules.of_call(CallStep(id="a", prompt=[0, 256], rank_text=[" 1\t"])))
    assert list(surface_rules.of_crowd(CrowdStep(id="c", surface="chat", prompt=[255])))


@pytest.mark.parametrize(
    ("method", "release", "words"),
    [
        ("Control/Sleep", "0.27.1", "since 0.28.0"),
        ("Control/LoadLora", "0.28.0", "since 0.29.0"),
        ("grpc.health.v1.Health/Check", "0.26.0", "since 0.27.0"),
    ],
)
def test_a_method_is_asked_for_from_the_release_that_has_it(method, release, words):
    (reason,) = surface_rules.of_grpc(GrpcStep(id="g", method=method), release)
    assert words in reason
    assert not list(surface_rules.of_grpc(GrpcStep(id="g", method=method), "0.33.0"))


def test_a_method_that_no_release_has_may_be_asked_for():
    assert not list(surface_rules.of_grpc(GrpcStep(id="g", method="Control/Nothing"), "0.22.0"))


@pytest.mark.parametrize(
    ("surface", "expect", "words"),
    [
        ("grpc", {"finish": "repetition"}, "no word"),
        ("generate", {"text": "ab"}, "no text"),
        ("messages", {"tokens": 3}, "no tokens"),
        ("chat-stream", {"kv_transfer_params": {"x": 1}}, "does not carry"),
    ],
)
def test_what_an_answer_does_not_show_says_so(surface, expect, words):
    calls = {"a": CallStep(id="a", surface=surface)}
    (reason,) = surface_rules.of_expect(Expect(op="a", **expect), calls)
    assert words in reason


def test_what_an_answer_shows_has_no_reason():
    calls = {"a": CallStep(id="a", surface="chat")}
    expect = Expect(op="a", finish="repetition", text="x", tokens=1, kv_transfer_params={})
    assert not list(surface_rules.of_expect(expect, calls))
