"""What a release can do, and the finer reasons why a scenario cannot run."""

from __future__ import annotations

import pytest

from harness.scenario.model import Scenario
from harness.targets.capabilities import unknown
from harness.targets.vllm_rs.capabilities import capabilities, unsupported, with_environment


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
            scenario({"grpc": {"id": "g", "method": "Control/Sleep"}}),
            "0.27.1",
            "since 0.28.0",
        ),
        (
            scenario(
                {"call": {"id": "a", "surface": "grpc"}},
                {"expect": {"op": "a", "finish": "repetition"}},
            ),
            "0.33.0",
            "no word",
        ),
    ],
)
def test_what_a_release_cannot_do_says_why(case, release, words):
    assert words in unsupported(case, release)


def test_what_it_can_do_has_no_reason():
    assert unsupported(scenario(UTILITY, {"expect": {"op": "u", "value": True}}), "0.26.0") is None
    assert unsupported(scenario(UTILITY, {"expect": {"op": "u"}}), "0.22.0") is None
    assert unsupported(scenario({"call": {"id": "a", "rank_text": [" 1 "]}}), "0.22.0") is None


BOOTSTRAPPED = {"transport": "bootstrapped"}


@pytest.mark.parametrize(
    ("case", "release", "words"),
    [
        (scenario({"fence": True}, start_rank=1, **BOOTSTRAPPED), "0.23.0", "since 0.24.0"),
        (
            scenario({"fence": True}, data_parallel_size=8, **BOOTSTRAPPED),
            "0.27.1",
            "size since 0.28.0",
        ),
        (scenario({"fence": True}, ranks=[0, 2], **BOOTSTRAPPED), "0.33.0", "first rank and"),
        (
            scenario({"call": {"id": "a", "surface": "grpc"}}, **BOOTSTRAPPED),
            "0.31.0",
            "gRPC since 0.32.0",
        ),
        (
            scenario({"grpc": {"id": "a", "method": "Control/IsPaused"}}, **BOOTSTRAPPED),
            "0.31.0",
            "gRPC since 0.32.0",
        ),
        (scenario({"fence": True}, frontend_env={"RUST_LOG": "info"}), "0.33.0", "RUST_LOG"),
    ],
)
def test_what_a_way_of_starting_lacks_is_said(case, release, words):
    assert words in (unsupported(case, release) or "")


@pytest.mark.parametrize(
    ("case", "release"),
    [
        (scenario({"fence": True}, start_rank=1, **BOOTSTRAPPED), "0.24.0"),
        (scenario({"fence": True}, data_parallel_size=8, **BOOTSTRAPPED), "0.28.0"),
        (scenario({"fence": True}, config={"engine_count": 1}, **BOOTSTRAPPED), "0.33.0"),
        (scenario({"call": {"id": "a", "surface": "grpc"}}, **BOOTSTRAPPED), "0.32.0"),
    ],
)
def test_what_a_way_of_starting_can_do_is_not_refused(case, release):
    assert unsupported(case, release) is None


def test_another_log_filter_takes_away_what_the_log_tells():
    names = capabilities("0.33.0")
    assert with_environment(names, [("OTHER", "1")]) == names
    left = with_environment(names, [("RUST_LOG", "info")])
    assert names - left == {"see.log", "see.failure", "see.publishes", "see.health-error"}
