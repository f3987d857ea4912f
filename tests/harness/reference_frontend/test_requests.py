"""Reading completion requests, without a server."""

from __future__ import annotations

import pytest

from client.protocol.profiles import profile_for
from harness.reference_frontend.requests import (
    check_prompt,
    read_completion,
    read_json,
    sampling_params,
)
from harness.reference_frontend.texts import Refusal

NEW, OLD = profile_for("0.33.0"), profile_for("0.22.0")
BODY = {"model": "m", "prompt": [97, 98]}


def refused(body, profile=NEW):
    with pytest.raises(Refusal) as caught:
        read_completion({**BODY, **body}, profile)
    return caught.value


def test_defaults_are_sixteen_tokens_in_one_answer():
    request = read_completion(BODY, NEW)
    assert (request.prompt, request.max_tokens, request.stream) == ((97, 98), 16, False)
    assert request.extra == {}


def test_text_prompt_is_read_as_its_bytes():
    assert read_completion({**BODY, "prompt": "hé"}, NEW).prompt == (104, 0xC3, 0xA9)


def test_model_may_be_left_out_since_0_29_only():
    assert read_completion({"prompt": [1]}, NEW).model is None
    assert "missing field `model`" in refused({"model": None}, profile_for("0.28.0")).message


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({"prompt": None}, "missing field `prompt`", None),
        ({"prompt": [[1]]}, "untagged enum Prompt", None),
        ({"prompt": [-1]}, "untagged enum Prompt", None),
        ({"prompt": [True]}, "untagged enum Prompt", None),
        ({"max_tokens": -1}, "expected u32", None),
        ({"max_tokens": "3"}, "max_tokens: invalid type", None),
        ({"stream": 1}, "stream: invalid type", None),
        ({"n": 2}, "Only n=1 is supported.", "n"),
        ({"max_tokens": 0}, "only supported when echo=true", "max_tokens"),
        ({"stop": ["x"]}, "does not carry out `stop`", "stop"),
        ({"logprobs": 1}, "does not carry out `logprobs`", "logprobs"),
    ],
)
def test_body_that_cannot_be_served_is_refused_with_its_parameter(body, message, param):
    refusal = refused(body)
    assert refusal.status == 400
    assert message in refusal.message
    assert refusal.param == param
    assert refusal.unreadable == (param is None)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"{nope", "application/json", "Failed to parse the request body as JSON"),
        (b"[]", "application/json", "the body is no object"),
        (b"{}", "text/plain", "Content-Type: application/json"),
    ],
)
def test_body_that_is_no_json_object_is_refused(body, kind, message):
    with pytest.raises(Refusal, match=message):
        read_json(body, kind)


def test_sampling_map_has_the_keys_of_its_release():
    given = {"kv_transfer_params": {"a": 1}, "seed": 5, "stop_token_ids": [9, 3]}
    old = sampling_params(OLD, max_tokens=3, temperature=1.0, given=given)
    new = sampling_params(NEW, max_tokens=3, temperature=1.0, given=given)
    assert set(new) - set(old) == {"routed_experts_prompt_start", "watermarking"}
    assert old["extra_args"] == {"kv_transfer_params": {"a": 1}}
    assert (old["stop_token_ids"], old["_all_stop_token_ids"]) == ([9, 3], [3, 9])
    assert "seed" not in sampling_params(NEW, max_tokens=3, temperature=1.0, given={})


def test_prompt_is_checked_against_the_vocabulary():
    check_prompt([256], "a", 257, NEW)
    check_prompt([256], "a", None, NEW)
    with pytest.raises(Refusal, match=r"token_id\(s\) \[257\] in prompt"):
        check_prompt([0, 257], "a", 257, NEW)
    with pytest.raises(Refusal) as empty:
        check_prompt([], "a", 257, NEW)
    assert empty.value.status == 400
    with pytest.raises(Refusal) as older:
        check_prompt([], "a", 257, OLD)
    assert older.value.status == 500
