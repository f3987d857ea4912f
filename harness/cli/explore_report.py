"""What ``wavecheck explore`` says: what was found, what failed, how much was played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.catalogue import invariant_doc
from harness.cli.output import Output, Trouble
from harness.invariants import discover as discover_invariants
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA, result_object
from harness.reports.text import Origin, diagnostics, result_line
from harness.reports.wording import counted
from harness.runner import RunOptions
from harness.targets.base import TargetInfo
from harness.verdict import ExitCode
from harness.version import tool_version

if TYPE_CHECKING:
    from harness.generate.findings import Finding
    from harness.generate.hunt import Found, Tally

ERRORS_SHOWN = 3


@dataclass(slots=True)
class Bag:
    """What a hunt came to so far.

    Attributes:
        found: one scenario for each broken promise, not yet small.
        findings: those of them that are, with their files.
        lost: why shares could not be played.
        hopeless: why the target cannot be played at all, or ``""``.
    """

    tally: Tally
    found: list[Found] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    hopeless: str = ""
    interrupted: bool = False

    @property
    def code(self) -> ExitCode:
        """What it means, apart from reports that cannot be written."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if self.findings:
            return ExitCode.VIOLATION
        if self.tally.errors or self.lost:
            return ExitCode.HARNESS
        return ExitCode.OK if self.tally.held else ExitCode.NOT_JUDGED

    @property
    def errors(self) -> Counter[str]:
        """Everything that failed, and how often."""
        return self.tally.errors + Counter(self.lost)


def show_finding(output: Output, finding: Finding, began: float) -> None:
    """Tell what was found, as `run` tells it, and how."""
    result, path = finding.result, finding.path
    output.say(result_line(result))
    after = (finding.found_s or began) - began
    output.say(
        f"{'':<10} found after {after:.1f} s, made small in {finding.shrink_s:.1f} s "
        f"({counted(finding.shrinks, 'run')}); seed of its schedules {finding.found.seed}"
    )
    preferred = [finding.found.violated]
    for diagnostic in diagnostics(
        result, invariant_doc, origin=Origin(str(path)), preferred=preferred
    ):
        output.show(diagnostic)
    if finding.seen_once:
        note = "it was seen once, and not again when the same was played again"
        output.show(Diagnostic("note", note, where=str(path)))


def show_errors(output: Output, bag: Bag, folder: Path, command: str, trouble: Trouble) -> None:
    """Tell the commonest errors, and write the scenarios that met them."""
    from harness.generate.files import write_broken

    if bag.hopeless:
        note = "the target could not be started several times in a row, so nothing more was tried"
        output.show(Diagnostic("note", note))
    for text, times in bag.errors.most_common(ERRORS_SHOWN):
        path: Path | None = None
        if (data := bag.tally.erroneous.get(text)) is not None:
            with trouble.kept(folder):
                path = write_broken(data, text, folder, command)
        where = "" if path is None else str(path)
        facts = (("times", str(times)),) if times > 1 else ()
        output.show(Diagnostic("error", text, where=where, facts=facts))


def summary(bag: Bag, code: ExitCode) -> str:
    """How much was played, and what the exit code says."""
    tally = bag.tally
    played = f"{counted(tally.scenarios, 'scenario')}, {counted(tally.schedules, 'schedule')}"
    parts = [f"{played}, {len(tally.held)} of {len(discover_invariants())} invariants exercised"]
    if errors := sum(bag.errors.values()):
        parts.append(counted(errors, "error"))
    if unplayed := sum(tally.impossible.values()):
        parts.append(f"{unplayed} not played to the end")
    meanings = {
        ExitCode.OK: "nothing found within the budget",
        ExitCode.VIOLATION: f"{counted(len(bag.findings), 'broken promise')} found",
        ExitCode.HARNESS: "the target or the harness failed",
        ExitCode.NOT_JUDGED: "nothing could be judged",
        ExitCode.INTERRUPTED: "interrupted; results so far",
    }
    return f"{'; '.join(parts)}; exit {int(code)}: {meanings[code]}"


def document(
    info: TargetInfo,
    options: RunOptions,
    bag: Bag,
    code: ExitCode,
    *,
    began: float,
    budget_s: float | None,
    batches: int | None,
) -> dict[str, Any]:
    """The JSON of a hunt."""
    tally = bag.tally
    return {
        "schema": SCHEMA,
        "tool": {"version": tool_version()},
        "target": {
            "kind": info.kind,
            "version": info.version,
            "capabilities": sorted(info.capabilities),
        },
        "mutant": options.mutant,
        "profile": options.profile,
        "seed": options.seed,
        "budget_s": budget_s,
        "batches": batches,
        "strategy": options.strategy,
        "schedules_each": options.schedules,
        "scenarios": tally.scenarios,
        "schedules": tally.schedules,
        "invariants": dict(sorted(tally.held.items())),
        "found": [_found(finding, began) for finding in bag.findings],
        "errors": _counts(bag.errors, "error"),
        "not_played": _counts(tally.impossible, "reason"),
        "exit": int(code),
    }


def _counts(counter: Mapping[str, int], what: str) -> Sequence[Mapping[str, Any]]:
    return [{what: text, "times": times} for text, times in Counter(counter).most_common()]


def _found(finding: Finding, began: float) -> dict[str, Any]:
    return {
        "violated": finding.found.violated,
        "scenario_file": str(finding.path),
        "failure_file": finding.result.failure_file,
        "found_after_s": round((finding.found_s or began) - began, 3),
        "shrink_s": round(finding.shrink_s, 3),
        "seed": finding.found.seed,
        "seen_once": finding.seen_once,
        "result": result_object(finding.result),
    }
