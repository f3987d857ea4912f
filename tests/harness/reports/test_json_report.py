"""The JSON of `run`: its keys are a contract."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.reports.json_report import run_document, to_text
from harness.results import ScenarioResult
from harness.targets.base import TargetInfo
from harness.verdict import ExitCode
from harness.version import tool_version

RESULT_KEYS = [
    "scenario", "title", "refs", "profile", "mutant", "status", "known", "error", "expectations",
    "verdicts", "schedules", "trials", "strategy", "seed", "digest", "duration_s", "failure_file",
    "reason", "repeats", "explored", "exhausted", "departures",
]  # fmt: skip
VERDICT_KEYS = [
    "invariant", "level", "verdict", "reason", "exercised", "message", "expected", "seen",
    "witness",
]  # fmt: skip


def test_document_has_exactly_the_promised_keys(
    held: ScenarioResult, violated: ScenarioResult
) -> None:
    target = TargetInfo("sim", "0.1", frozenset({"see.wire", "op.abort"}), "title")
    document = json.loads(to_text(run_document(target, [held, violated], ExitCode.VIOLATION)))
    assert list(document) == [
        "schema", "tool", "target", "results", "not_run", "allow_known", "strict",
        "baseline", "summary",
    ]  # fmt: skip
    assert document["schema"] == 1
    assert document["tool"] == {"version": tool_version()}
    assert document["target"] == {
        "kind": "sim",
        "version": "0.1",
        "capabilities": ["op.abort", "see.wire"],
    }
    assert [list(result) for result in document["results"]] == [RESULT_KEYS, RESULT_KEYS]
    assert list(document["results"][1]["verdicts"][0]) == VERDICT_KEYS
    assert list(document["results"][0]["expectations"][0]) == ["step", "status", "expected", "seen"]
    assert document["summary"] == {
        "held": 1, "violated": 1, "known": 0, "not_judged": 0, "error": 0, "exit": 1,
        "unstable": 0,
    }  # fmt: skip


def test_values_arrive_unchanged(violated: ScenarioResult) -> None:
    target = TargetInfo("sim", "0.1", frozenset())
    (found,) = json.loads(to_text(run_document(target, [violated], ExitCode.OK)))["results"]
    assert found["verdicts"][0]["witness"] == [97, 118]
    assert found["refs"] == ["vllm#46833"]
    assert found["known"] == []
    assert (found["error"], found["digest"], found["seed"]) == (None, "00ff", 7)


def test_reason_why_nothing_was_judged_is_told_and_is_no_error(held: ScenarioResult) -> None:
    target = TargetInfo("sim", "0.1", frozenset())
    result = replace(held, status="not_judged", reason="target lacks op.rank")
    (found,) = run_document(target, [result], ExitCode.NOT_JUDGED)["results"]
    assert (found["status"], found["error"]) == ("not_judged", None)
    assert found["reason"] == "target lacks op.rank"
