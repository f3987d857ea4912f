"""The JSON form of gRPC messages, checked without protobuf and against it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.targets.vllm_rs.grpc_json import FLOAT_MAX, flaws
from harness.targets.vllm_rs.grpc_messages import ENUMS, MESSAGES, METHODS, Field

GENERATE = "vllm.GenerateRequest"


def said(kind: str, value: Any) -> list[tuple[Any, ...]]:
    return [(flaw.path, flaw.title, flaw.expected) for flaw in flaws(kind, value)]


def test_whole_message_has_no_flaw():
    value = {
        "request_id": "a",
        "token_ids": {"ids": [0, 2**32 - 1]},
        "temperature": 1,
        "sampling": {"seed": -1, "top_p": 0.5},
        "decoding": {"allowed_token_ids": [1]},
        "response": {"output_text": False},
        "kv": {"kv_transfer_params": {"a": [None, {"b": 1.5}]}},
    }
    assert said(GENERATE, value) == []


@pytest.mark.parametrize(
    ("kind", "value", "flaw"),
    [
        (
            "vllm.SleepRequest",
            {"levl": 1},
            (("levl",), "gRPC message SleepRequest has no field 'levl'", "level, mode"),
        ),
        (
            "vllm.Empty",
            {"a": 1},
            (("a",), "gRPC message Empty has no field 'a'", "nothing: it has no fields"),
        ),
        (
            GENERATE,
            {"stopping": {"stop_strings": ["a", 7]}},
            (("stopping", "stop_strings", 1), "7 is no value of gRPC field 'stop_strings'", "text"),
        ),
        (
            GENERATE,
            {"stopping": {"max_new_tokens": -1}},
            (
                ("stopping", "max_new_tokens"),
                "-1 is no value of gRPC field 'max_new_tokens'",
                "a whole number from 0 to 4294967295 (uint32)",
            ),
        ),
        (
            GENERATE,
            {"token_ids": [1]},
            (
                ("token_ids",),
                "a list is no value of gRPC field 'token_ids'",
                "a mapping with fields of TokenIds",
            ),
        ),
        (
            GENERATE,
            {"text": "a", "token_ids": {"ids": [1]}},
            (("token_ids",), "'text' and 'token_ids' exclude each other", ""),
        ),
        (
            "vllm.AbortRequest",
            {"request_ids": "a"},
            (("request_ids",), "'a' is no value of gRPC field 'request_ids'", "a list"),
        ),
        (
            "vllm.PauseGenerationRequest",
            {"mode": "PAUSE_MODE_KEP"},
            (
                ("mode",),
                "gRPC enumeration PauseMode has no value 'PAUSE_MODE_KEP'",
                f"one of {', '.join(ENUMS['vllm']['PauseMode'])}",
            ),
        ),
        (
            "vllm.PauseGenerationRequest",
            {"clear_cache": None},
            (("clear_cache",), "null is no value of gRPC field 'clear_cache'", "true or false"),
        ),
        (
            "vllm.SleepRequest",
            {"level": True},
            (
                ("level",),
                "true is no value of gRPC field 'level'",
                "a whole number from 0 to 4294967295 (uint32)",
            ),
        ),
        (
            "vllm.UpdateWeightsRequest",
            {"update_info_json": "{}"},
            (
                ("update_info_json",),
                "'{}' is no value of gRPC field 'update_info_json'",
                "bytes as text in base64",
            ),
        ),
    ],
)
def test_flaw_is_told_with_its_place_and_what_is_right(kind, value, flaw):
    assert said(kind, value) == [flaw]


# --- against protobuf ---------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=3),
    "bool": st.booleans(),
    "float": st.floats(-FLOAT_MAX, FLOAT_MAX, width=32),
    "bytes": st.sampled_from(["", "AA==", "abcd", "+/+/"]),
    "uint32": st.integers(0, 2**32 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint64": st.integers(0, 2**64 - 1) | st.integers(0, 2**64 - 1).map(str),
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**63), 2**63 - 1).map(str),
    "Struct": st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
}


def values_of(package: str, field: Field) -> st.SearchStrategy[Any]:
    if field.kind in MESSAGES[package]:
        single = messages_of(package, field.kind)
    elif field.kind in ENUMS[package]:
        single = st.sampled_from(ENUMS[package][field.kind]) | st.integers(0, 9)
    else:
        single = RIGHT[field.kind]
    right = st.lists(single, max_size=2) if field.label == "repeated" else single
    return right | JSON


def messages_of(package: str, name: str) -> st.SearchStrategy[Any]:
    fields = {field.name: field for field in MESSAGES[package][name]}
    if not fields:
        return st.just({})
    keys = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)
    return keys.flatmap(
        lambda names: st.fixed_dictionaries({n: values_of(package, fields[n]) for n in names})
    )


KINDS = sorted({method.request for method in METHODS.values()})


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_what_has_no_flaw_is_a_message_for_protobuf_too(data):
    json_format = pytest.importorskip(
        "google.protobuf.json_format", reason="the extra `frontend` is not installed"
    )
    from harness.targets.vllm_rs.grpc_schema import messages

    kind = data.draw(st.sampled_from(KINDS))
    package, _, name = kind.rpartition(".")
    value = data.draw(messages_of(package, name))
    if list(flaws(kind, value)):
        return
    if _is_not_read_again(value):
        return
    made = json_format.ParseDict(value, messages()[kind]())
    again = json_format.MessageToDict(made, preserving_proto_field_name=True)
    assert list(flaws(kind, again)) == []


def _is_not_read_again(value: Any) -> bool:
    """Whether a number has no JSON, or is so large that protobuf refuses the eight digits that it writes itself."""
    if isinstance(value, float):
        return not abs(float(f"{value:.8g}")) <= FLOAT_MAX
    if isinstance(value, dict):
        return any(_is_not_read_again(inner) for inner in value.values())
    return isinstance(value, list) and any(_is_not_read_again(inner) for inner in value)


@pytest.mark.parametrize("number", [FLOAT_MAX, -FLOAT_MAX])
def test_largest_number_of_32_bits_is_one_and_what_protobuf_makes_of_it_is_none(
    number: float,
) -> None:
    assert said(GENERATE, {"temperature": number}) == []
    (found,) = said(GENERATE, {"temperature": float(f"{number:.8g}")})
    assert found[0] == ("temperature",)
    assert _is_not_read_again({"sampling": [number]})


@pytest.mark.parametrize("text", ["9" * 5_000, "-" + "9" * 5_000, "--1", "²"])
def test_text_that_is_no_64_bit_number_is_a_flaw(text: str) -> None:
    (found,) = said(GENERATE, {"sampling": {"seed": text}})
    assert found[0] == ("sampling", "seed")
    assert "(int64)" in found[2]


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1, 0])
def test_64_bit_number_may_be_a_text(number: int) -> None:
    assert said(GENERATE, {"sampling": {"seed": str(number)}}) == []
