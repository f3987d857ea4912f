"""Which annotations a run gets, and at which lines."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from harness.baseline.gate import Comparison, Found, Kind
from harness.baseline.session import BaselineSession
from harness.cli.output import ACTIONS_VARIABLE, Output
from harness.cli.run_plan import RunPlan
from harness.reports.annotations import Annotation, capped, command, relative
from harness.reports.diagnostic import Diagnostic
from harness.results import ScenarioResult
from harness.scenario.loader import LoadedScenario
from harness.scenario.positions import Place
from harness.verdict import EXPECTATION, VIOLATED

AUTO, GITHUB, NONE = "auto", "github", "none"
WORKSPACE_VARIABLE = "GITHUB_WORKSPACE"
SOON_DAYS = 14
"""A waiver that ends within so many days is announced."""
_OF_FILE = frozenset({Kind.EXPIRED, Kind.STALE, Kind.UNPINNED})
"""What is about the baseline file, not about a scenario."""

annotations_option = click.option(
    "--annotations",
    type=click.Choice([AUTO, GITHUB, NONE]),
    default=AUTO,
    show_default=True,
    help=f"Mark violations at their lines of scenario files, as a code host shows them. "
    f"auto: github where ${ACTIONS_VARIABLE} is true.",
)


def wanted(choice: str) -> bool:
    """Whether annotations are written."""
    return choice == GITHUB or (choice == AUTO and os.environ.get(ACTIONS_VARIABLE) == "true")


def workspace() -> Path:
    """The root of the repository: what files are named relative to."""
    return Path(os.environ.get(WORKSPACE_VARIABLE) or ".")


def write_annotations(output: Output, annotations: Iterator[Annotation]) -> None:
    """Write them as workflow commands, one a line."""
    for annotation in capped(annotations):
        output.raw(command(annotation))


def of_run(
    results: Sequence[ScenarioResult],
    plan: RunPlan,
    loaded: Mapping[str, LoadedScenario],
    comparison: Comparison | None,
) -> Iterator[Annotation]:
    """Errors for what is red, at the scenario's line; then what is to be said of the baseline."""
    expired = set()
    if plan.baseline is not None and comparison is not None:
        expired = {(one.scenario, one.release) for one in comparison.of(Kind.EXPIRED)}
    for result in results:
        others = plan.ruling(result).lines
        if (result.scenario, result.profile) in expired and all(
            line.startswith(Kind.EXPIRED) for line in others
        ):
            continue  # told at the line of the waiver
        if plan.is_bad(result):
            yield _of_result(result, plan, loaded.get(result.scenario))
    if plan.baseline is not None and comparison is not None:
        yield from of_baseline(plan.baseline, comparison, told=[r.scenario for r in results])


def _of_result(result: ScenarioResult, plan: RunPlan, loaded: LoadedScenario | None) -> Annotation:
    messages = plan.messages(result, loaded)
    first = messages[0] if messages else None
    lines = plan.ruling(result).lines
    code = f"[{first.code}]" if first is not None and first.code else ""
    word = first.level if first is not None else result.status.replace("_", " ")
    text = [_told(first)] if first is not None else []
    text += [*lines, f"{result.scenario} ({plan.flags.target}, {result.profile})"]
    place = None if loaded is None else _place(result, first, loaded)
    file = "" if loaded is None else relative(loaded.path, workspace())
    return Annotation(
        "error",
        f"wavecheck: {word}{code} {result.scenario}",
        "\n".join(text),
        file,
        *((place.line, place.column) if place is not None else (0, 0)),
    )


def _told(message: Diagnostic) -> str:
    parts = [message.title]
    parts += [f"expected: {message.expected}"] if message.expected else []
    parts += [f"seen: {message.seen}"] if message.seen else []
    parts += [f"also: {line}" for line in message.also]
    parts += [message.help] if message.help else []
    return "\n".join(parts)


def _place(result: ScenarioResult, message: Diagnostic | None, loaded: LoadedScenario) -> Place:
    """The step whose expectation failed, the invariant where the file names it, or the promise."""
    positions = loaded.positions
    if message is not None and message.code == EXPECTATION:
        step = next((e.step for e in result.expectations if e.status == VIOLATED), None)
        if step is not None and 0 <= step < len(loaded.scenario.steps):
            return positions.find(("steps", step))
    if message is not None and message.code in loaded.scenario.invariants:
        return positions.find(("invariants", loaded.scenario.invariants.index(message.code)))
    return positions.find(("promise",), key=True)


def of_baseline(
    session: BaselineSession, comparison: Comparison, *, told: Sequence[str] = ()
) -> Iterator[Annotation]:
    """What is to be said at lines of the baseline file.

    Args:
        session: the baseline.
        comparison: of a run with it.
        told: scenarios whose findings are told at their own lines.
    """
    file = relative(session.file.path, workspace())
    for one in comparison.found:
        level = "error" if comparison.counts(one) else "warning"
        if one.kind is Kind.WAIVED and not _ends_soon(session, one):
            continue
        if one.kind not in _OF_FILE | {Kind.WAIVED} and one.scenario in told:
            continue
        code = f"[{one.invariant}]" if one.invariant else ""
        title = f"wavecheck: {one.kind}{code} {one.scenario}".rstrip()
        line = session.line_of(one) or 0
        yield Annotation(level, title, one.text, file, line)


def _ends_soon(session: BaselineSession, one: Found) -> bool:
    if one.waiver is None:
        return False
    return session.file.baseline.waivers[one.waiver].days_left(session.today) <= SOON_DAYS
