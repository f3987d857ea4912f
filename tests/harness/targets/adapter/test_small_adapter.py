"""An adapter that can little is judged on that, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.adapters import SMALL, builtin, judged, no_process_left, python
from tests.support.stories import load

pytestmark = pytest.mark.zmq


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


CANCELLED = load(
    "engines: [{engine: all, rules: [{on: add, do: {hang: for-ever}}]}]\n"
    "steps: [{call: {id: a}}, {wait: {event: add}}, {cancel: a}, {wait: {event: abort}},\n"
    "  {fence: true}, {expect: {op: a, outcome: cancelled}}]\n"
    "open_at_end: [for-ever]\n"
)
LEFT = load(
    "engines: [{engine: all, rules: [{on: add, do: {hang: for-ever}}]}]\n"
    "steps: [{call: {id: a}}, {wait: {event: add}}, {cancel: a}, {fence: true},\n"
    "  {expect: {op: a, outcome: cancelled}}]\n"
    "open_at_end: [for-ever]\n"
)
ANSWERED = load(
    "engines: [{engine: 1, rules: [{on: utility, do: {fail: too late}}]}]\n"
    "steps: [{utility: {id: u, method: is_sleeping, via: raw}}, {finish: u},\n"
    "  {expect: {op: u, outcome: failed, error: UtilityCallFailed, message: too late}}]\n"
)


@pytest.mark.parametrize("story", [CANCELLED, ANSWERED], ids=["cancel", "utility"])
def test_black_box_adapter_is_judged_by_wire_and_results(story, tmp_path: Path) -> None:
    result = judged(story, tmp_path, SMALL)
    assert result.status == "held", (result.error, result.expectations)
    verdicts = {v.invariant: (v.verdict, v.reason) for v in result.verdicts}
    assert verdicts["health.sticky-first"] == ("not_judged", "target lacks see.health")
    assert verdicts["utility.unique-call-ids"][0] in {"held", "not_judged"}


def test_black_box_adapter_that_never_aborts_is_caught(tmp_path: Path) -> None:
    """The wire says what an adapter does not: a cancel of which no engine hears."""
    code = (
        "from tests.support import small_adapter, small_client\n"
        "small_client.Client.abort = lambda client, name: client.owner.pop(name)\n"
        "small_adapter.main()\n"
    )
    result = judged(LEFT, tmp_path, python("-c", code))
    assert result.status == "violated"
    assert [v.invariant for v in result.verdicts if v.verdict == "violated"] == [
        "request.every-add-ends"
    ]


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("waves/stale-first-request", "coordinator.in-process"),
        ("requests/dropped-stream", "op.drop"),
        ("routing/explicit-rank", "op.rank"),
        ("waves/external-first-request", "transport.bootstrapped"),
    ],
)
def test_scenario_that_asks_for_more_is_not_judged_and_the_reason_names_it(
    name: str, lacking: str, tmp_path: Path
) -> None:
    [loaded] = builtin(name)
    result = judged(loaded, tmp_path, SMALL)
    assert result.status == "not_judged"
    assert result.reason is not None
    assert result.reason.startswith("target lacks ")
    assert lacking in result.reason
