"""What a release can do, and the finer reasons why a scenario cannot run."""

from __future__ import annotations

import pytest

from harness.scenario.model import Scenario
from harness.targets.capabilities import unknown
from harness.targets.vllm_rs.capabilities import capabilities, unsupported


def scenario(*steps, **topology):
    return Scenario.model_validate(
        {"title": "t", "promise": "p", "refs": ["r"], "topology": topology, "steps": list(steps)}
    )


def test_capabilities_are_of_the_vocabulary_and_grow_with_the_release():
    assert unknown(sorted(capabilities("0.33.0"))) == []
    assert capabilities("0.33.0") - capabilities("0.23.0") == {"op.abort", "op.server-info"}
    assert capabilities("0.23.0") < capabilities("0.24.0")


UTILITY = {"utility": {"id": "u", "method": "reset_prefix_cache"}}


@pytest.mark.parametrize(
    ("case", "release", "words"),
    [
        (scenario({"utility": {"id": "u", "method": "pin_lora"}}), "0.33.0", "no admin route"),
        (scenario(UTILITY, {"expect": {"op": "u", "value": True}}), "0.25.1", "does not show"),
        (scenario({"fence": True}, data_parallel_size=4), "0.33.0", "cannot differ"),
        (scenario({"fence": True}, config={"engine_count": 1}), "0.33.0", "number of engines"),
        (
            scenario({"fence": True}, engines=1, coordinator="in-process"),
            "0.33.0",
            "from two engines on",
        ),
        (scenario({"call": {"id": "a", "prompt": [300]}}), "0.33.0", "257 tokens"),
        (scenario({"call": {"id": "a", "rank_text": ["1\n"]}}), "0.33.0", "no header value"),
        (
            scenario({"call": {"id": "a", "surface": "grpc", "kv_transfer_params": {}}}),
            "0.33.0",
            "do not carry",
        ),
        (
            scenario(
                {"call": {"id": "a", "surface": "grpc"}},
                {"expect": {"op": "a", "finish": "repetition"}},
            ),
            "0.33.0",
            "as abort",
        ),
    ],
)
def test_what_a_release_cannot_do_says_why(case, release, words):
    assert words in unsupported(case, release)


def test_what_it_can_do_has_no_reason():
    assert unsupported(scenario(UTILITY, {"expect": {"op": "u", "value": True}}), "0.26.0") is None
    assert unsupported(scenario(UTILITY, {"expect": {"op": "u"}}), "0.22.0") is None
    assert unsupported(scenario({"call": {"id": "a", "rank_text": [" 1 "]}}), "0.22.0") is None
