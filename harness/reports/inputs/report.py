"""From a file or a folder to a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.reports.inputs import files
from harness.reports.inputs.documents import MatrixDocument, RunDocument, convert
from harness.reports.inputs.failures import Doc, Tracing, failures_report
from harness.reports.inputs.files import InputError, read
from harness.reports.inputs.matrix import matrix_report
from harness.reports.inputs.run import RunReport
from harness.reports.told.model import Report


@dataclass(frozen=True, slots=True)
class Made:
    """A report, and what it was made from where that says more.

    Attributes:
        run: of the results of a run.
        flags: ``allow_known`` and ``strict`` of that run.
    """

    report: Report
    run: RunReport | None = None
    flags: tuple[bool, bool] = (False, False)


def make_report(path: Path, doc: Doc, tracing: Tracing) -> Made:
    """Read and tell.

    Args:
        path: JSON of a run, a matrix or a report, a failure file, or a folder of them.
        doc: parts of an invariant's docstring by its id.
        tracing: where events come from.

    Raises:
        InputError: it cannot be reported on.
        KeyboardInterrupt: interrupted; nothing is left behind.
    """
    given = read(path)
    try:
        if given.kind == files.RUN:
            document = convert(given.document, RunDocument)
            run = RunReport(document, given.path, doc, tracing)
            return Made(run.report(), run, (document.allow_known, document.strict))
        if given.kind == files.MATRIX:
            matrix = convert(given.document, MatrixDocument)
            return Made(matrix_report(matrix, given.path, doc, tracing))
        if given.kind == files.REPORT:
            return Made(convert(given.document, Report))
    except (msgspec.ValidationError, ValueError) as error:
        msg = f"{given.path}: is no valid {given.kind}: {error}"
        help_text = "let the command write it again, with this version"
        raise InputError(msg, help_text) from error
    return Made(failures_report(given, doc, tracing))
