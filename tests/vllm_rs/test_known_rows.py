"""The measured rows behind ``known`` entries, tried again by sample on the releases at hand."""

from __future__ import annotations

import hashlib

import pytest

from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Known, Measured
from harness.targets.vllm_rs.fetch import available
from harness.verdict import EXPECTATION, HELD, VIOLATED
from tests.conftest import ROWS_SEED, rows_seed
from tests.support.collection import every_scenario

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

SAMPLE = 16
"""Rows tried in one run of the tests; ``wavecheck matrix`` tries all of them."""

Row = tuple[LoadedScenario, Known, Measured]


def rows() -> list[Row]:
    """Every row whose outcome one run can show: all trials agreed, or the scenario repeats."""
    return [
        (loaded, known, row)
        for loaded in every_scenario()
        for known in loaded.scenario.known
        for row in known.measured
        if getattr(known, "target", "vllm-rs") == "vllm-rs"
        and (row.violations in (0, row.trials) or loaded.scenario.trials is not None)
    ]


def order(row: Row) -> str:
    """An order by the seed of this run that favours no chapter and no release."""
    loaded, known, measured = row
    text = f"{rows_seed()} {loaded.id} {known.invariant} {measured.release}"
    return hashlib.sha256(text.encode()).hexdigest()


def sample() -> list[Row]:
    """The first rows whose release is here, in that order; of all rows where none is."""
    every = sorted(rows(), key=order)
    return [row for row in every if available(row[2].release)][:SAMPLE] or every[:SAMPLE]


def broken(result: ScenarioResult) -> set[str]:
    """What a result says is violated, in the words of ``known``."""
    found = {v.invariant for v in result.verdicts if v.verdict == VIOLATED}
    if any(e.status == VIOLATED for e in result.expectations):
        found.add(EXPECTATION)
    return found


@pytest.mark.parametrize(
    ("loaded", "known", "row"),
    sample(),
    ids=lambda value: str(
        getattr(value, "id", None) or getattr(value, "release", None) or value.invariant
    ),
)
def test_row_is_seen_again(loaded, known, row, tmp_path):
    if available(row.release) is None:
        pytest.skip(f"no binary of the frontend {row.release}")
    options = RunOptions(target="vllm-rs", frontend=row.release, out=tmp_path)
    result = run_scenario(loaded, options)
    again = f"{ROWS_SEED}={rows_seed()} tries these rows again"
    assert result.error is None, again
    assert result.status in (HELD, VIOLATED), f"{result.reason}; {again}"
    assert (known.invariant in broken(result)) == (row.violations > 0), again
