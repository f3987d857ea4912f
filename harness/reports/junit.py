"""JUnit XML of a run, for CI servers."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.baseline.ruling import Rule, Ruling
from harness.files import replacing
from harness.reports.diagnostic import plain
from harness.reports.text import InvariantDoc, diagnostics, label
from harness.reports.visible import visible
from harness.results import ScenarioResult
from harness.verdict import ERROR, NOT_JUDGED, UNSTABLE, assess, counts, why_not_judged

# What XML 1.0 cannot hold, even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(
    results: Sequence[ScenarioResult],
    doc: InvariantDoc,
    *,
    target: str,
    allow_known: bool = False,
    strict: bool = False,
    preferred: Callable[[ScenarioResult], Sequence[str]] = lambda _result: (),
    rule: Rule | None = None,
) -> JUnitXml:
    """One test suite: held passes, violated fails, error is an error, not judged is skipped.

    With ``allow_known`` a violation that ``known`` predicts is skipped, and a predicted one that
    is missing fails, as in the exit code; ``strict`` makes a violated ``should`` fail.
    ``preferred`` gives what a result is about first, as in ``text.diagnostics``. With ``rule``, of
    a baseline, what it fails fails, and what it waives is skipped with the waiver's text.
    """
    suite = TestSuite(xml_text(f"wavecheck {target}"))
    for result in results:
        chapter = result.scenario.rpartition("/")[0]
        case = TestCase(
            xml_text(f"{result.scenario} [{result.profile}]"),
            xml_text(
                ".".join(part for part in ("wavecheck", target, chapter.replace("/", ".")) if part)
            ),
            result.duration_s,
        )
        messages = diagnostics(
            result, doc, allow_known=allow_known, strict=strict, preferred=preferred(result)
        )
        text = xml_text("\n\n".join(plain(message) for message in messages))
        title = xml_text(messages[0].title if messages else result.status)
        ruled = Ruling() if rule is None else rule(result)
        if ruled.fails:
            text = "\n".join([*(xml_text(line) for line in ruled.lines), "", text]).rstrip()
            outcome: Error | Failure | Skipped | None = Failure(
                xml_text(ruled.lines[0]),
                xml_text(ruled.lines[0].partition(":")[0].partition("[")[0]),
            )
        elif ruled.waived:
            outcome = Skipped(xml_text(ruled.waived), "waived")
        elif result.status == UNSTABLE:
            outcome = Failure(xml_text(result.reason or title), UNSTABLE)
        elif result.status == ERROR:
            outcome = Error(title, xml_text(result.status))
        elif result.status == NOT_JUDGED:
            outcome = Skipped(xml_text(why_not_judged(result)), "not judged")
        elif counts(result, allow_known=allow_known, strict=strict):
            found = assess(result)
            names = [*found.unknown, *found.blind, *found.should, *found.known]
            # The same rule as in the message: what the run is about comes before what follows.
            names = [message.code for message in messages if message.code] or names
            outcome = Failure(title, xml_text(names[0] if names else result.status))
        elif label(result, allow_known=allow_known) == "known":
            known = ", ".join(assess(result).known)
            outcome = Skipped(xml_text(f"known fault: {known}"), "known")
        else:
            outcome = None
        if outcome is not None:
            if text:
                outcome.text = text
            case.result = [outcome]
        suite.add_testcase(case)
    report = JUnitXml("wavecheck")
    report.add_testsuite(suite)
    report.update_statistics()  # type: ignore[no-untyped-call]  # untyped upstream
    return report


def write_junit(report: JUnitXml, path: Path) -> None:
    """Write the report.

    Raises:
        OSError: the file cannot be written.
    """
    # Into memory first: the library below may write a file without noticing a full disk.
    text = io.BytesIO()
    report.write(text, pretty=False)
    with replacing(path) as place:
        place.write_bytes(text.getvalue())


def xml_text(text: str) -> str:
    """Text without the signs that XML cannot hold, and none that steers who shows it."""
    return visible(_NO_XML.sub("\ufffd", text))
