"""The whole collection through the line protocol comes to the verdicts of the target ``zmq``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import LoadedScenario
from harness.scenario.needs import needs
from tests.support.adapters import builtin, judged, no_process_left

pytestmark = [pytest.mark.zmq, pytest.mark.slow, pytest.mark.timeout(900)]
RACE = ("not_judged", "never exercised")
"""Whether the situation of an invariant arose may differ from run to run, on one target too."""


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


BEYOND_LINES = frozenset({"op.scale"})
"""What a client behind lines cannot be asked for."""


def differences(direct: ScenarioResult, lines: ScenarioResult) -> list[str]:
    """What one of two results says that the other does not."""
    found = []
    if (direct.status, direct.reason) != (lines.status, lines.reason):
        said = f"{direct.status} {direct.reason} != {lines.status} {lines.reason} {lines.error}"
        found.append(f"{direct.scenario}: {said}")
    steps = [[(e.step, e.status) for e in one.expectations] for one in (direct, lines)]
    if steps[0] != steps[1]:
        found.append(f"{direct.scenario}: steps {steps[0]} != {steps[1]}")
    for one, other in zip(direct.verdicts, lines.verdicts, strict=True):
        verdicts = [(v.verdict, v.reason) for v in (one, other)]
        if verdicts[0] != verdicts[1] and RACE not in verdicts:
            found.append(f"{direct.scenario}: {one.invariant} {verdicts[0]} != {verdicts[1]}")
    return found


def held(results: list[ScenarioResult]) -> set[str]:
    return {v.invariant for result in results for v in result.verdicts if v.verdict == "held"}


def test_collection_has_the_same_verdicts_as_over_sockets(
    started: list[int], tmp_path: Path
) -> None:
    direct: list[ScenarioResult] = []
    lines: list[ScenarioResult] = []
    for loaded in builtin():
        result = run_scenario(loaded, RunOptions(target="zmq", out=tmp_path))
        through = again(loaded, result, tmp_path)
        if needs(loaded.scenario) & BEYOND_LINES:
            assert (through.status, through.reason) == ("not_judged", "target lacks op.scale")
            continue
        direct.append(result)
        lines.append(through)
    pairs = zip(direct, lines, strict=True)
    assert [said for pair in pairs for said in differences(*pair)] == []
    assert held(direct) == held(lines)
    assert len(started) == 1


def again(loaded: LoadedScenario, direct: ScenarioResult, out: Path) -> ScenarioResult:
    """The same through lines, in the same profile."""
    return judged(loaded, out, profile=direct.profile or None)
