"""From the results of a command, or from failure files, to what a baseline is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.baseline.model import TARGETS
from harness.baseline.observed import Observed, observed
from harness.failure import FailureFile
from harness.matrix import model as cells
from harness.reports.inputs import files
from harness.reports.inputs.documents import MatrixDocument, RunDocument, convert
from harness.reports.inputs.files import Given, InputError, read
from harness.reports.inputs.run import result_of
from harness.verdict import ERROR, EXPECTATION, HELD, NOT_JUDGED, UNSTABLE, VIOLATED, ExitCode

MATRIX_TARGET = "vllm-rs"
"""The kind of target that a matrix has."""
_OF_CELL = {
    cells.HELD: HELD,
    cells.KNOWN: VIOLATED,
    cells.REGRESSION: VIOLATED,
    cells.BLIND: HELD,
    cells.UNSTABLE: UNSTABLE,
    cells.NOT_JUDGED: NOT_JUDGED,
    cells.ERROR: ERROR,
}


@dataclass(frozen=True, slots=True)
class Played:
    """Results to compare with a baseline.

    Attributes:
        target: kind of the target.
        results: one for each scenario and release.
        whole: whether it is all that a command played; failure files tell of violations only.
        not_run: how many results an interruption, or ``-x``, left out.
        interrupted: whether the command was.
    """

    target: str
    results: tuple[Observed, ...]
    whole: bool = True
    not_run: int = 0
    interrupted: bool = False


def played(path: Path) -> Played:
    """Read results, or failure files.

    Raises:
        InputError: it is neither, or of another version.
    """
    found = _played(path)
    if found.target not in TARGETS:
        msg = f"{path}: is about the target '{found.target}', which there is not"
        raise InputError(msg, f"targets are {', '.join(TARGETS)}")
    return found


def _played(path: Path) -> Played:
    given = read(path)
    try:
        if given.kind == files.RUN:
            return _run(convert(given.document, RunDocument))
        if given.kind == files.MATRIX:
            return _matrix(convert(given.document, MatrixDocument))
    except (msgspec.ValidationError, ValueError) as error:
        msg = f"{path}: is no valid {given.kind}: {error}"
        raise InputError(msg, "let the command write it again, with this version") from error
    if given.kind == files.FAILURES:
        return _failures(given)
    msg = f"{path}: is a report, which does not hold all that a baseline needs"
    raise InputError(msg, "give the JSON that the report was made from")


def _run(document: RunDocument) -> Played:
    results = tuple(
        observed(
            result_of(told),
            document.target.kind,
            allow_known=document.allow_known,
            strict=document.strict,
        )
        for told in document.results
    )
    interrupted = document.summary.exit == ExitCode.INTERRUPTED
    return Played(
        document.target.kind, results, not_run=len(document.not_run), interrupted=interrupted
    )


def _matrix(document: MatrixDocument) -> Played:
    releases = {column.id: column.release or "" for column in document.frontends}
    results = tuple(
        Observed(
            scenario=cell.scenario,
            target=MATRIX_TARGET,
            release=releases.get(cell.frontend, ""),
            status=_OF_CELL[cell.status],
            broken=tuple(cell.regression),
            blind=tuple(cell.blind),
            reason=cell.reason or "",
        )
        for cell in document.cells
        if cell.status in _OF_CELL
    )
    interrupted = document.summary.get("exit") == ExitCode.INTERRUPTED
    return Played(MATRIX_TARGET, results, not_run=len(document.not_run), interrupted=interrupted)


def _failures(given: Given) -> Played:
    found = [failure for _, failure in given.failures]
    targets = sorted({failure.target for failure in found})
    if len(targets) > 1:
        msg = f"{given.path}: holds failures of several targets: {', '.join(targets)}"
        raise InputError(msg, "give them apart")
    return Played(targets[0], tuple(_merged(found)), whole=False)


def _merged(found: list[FailureFile]) -> Iterator[Observed]:
    broken: dict[tuple[str, str], list[str]] = {}
    for failure in found:
        name = EXPECTATION if failure.violated.startswith(EXPECTATION) else failure.violated
        broken.setdefault((failure.scenario_id, failure.profile), []).append(name)
    for (scenario, release), names in sorted(broken.items()):
        unique = tuple(dict.fromkeys(names))
        yield Observed(scenario, found[0].target, release, VIOLATED, unique)
