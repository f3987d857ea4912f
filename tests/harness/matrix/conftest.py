"""Results, rows, columns and tables to judge."""

from __future__ import annotations

from dataclasses import replace

from harness.matrix.model import Cell, Column, Row, Table
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.scenario.model import Known

RESULT = ScenarioResult(
    scenario="waves/stale",
    title="a stale request",
    refs=("vllm#46833",),
    profile="0.24.0",
    mutant=None,
    status="held",
    expectations=(ExpectationResult(3, "held", "wave = 5", "wave = 5"),),
    verdicts=(VerdictResult("wave.never-rewinds", "must", "held", exercised=4),),
    trials=1,
    duration_s=0.25,
)
BROKEN = replace(
    RESULT,
    status="violated",
    verdicts=(
        VerdictResult(
            "wave.never-rewinds", "must", "violated", message="went back", expected=">= 5", seen="4"
        ),
    ),
    failure_file="f.json",
)
ROW = Row(
    id="waves/stale",
    title="a stale request",
    refs=("vllm#46833",),
    known=(
        Known(invariant="wave.never-rewinds", fixed_in="0.25.0", reason="r", link="vllm#46833"),
    ),
    race=False,
    trials_planned=1,
    own=("wave.never-rewinds", "expectation"),
)


def column(release: str) -> Column:
    return Column(release, release, True, f"identity of {release}", sha256="00" * 32)


def cell(frontend: str, status: str, *, scenario: str = ROW.id, **more: object) -> Cell:
    """A cell whose violations and kept promises fit its status."""
    name = ("wave.never-rewinds",)
    fitting: dict[str, object] = {
        "held": {"held": name},
        "known": {"known": name},
        "regression": {"regression": name, "message": "went back"},
        "blind": {"blind": name, "held": name, "reason": "not seen"},
    }.get(status, {"reason": f"why it is {status}"})
    return Cell(scenario, frontend, status, **{"plays": (status,), **fitting, **more})  # type: ignore[dict-item,arg-type]


def table(*cells: Cell, rows: tuple[Row, ...] = (ROW,), releases: tuple[str, ...] = ()) -> Table:
    """A table with the columns of its cells, or of ``releases``."""
    named = releases or tuple(dict.fromkeys(one.frontend for one in cells))
    found = {(one.scenario, one.frontend): one for one in cells}
    return Table(tuple(column(name) for name in named), rows, found)
