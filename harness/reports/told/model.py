"""The document that every report is made from, and what ``--format json`` writes.

Its JSON Schema is ``docs/report.schema.json``. Keys may be added; within one ``schema`` none is
renamed or removed.
"""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = 1


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One value of a message, in the order in which values are written.

    ``depth``: 0 is the whole body. ``frame``, ``offset``, ``length``: where, in bytes.
    """

    depth: int
    label: str
    type: str
    value: str
    frame: int
    offset: int
    length: int


class Message(msgspec.Struct, frozen=True):
    """The bytes of one message at an engine's socket.

    Attributes:
        kind: as ``wavecheck decode --as`` takes it.
        socket: ``handshake``, ``input``, ``output``, ``coordinator-input``, ``coordinator-output``.
        direction: ``to-engine`` or ``from-engine``.
        frames: hex, each cut to the first bytes that are shown.
        sizes: whole length of each frame in bytes.
        rows: values of the body; those that are nil are left out.
        nil: how many were left out.
        named_by: release whose names the rows carry.
        note: why there are no rows, or that some are left out.
    """

    kind: str
    title: str
    engine: int
    socket: str
    direction: str
    frames: list[str]
    sizes: list[int]
    rows: list[Row]
    nil: int
    named_by: str
    note: str = ""


class Event(msgspec.Struct, frozen=True):
    """One event of a trace.

    Attributes:
        seq: its number in the whole trace, from 0.
        time_us: microseconds since the run began, by the run's own clock.
        kind: as scenario files name it.
        source, target: ids of lanes; equal where nothing was sent.
        text: one line for people.
        fields: the decoded payload; ``None``: only the line was recorded.
        messages: places in ``Trace.messages`` of the bytes that carried it.
    """

    seq: int
    time_us: int
    kind: str
    source: str
    target: str
    text: str
    fields: dict[str, Any] | None = None
    messages: list[int] = []


class Choice(msgspec.Struct, frozen=True):
    """A choice of the tape that left FIFO order.

    Attributes:
        number: on the tape, from 0.
        before: how many events of the whole trace came before it.
        ran: label of what ran.
        options: labels of all that could have run, in FIFO order; the first would have.
    """

    number: int
    before: int
    ran: str
    options: list[str]


class Lane(msgspec.Struct, frozen=True):
    """A vertical line of the diagram."""

    id: str
    title: str


class Trace(msgspec.Struct, frozen=True):
    """The events of one run.

    Attributes:
        origin: ``replayed`` (with bytes) or ``recorded`` (what the failure file holds).
        note: what a reader must know of it, such as that it is another course than the recorded.
        kinds: meaning of each kind that occurs.
        total: events of the whole run; more than there are in ``events`` if it was cut.
        choices: those that left FIFO order; ``None``: nobody chose, or nobody looked.
        choices_total: choices of the tape.
    """

    origin: str
    note: str
    lanes: list[Lane]
    kinds: dict[str, str]
    events: list[Event]
    messages: list[Message]
    total: int
    choices: list[Choice] | None = None
    choices_total: int = 0


class Violation(msgspec.Struct, frozen=True):
    """One violation, with all that explains it.

    Attributes:
        level: ``violated``, ``known``, ``waived``, ``regression``, ``blind``, ``unstable`` or
            ``error``.
        code: id of the invariant, ``expectation``, or ``""``.
        settings: target, frontend, profile, mutant and so on, as far as they are not the default.
        order: where the schedule leaves FIFO order, one line each; ``None``: nobody looked.
        evidence: the witness as lines.
        witness: numbers of the events that show it; they are those of ``trace``.
        also: what else is violated, mostly consequences.
        replay: the command, or ``""`` where there is no failure file.
        trace: the run; ``None`` where ``trace_missing`` says why.
    """

    scenario: str
    title: str
    level: str
    code: str
    message: str
    settings: list[str]
    statement: str = ""
    why: str = ""
    source: str = ""
    expected: str = ""
    seen: str = ""
    also: list[str] = []
    order: list[str] | None = None
    evidence: list[str] = []
    witness: list[int] = []
    failure_file: str = ""
    replay: str = ""
    trace: Trace | None = None
    trace_missing: str = ""


class Result(msgspec.Struct, frozen=True):
    """One scenario on one frontend, or in one profile.

    Attributes:
        column: the profile of a run, the frontend of a matrix.
        status: as in ``docs/json.md``; of a matrix as in ``docs/matrix.md``.
        detail: why it was not judged or failed, or what is violated.
        violation: place in ``Report.violations``, or ``None``.
    """

    scenario: str
    title: str
    column: str
    status: str
    mutant: str | None = None
    detail: str = ""
    schedules: int = 0
    trials: int = 0
    duration_s: float = 0.0
    violation: int | None = None


class Grid(msgspec.Struct, frozen=True):
    """A matrix.

    Attributes:
        columns: ids of frontends.
        column_notes: what there is to say of a column, by its id.
        rows: ids of scenarios.
        cells: for each row and column the place in ``Report.results``; -1: not run.
        flips: changes between releases, one line each.
        signs: one sign for each status.
        meanings: what each status means.
    """

    columns: list[str]
    column_notes: dict[str, str]
    rows: list[str]
    cells: list[list[int]]
    flips: list[str]
    signs: dict[str, str]
    meanings: dict[str, str]


class Report(msgspec.Struct, frozen=True):
    """Everything.

    Attributes:
        schema: version of this form.
        form: what it was made from: ``run``, ``matrix`` or ``failures``.
        tool: version of wavecheck that made the report.
        source: the file or folder that was read.
        headline: what was played, in one line.
        verdict: what it came to, in one line.
        exit: exit code of the command that played it, where it is known.
        counts: results by status.
        not_run: what an interruption left out.
        notes: what was left out of the report, or could not be read, and why.
    """

    form: str
    tool: str
    source: str
    headline: str
    verdict: str
    counts: dict[str, int]
    results: list[Result]
    violations: list[Violation]
    exit: int | None = None
    target: str = ""
    matrix: Grid | None = None
    not_run: list[str] = []
    notes: list[str] = []
    schema: int = SCHEMA
