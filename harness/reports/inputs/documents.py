"""The JSON of ``run`` and ``matrix`` as it is read, and as its published schema says.

What was added to a schema after its first version has a default, so that older files are read.
``docs/run.schema.json`` and ``docs/matrix.schema.json`` are made from these classes.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec


class Tool(msgspec.Struct, frozen=True):
    """Who wrote the document."""

    version: str


class TargetObject(msgspec.Struct, frozen=True):
    """What was judged."""

    kind: str
    version: str
    capabilities: list[str]


class ExpectationObject(msgspec.Struct, frozen=True):
    """One ``expect`` step, by index from 0, or a step that did not come to its end."""

    step: int
    status: str
    expected: str
    seen: str


class VerdictObject(msgspec.Struct, frozen=True):
    """One invariant, merged over all schedules or trials."""

    invariant: str
    level: str
    verdict: str
    reason: str = ""
    exercised: int = 0
    message: str = ""
    expected: str = ""
    seen: str = ""
    witness: list[int] = []


class ResultObject(msgspec.Struct, frozen=True):
    """One scenario in one profile."""

    scenario: str
    title: str
    refs: list[str]
    profile: str
    mutant: str | None
    status: str
    known: list[str]
    error: str | None
    reason: str | None
    expectations: list[ExpectationObject]
    verdicts: list[VerdictObject]
    schedules: int
    trials: int
    strategy: str
    seed: int
    digest: str | None
    duration_s: float
    failure_file: str | None
    repeats: list[str] = []
    explored: str = ""
    exhausted: bool = False
    departures: list[str] | None = None


class FoundObject(msgspec.Struct, frozen=True):
    """One thing that a baseline says of a run; ``line``: of the baseline file."""

    kind: str
    counts: bool
    scenario: str
    target: str
    release: str
    invariant: str
    text: str
    line: int | None = None


class BaselineObject(msgspec.Struct, frozen=True):
    """The baseline that a run was compared with, and what was found."""

    file: str
    today: str
    words: str
    regressions: int
    found: list[FoundObject]
    absent: list[str] = []


class SummaryObject(msgspec.Struct, frozen=True):
    """Scenarios by status, and the exit code."""

    held: int
    violated: int
    known: int
    not_judged: int
    error: int
    exit: int
    unstable: int = 0


class RunDocument(msgspec.Struct, frozen=True):
    """What ``wavecheck run --json`` writes."""

    schema: int
    tool: Tool
    target: TargetObject
    results: list[ResultObject]
    not_run: list[str]
    summary: SummaryObject
    allow_known: bool = False
    strict: bool = False
    baseline: BaselineObject | None = None


class FrontendObject(msgspec.Struct, frozen=True):
    """A column of a matrix."""

    id: str
    release: str | None
    sha256: str | None
    note: str | None
    error: str | None
    arguments: list[str] = []
    environment: dict[str, str] = {}
    mutant: str | None = None


class KnownObject(msgspec.Struct, frozen=True):
    """A fault that a scenario predicts, as its file says it."""

    invariant: str
    reason: str
    link: str
    target: str = "vllm-rs"
    introduced_in: str | None = None
    fixed_in: str | None = None
    measured: list[dict[str, Any]] = []


class ScenarioObject(msgspec.Struct, frozen=True):
    """A row of a matrix."""

    id: str
    title: str
    refs: list[str]
    race: bool
    trials_planned: int
    known: list[KnownObject]


class CellObject(msgspec.Struct, frozen=True):
    """One scenario on one frontend."""

    scenario: str
    frontend: str
    status: str
    reason: str | None
    plays: list[str]
    known: list[str]
    regression: list[str]
    blind: list[str]
    should: list[str]
    held: list[str]
    trials: int
    cut: bool
    message: str | None
    expected: str | None
    seen: str | None
    evidence: list[str]
    duration_s: float
    failure_file: str | None
    replay: str | None


class FlipObject(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """A change between two releases."""

    scenario: str
    invariant: str
    before: str
    after: str
    direction: str


class PairObject(msgspec.Struct, frozen=True):
    """A cell that an interruption left out."""

    scenario: str
    frontend: str


class MatrixDocument(msgspec.Struct, frozen=True):
    """What ``wavecheck matrix`` writes as ``matrix.json``."""

    schema: int
    tool: Tool
    frontends: list[FrontendObject]
    scenarios: list[ScenarioObject]
    cells: list[CellObject]
    flips: list[FlipObject]
    not_run: list[PairObject]
    summary: dict[str, int]


Document = TypeVar("Document")


def convert(document: dict[str, Any], form: type[Document]) -> Document:
    """Read a document.

    Raises:
        msgspec.ValidationError: it lacks a key, or holds another type; the message says where.
    """
    return msgspec.convert(document, form, strict=False)
