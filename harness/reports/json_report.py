"""The JSON of ``run``, and how every command writes JSON.

Keys are a contract: they may be added, never renamed or removed, within one ``schema``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from harness.formats import RUN
from harness.results import ScenarioResult
from harness.targets.base import TargetInfo
from harness.verdict import ExitCode, summarise
from harness.version import tool_version

SCHEMA = RUN.current
"""Version of the JSON that every command writes."""


def run_document(
    target: TargetInfo,
    results: Sequence[ScenarioResult],
    code: ExitCode,
    not_run: Iterable[str] = (),
    *,
    allow_known: bool = False,
    strict: bool = False,
    baseline: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document of one ``run``: tool, target, results in order, what was left out, summary.

    ``allow_known`` and ``strict`` are the flags that its exit code follows, and ``baseline`` is
    what it was compared with.
    """
    return {
        "schema": SCHEMA,
        "tool": {"version": tool_version()},
        "target": {
            "kind": target.kind,
            "version": target.version,
            "capabilities": sorted(target.capabilities),
        },
        "results": [result_object(result) for result in results],
        "not_run": list(dict.fromkeys(not_run)),
        "allow_known": allow_known,
        "strict": strict,
        "baseline": baseline,
        "summary": asdict(summarise(results, code)),
    }


def result_object(result: ScenarioResult) -> dict[str, Any]:
    """One result; what is only for text output is left out."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    del found["witness_lines"], found["should_lines"], found["failure_file_error"]
    del found["start_failure"], found["failure_unwritten"], found["known_because"]
    found["duration_s"] = round(result.duration_s, 6)
    return found


def to_text(document: Any, *, ascii_only: bool = False) -> str:
    """JSON text with a final newline, readable in a diff; other signs escaped if ``ascii_only``."""
    return json.dumps(document, indent=2, ensure_ascii=ascii_only, allow_nan=False) + "\n"
