"""A report as JUnit XML: a suite for each frontend of a matrix, one for everything else."""

from __future__ import annotations

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.matrix import model
from harness.reports.diagnostic import Diagnostic, plain
from harness.reports.junit import xml_text
from harness.reports.told.model import Report, Result, Violation
from harness.verdict import UNSTABLE, VIOLATED

_FAILED = frozenset({VIOLATED, UNSTABLE, *model.RED})


def report_junit(report: Report) -> JUnitXml:
    """Red fails, error is an error, known and not judged are skipped, held passes."""
    columns = dict.fromkeys(result.column for result in report.results)
    by_column = report.matrix is not None
    whole = JUnitXml("wavecheck")
    for column in columns if by_column else [""]:
        suite = TestSuite(xml_text(f"wavecheck {column}".strip()))
        for result in report.results:
            if not by_column or result.column == column:
                suite.add_testcase(_case(result, report))
        whole.add_testsuite(suite)
    whole.update_statistics()  # type: ignore[no-untyped-call]  # untyped upstream
    return whole


def _case(result: Result, report: Report) -> TestCase:
    chapter = result.scenario.rpartition("/")[0].replace("/", ".")
    case = TestCase(
        xml_text(f"{result.scenario} [{result.column}]"),
        xml_text(".".join(part for part in ("wavecheck", chapter) if part)),
        result.duration_s,
    )
    told = None if result.violation is None else report.violations[result.violation]
    title, code = xml_text(result.detail or result.status), xml_text(result.status)
    if told is not None and told.code:
        code = xml_text(told.code)
    outcome: Error | Failure | Skipped
    if result.status in _FAILED:
        outcome = Failure(title, code)
    elif result.status == model.ERROR:
        outcome = Error(title, code)
    elif result.status == model.HELD:
        return case
    else:
        outcome = Skipped(title, code.replace("_", " "))
    if told is not None:
        outcome.text = xml_text(plain(_diagnostic(told)))
    case.result = [outcome]
    return case


def _diagnostic(told: Violation) -> Diagnostic:
    order = () if told.order is None else (("order", "\n".join(told.order)),)
    return Diagnostic(
        told.level,
        told.message,
        code=told.code,
        where=f"{told.scenario} ({', '.join(told.settings)})",
        facts=(("statement", told.statement), *order),
        expected=told.expected,
        seen=told.seen,
        evidence=tuple(told.evidence),
        also=tuple(told.also),
        why=told.why,
        source=told.source,
        help=told.replay,
    )
