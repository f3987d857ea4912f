"""The figures of a run, and whether they are good enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.equivalents import BOUND, Equivalent
from tests.mutation.ledger import Entry
from tests.mutation.mutants import Mutant

SHARE = 0.9
"""More than this part of the whole sample is to be killed by a test that fails."""


@dataclass(frozen=True)
class Verdicts:
    """The sample, sorted. ``refuted``: argued to be equivalent, and yet killed."""

    killed: list[Mutant]
    timeout: list[Mutant]
    equivalent: list[Mutant]
    refuted: list[Mutant]
    survived: list[Mutant]
    unknown: list[Mutant]

    @property
    def good(self) -> bool:
        """Whether the bounds hold, and nothing is missing."""
        total = sum(map(len, vars(self).values()))
        few = len(self.equivalent) <= BOUND * total / 500
        return few and not self.refuted and not self.unknown and len(self.killed) > SHARE * total


def judged(
    sample: Sequence[Mutant], entries: Mapping[str, Entry], listed: Sequence[Equivalent]
) -> Verdicts:
    """Sort the sample by what the trials and the reviewed list say."""
    verdicts = Verdicts([], [], [], [], [], [])
    for mutant in sample:
        entry = entries.get(mutant.name)
        argued = any(each.names(mutant) for each in listed)
        if entry is None:
            verdicts.unknown.append(mutant)
        elif entry.end == "passed":
            (verdicts.equivalent if argued else verdicts.survived).append(mutant)
        elif argued:
            verdicts.refuted.append(mutant)
        else:
            (verdicts.timeout if entry.end == "timeout" else verdicts.killed).append(mutant)
    return verdicts


def lines(
    verdicts: Verdicts, entries: Mapping[str, Entry], listed: Sequence[Equivalent], root: Path
) -> list[str]:
    """The report, a line each."""
    text = {file: (root / file).read_text(encoding="utf-8") for file in _files(verdicts)}
    said = _table(verdicts)
    for mutant in verdicts.equivalent:
        argument = next(each.argument for each in listed if each.names(mutant))
        said += ["", f"equivalent: {mutant.file}:{mutant.number} {mutant.operator}"]
        said += [mutant.shown(text[mutant.file]), f"because {' '.join(argument.split())}"]
    for title, mutants in (("survived", verdicts.survived), ("refuted", verdicts.refuted)):
        for mutant in mutants:
            said += ["", f"{title}: {mutant.file}:{mutant.number} {mutant.operator}"]
            said += [f"  name: {mutant.name}", mutant.shown(text[mutant.file])]
            said += [f"  killed by {entries[mutant.name].witness}"] * (title == "refuted")
    return [*said, "", *_summary(verdicts, entries)]


def _files(verdicts: Verdicts) -> list[str]:
    return sorted({mutant.file for group in vars(verdicts).values() for mutant in group})


def _table(verdicts: Verdicts) -> list[str]:
    counts = {name: Counter(m.file for m in group) for name, group in vars(verdicts).items()}
    shown = ("killed", "timeout", "equivalent", "survived")
    said = ["| module | " + " | ".join(shown) + " |", "|---|" + "---:|" * len(shown)]
    for file in _files(verdicts):
        cells = (str(counts[name][file]) for name in shown)
        said.append(f"| `{file}` | " + " | ".join(cells) + " |")
    return said


def _summary(verdicts: Verdicts, entries: Mapping[str, Entry]) -> list[str]:
    total = sum(map(len, vars(verdicts).values()))
    ends = Counter(entries[mutant.name].end for mutant in verdicts.killed)
    killed = len(verdicts.killed)
    said = [
        f"{killed} of {total} mutants killed ({killed / total:.1%}): {ends['failed']} by a failing "
        f"test, {ends['import']} at import, {ends['crash']} by a crash",
        f"{len(verdicts.timeout)} ran into the time limit",
        f"{len(verdicts.equivalent)} argued to be equivalent (at most {BOUND * total // 500})",
        f"{len(verdicts.survived)} survived",
    ]
    if verdicts.refuted:
        said.append(f"{len(verdicts.refuted)} argued to be equivalent, and yet killed")
    if verdicts.unknown:
        said.append(f"{len(verdicts.unknown)} not tried")
    return said
