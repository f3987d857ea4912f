"""JUnit XML."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.reports.junit import junit, write_junit
from harness.reports.text import InvariantDoc
from harness.results import ScenarioResult


def outcomes(
    results: list[ScenarioResult],
    doc: InvariantDoc,
    folder: Path,
    *,
    allow_known: bool = False,
    strict: bool = False,
) -> list[tuple[str, str, str]]:
    """For each case of the written file: its name, outcome (empty = passed) and message."""
    path = folder / "report.xml"
    report = junit(results, doc, target="sim", allow_known=allow_known, strict=strict)
    write_junit(report, path)
    found = []
    for case in ET.parse(path).getroot().iter("testcase"):
        child = next(iter(case), None)
        outcome = ("", "") if child is None else (child.tag, child.get("message", ""))
        found.append((f"{case.get('classname')}:{case.get('name')}", *outcome))
    return found


def test_each_status_has_its_outcome(
    held: ScenarioResult, violated: ScenarioResult, doc: InvariantDoc, tmp_path: Path
) -> None:
    results = [
        held,
        violated,
        replace(held, status="error", error="no binary"),
        replace(held, status="not_judged", reason="target lacks op.rank"),
    ]
    name = "wavecheck.sim.waves:waves/stale [0.24.0]"
    assert outcomes(results, doc, tmp_path) == [
        (name, "", ""),
        (name, "failure", "the coordinator went from wave 5 back to 4"),
        (name, "error", "no binary"),
        (name, "skipped", "target lacks op.rank"),
    ]


def test_counts_of_the_suite_are_right(
    held: ScenarioResult, violated: ScenarioResult, doc: InvariantDoc, tmp_path: Path
) -> None:
    outcomes([held, violated, violated], doc, tmp_path)
    suite = ET.parse(tmp_path / "report.xml").getroot().find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "2",
        "errors": "0",
        "skipped": "0",
    }


def test_known_and_blind_follow_the_exit_code(
    held: ScenarioResult, violated: ScenarioResult, doc: InvariantDoc, tmp_path: Path
) -> None:
    results = [replace(one, known=("wave.never-rewinds",)) for one in (violated, held)]
    plain = outcomes(results, doc, tmp_path)
    assert [outcome for _, outcome, _ in plain] == ["failure", ""]
    allowed = outcomes(results, doc, tmp_path, allow_known=True)
    assert [(outcome, message) for _, outcome, message in allowed] == [
        ("skipped", "known fault: wave.never-rewinds"),
        (
            "failure",
            "0.24.0 is known to violate wave.never-rewinds, and this run did not see it",
        ),
    ]


def test_characters_that_xml_cannot_hold_are_replaced(
    held: ScenarioResult, doc: InvariantDoc, tmp_path: Path
) -> None:
    broken = replace(held, status="error", error="a\x00\x1b\ud800<b>")
    ((_, outcome, message),) = outcomes([broken], doc, tmp_path)
    assert (outcome, message) == ("error", "a\ufffd\ufffd\ufffd<b>")


def test_report_names_the_same_invariant_as_the_console(
    violated: ScenarioResult,
) -> None:
    first = replace(violated.verdicts[0], invariant="a.first", message="follows")
    both = replace(violated, verdicts=(first, *violated.verdicts))
    report = junit([both], lambda _: {}, target="sim", preferred=lambda _: ["wave.never-rewinds"])
    (failure,) = next(iter(next(iter(report)))).result
    assert (failure.type, failure.message) == (
        "wave.never-rewinds",
        "the coordinator went from wave 5 back to 4",
    )
