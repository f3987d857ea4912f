"""The target: what opening it needs, what follows from an adapter's hello."""

from __future__ import annotations

import re
from typing import Any

import pytest

from client.protocol.profiles import profile_for
from harness.runner import RunOptions
from harness.targets.adapter.idle import Recipe
from harness.targets.adapter.lines import Greeting
from harness.targets.adapter.target import OWN_ADAPTER, AdapterTarget, recipe_of
from harness.targets.registry import KINDS, open_target, takes_mutant
from harness.targets.request import TargetRequest
from harness.targets.target import program_of
from tests.support.adapters import SMALL, close_all
from tests.support.stories import load

STORY = load("steps: [{call: {id: a}}, {finish: a}, {expect: {op: a, tokens: 3}}]").scenario


def target(**keys: Any) -> AdapterTarget:
    hello = {"say": "hello", "version": 1, "name": "mine", "capabilities": (), **keys}
    return AdapterTarget(Recipe(("/bin/true",)), Greeting(**hello))


def test_without_an_adapter_ours_is_meant() -> None:
    assert recipe_of(TargetRequest("adapter")).command == OWN_ADAPTER
    arguments = TargetRequest("adapter", arguments=("--x",)).arguments
    assert recipe_of(TargetRequest("adapter", arguments=arguments)).command[-1] == "--x"


def test_words_of_a_command_line_are_split_as_by_a_shell() -> None:
    recipe = recipe_of(TargetRequest("adapter", adapter="env A='b c' d"))
    assert recipe.command[0].endswith("/env")
    assert recipe.command[1:] == ("A=b c", "d")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "--adapter takes the command line that starts an adapter"),
        ("'", '--adapter "\'" is no command line: No closing quotation'),
        ("no-such-program x", "there is no program 'no-such-program'"),
    ],
)
def test_command_line_that_is_none_is_a_usage_error(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        open_target(TargetRequest("adapter", adapter=line))


@pytest.mark.zmq
def test_mutant_that_an_adapter_does_not_declare_is_a_usage_error() -> None:
    options = RunOptions(target="adapter", adapter=SMALL, mutant="coordinator-rewinds")
    with pytest.raises(ValueError, match=r"small cannot carry the mutant .*; it declares: none"):
        open_target(options.request)
    close_all()


def test_mutant_is_the_business_of_the_target() -> None:
    assert "adapter" in KINDS
    assert takes_mutant("adapter")
    assert not takes_mutant("zmq")


def test_whoever_shows_no_events_is_a_black_box() -> None:
    assert target().black_box
    assert not target(capabilities=("see.client-events",)).black_box


def test_known_faults_are_those_of_the_program_that_an_adapter_names() -> None:
    assert program_of(target()) is None
    assert program_of(target(program="vllm-rs", releases=("0.28.0",))) == "vllm-rs"


def test_newest_declared_release_is_judged_unless_another_one_is_asked_for() -> None:
    some = target(releases=("0.28.0", "0.27.1"))
    assert some.profile(None) == profile_for("0.28.0")
    assert some.profile("0.27.1") == profile_for("0.27.1")
    assert target().profile(None) is None


def test_release_that_an_adapter_does_not_speak_is_not_judged() -> None:
    some = target(releases=("0.28.0", "0.27.1"))
    reason = some.unsupported(STORY, profile_for("0.33.0"))
    assert reason == "the adapter mine speaks 0.28.0, 0.27.1 only"
    assert some.unsupported(STORY, profile_for("0.28.0")) is None
    assert target().unsupported(STORY, profile_for("0.33.0")) is None
