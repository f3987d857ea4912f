"""Hello: what an adapter may declare of itself."""

from __future__ import annotations

from typing import Any

import pytest

from client.protocol.profiles import RELEASES
from harness.targets.adapter.greeting import faults
from harness.targets.adapter.lines import Greeting
from harness.targets.adapter.vocabulary import PROVIDED, REFUSED
from harness.targets.capabilities import CAPABILITIES


def hello(**keys: Any) -> Greeting:
    return Greeting(**{"say": "hello", "version": 1, "name": "mine", "capabilities": (), **keys})


def test_hello_with_little_is_good() -> None:
    assert faults(hello()) == []
    assert faults(hello(capabilities=("op.cancel",), releases=("0.28.0",), program="vllm-rs")) == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"version": 2}, "version 2 of the line protocol is none of those that were offered (1)"),
        ({"capabilities": ("op.cancle",)}, "there is no capability 'op.cancle'; nearest: 'op.cancel'"),
        ({"capabilities": ("op.http",)}, "capability 'op.http' cannot be declared: there is no line for a raw HTTP request"),
        ({"releases": ("0.28",)}, "release '0.28' is not known; nearest: '0.28.0'"),
        ({"releases": ()}, "'releases' is empty; null stands for all"),
        ({"program": "vllm-rs"}, "'program' goes with exactly one release"),
        ({"program": "vllm-rs", "releases": RELEASES[:2]}, "'program' goes with exactly one release"),
    ],
)  # fmt: skip
def test_hello_that_cannot_be_is_refused_with_its_reason(
    keys: dict[str, Any], message: str
) -> None:
    assert faults(hello(**keys)) == [message]


def test_every_capability_is_declared_provided_or_refused_with_a_reason() -> None:
    assert set(REFUSED) <= set(CAPABILITIES)
    assert set(CAPABILITIES) >= PROVIDED
    assert not PROVIDED & set(REFUSED)
