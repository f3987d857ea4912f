"""The kill matrix as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harness.hunting.prey import (
    CRASHED,
    KILLED,
    NOT_RUN,
    OTHERS_ONLY,
    STATUSES,
    SURVIVED,
    UNSOUND,
    Bag,
    Kill,
    Prey,
)
from harness.reports.json_report import SCHEMA
from harness.reports.wording import counted
from harness.version import tool_version

NOT_KILLED = (SURVIVED, CRASHED, OTHERS_ONLY, UNSOUND)


def hunt_lines(bag: Bag) -> Iterator[str]:
    """The matrix: what FIFO kills, what a search kills, what nothing kills, what kills nothing."""
    killed = bag.of(KILLED)
    by_fifo = [prey for prey in killed if prey.by_fifo]
    by_search = [prey for prey in killed if not prey.by_fifo]
    if by_fifo:
        yield f"killed by FIFO alone ({len(by_fifo)}):"
        yield from _rows(by_fifo)
    if by_search:
        yield f"killed by a search ({len(by_search)}), schedules to the first kill:"
        yield from _rows(by_search, schedules=True)
    for status in NOT_KILLED:
        if found := bag.of(status):
            yield f"{status} ({len(found)}): {STATUSES[status]}"
            yield from _bad_rows(found)
    if left := bag.of(NOT_RUN):
        yield f"{NOT_RUN} ({len(left)}): {STATUSES[NOT_RUN]}"
        yield "  " + ", ".join(prey.mutant.id for prey in left)
    if bag.unkilled:
        yield f"invariants that killed no mutant of theirs ({len(bag.unkilled)}):"
        yield from (f"  {name}" for name in bag.unkilled)


def _rows(prey: Sequence[Prey], *, schedules: bool = False) -> Iterator[str]:
    cells = [("mutant", "invariant", "scenario", "also violated")]
    for each in prey:
        killer = each.killer
        assert killer is not None
        where = killer.scenario + (f" ({killer.schedules})" if schedules else "")
        cells.append((each.mutant.id, each.mutant.killed_by, where, _others(each, killer)))
    yield from _aligned(cells)


def _others(prey: Prey, killer: Kill) -> str:
    return ", ".join(name for name in killer.violated if name != prey.mutant.killed_by)


def _bad_rows(prey: Sequence[Prey]) -> Iterator[str]:
    for each in prey:
        played = counted(each.schedules, "schedule")
        yield (
            f"  {each.mutant.id}: {each.mutant.killed_by} is not violated in {played} of"
            f" {counted(each.scenarios, 'scenario')}"
        )
        for kill in each.kills[:3]:
            yield f"      {kill.scenario}: {', '.join(kill.violated)}"
        for crash in each.crashes[:3]:
            yield f"      {crash.scenario}: {crash.error.partition(chr(10))[0]}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield ("  " + "  ".join(cells)).rstrip()


def hunt_summary(bag: Bag) -> str:
    """The last line."""
    killed = bag.of(KILLED)
    fifo = sum(prey.by_fifo for prey in killed)
    parts = [f"{counted(len(bag.prey), 'mutant')}: {len(killed)} killed ({fifo} by FIFO alone)"]
    parts += [f"{len(found)} {status}" for status in NOT_KILLED if (found := bag.of(status))]
    if left := bag.of(NOT_RUN):
        parts.append(f"{len(left)} {NOT_RUN}")
    return f"{', '.join(parts)}; exit {int(bag.code)}"


def hunt_document(
    bag: Bag, invariants: Iterable[str], *, strategy: str, schedules: int, seed: int
) -> dict[str, Any]:
    """The document of ``wavecheck mutants --json``."""
    killers: dict[str, list[str]] = {name: [] for name in invariants}
    for prey in bag.of(KILLED):
        killers.setdefault(prey.mutant.killed_by, []).append(prey.mutant.id)
    return {
        "schema": SCHEMA,
        "tool": {"version": tool_version()},
        "strategy": strategy,
        "schedules": schedules,
        "seed": seed,
        "mutants": [_prey_object(prey) for prey in bag.prey],
        "invariants": [{"id": name, "kills": found} for name, found in killers.items()],
        "summary": {
            **{status: len(bag.of(status)) for status in STATUSES},
            "by_fifo": sum(prey.by_fifo for prey in bag.of(KILLED)),
            "exit": int(bag.code),
        },
    }


def _prey_object(prey: Prey) -> dict[str, Any]:
    killer = prey.killer
    return {
        "id": prey.mutant.id,
        "family": prey.mutant.family,
        "killed_by": prey.mutant.killed_by,
        "status": prey.status,
        "killer": None if killer is None else _kill_object(killer),
        "by_fifo": prey.by_fifo,
        "kills": [_kill_object(kill) for kill in prey.kills],
        "crashes": [{"scenario": crash.scenario, "error": crash.error} for crash in prey.crashes],
        "played": {"scenarios": prey.scenarios, "schedules": prey.schedules},
    }


def _kill_object(kill: Kill) -> dict[str, Any]:
    return {
        "scenario": kill.scenario,
        "profile": kill.profile,
        "strategy": kill.strategy,
        "schedules": kill.schedules,
        "own": kill.own,
        "violated": list(kill.violated),
        "without_mutant": kill.control,
        "failure_file": kill.failure_file,
    }
