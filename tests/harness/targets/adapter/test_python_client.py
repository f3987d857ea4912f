"""The shipped adapter: one process for many runs, link faults, gates, mutants, second frontends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hunting.killers import KILLERS
from harness.mutants import discover
from harness.runner import RunOptions
from harness.targets.adapter.vocabulary import PROVIDED
from harness.targets.client_frontend import CAPABILITIES
from harness.targets.registry import open_target
from harness.worlds import ZmqWorld
from tests.support.adapters import builtin, judged, no_process_left

pytestmark = pytest.mark.zmq


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


def test_it_can_and_shows_what_its_client_does() -> None:
    info = open_target(RunOptions(target="adapter").request).info
    assert info.capabilities == CAPABILITIES | PROVIDED
    assert info.version.startswith("python-client ")


@pytest.mark.parametrize(
    "name",
    [
        "requests/cancelled-while-the-send-waits",  # a send that is held at a gate
        "requests/send-fails",  # a send that fails
        "requests/dropped-stream",
        "requests/cannot-be-encoded",
        "requests/aux-frames-at-the-explicit-rank",
        "routing/config-count-differs-from-size",  # a wrong configuration
        "lifecycle/a-rank-returns",  # an engine in a process of its own
        "waves/external-coordinator-restarts",  # a coordinator beside the adapter
        "utility/timeout-lists-who-settled",
    ],
)
def test_what_reaches_deep_into_the_client_works_through_lines(name: str, tmp_path: Path) -> None:
    [loaded] = builtin(name)
    result = judged(loaded, tmp_path)
    assert (result.status, result.error) == ("held", None)
    assert [e for e in result.expectations if e.status == "violated"] == []


def test_dropped_stream_and_cancelled_call_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = tmp_path / "lines"
    monkeypatch.setenv("WAVECHECK_ADAPTER_TRANSCRIPT", str(transcript))
    for name in ("requests/dropped-stream", "requests/cancelled-while-streaming"):
        assert judged(builtin(name)[0], tmp_path).status == "held"
    said = [
        json.loads(line[2:])["do"] for line in transcript.read_text().splitlines() if line[0] == ">"
    ]
    assert [word for word in said if word in {"drop", "cancel"}] == ["drop", "cancel"]


def test_registries_are_counted_through_lines(tmp_path: Path) -> None:
    [loaded] = builtin("utility/cancelled-while-engines-hang")
    verdicts = {v.invariant: v.verdict for v in judged(loaded, tmp_path).verdicts}
    assert verdicts["utility.no-waiter-outlives-call"] == "held"
    assert verdicts["lifecycle.shutdown-leaves-nothing"] == "held"


def test_one_process_serves_many_runs_and_all_releases(started: list[int], tmp_path: Path) -> None:
    [loaded] = builtin("requests/stream-to-the-end")
    for release in ("0.22.0", "0.28.0", "0.33.0"):
        assert judged(loaded, tmp_path, profile=release).status == "held"
    assert len(started) == 1


def test_mutant_is_carried_and_killed_and_the_next_run_is_without_it(
    started: list[int], tmp_path: Path
) -> None:
    [loaded] = builtin("utility/cancelled-while-engines-hang")
    mutant = "utility-waiter-leaked-on-cancel"
    statuses = [judged(loaded, tmp_path, mutant=name).status for name in (None, mutant, None)]
    assert statuses == ["held", "violated", "held"]
    assert len(started) == 1


# One for each kind of thing that a line can show; ``wavecheck mutants`` has them all on sim.
CARRIED = (
    "abort-to-every-engine",
    "coordinator-rewinds",
    "fail-fast-fan-out",
    "first-engine-only-is-sleeping",
    "first-request-leaves-running-false",
    "rank-truncated",
    "request-leaked-on-cancel-before-send",
    "stale-first-request-leaves-out-target",
    "stream-dropped-without-abort",
    "utility-waiter-leaked-on-cancel",
)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", CARRIED)
def test_every_mutant_is_killed_by_its_invariant_through_lines(
    mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ZmqWorld, "step_limit_s", 3.0)  # some leave a step waiting for ever
    killer = next(each.killed_by for each in discover() if each.id == mutant)
    about = [one for one in builtin() if killer in one.scenario.invariants]
    about.sort(key=lambda one: one.id != KILLERS[mutant])
    if killer.startswith("wave."):
        about += builtin("waves/stale-first-request")
    # The first kill is enough: behind it, each scenario whose caller waits for ever takes its limits.
    assert any(
        (verdict.invariant, verdict.verdict) == (killer, "violated")
        for loaded in about
        for verdict in judged(loaded, tmp_path, mutant=mutant).verdicts
    )
