"""The text of an explanation: sections of paragraphs, wrapped to the width of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from client.protocol.profiles import RELEASES
from harness.authoring.explanation import HEALING, Explanation
from harness.authoring.judging import Bench, Place
from harness.authoring.words.told import codes, listed
from harness.invariants import discover as discover_invariants
from harness.reports.wording import counted
from harness.targets.capabilities import CAPABILITIES

WIDTH_MIN = 40
"""Narrower terminals wrap for themselves."""
WIDTH_MAX = 100
"""Prose in longer lines is hard to read."""


@dataclass(frozen=True, slots=True)
class Line:
    """A paragraph. ``label`` stands before it; its further lines begin below its first word."""

    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    lines: list[Line] = field(default_factory=list)


def sections(told: Explanation, *, verbose: bool = False) -> Iterator[Section]:
    """Everything that is to be said, in the order of the story."""
    yield Section("Promise", [Line(told.scenario.promise)])
    yield Section("Releases", list(_releases(told)))
    yield Section("Who takes part", [Line(" ".join(told.topology))])
    yield Section("How the engines behave", list(_behaviours(told)))
    yield Section("What happens", list(_story(told)))
    if told.known:
        yield Section("Known faults", list(_known(told)))
    yield Section("Who judges", list(_judges(told, verbose=verbose)))
    yield Section("Where it can be played", list(_targets(told)))
    yield Section("Mutants", list(_mutants(told)))


def _range(releases: Sequence[str]) -> str:
    """Releases in words: runs of them by their first and last."""
    runs: list[list[str]] = []
    for release in releases:
        before = RELEASES[RELEASES.index(release) - 1] if RELEASES.index(release) else None
        if runs and runs[-1][-1] == before:
            runs[-1].append(release)
        else:
            runs.append([release])
    return listed(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _releases(told: Explanation) -> Iterator[Line]:
    if not told.not_applying:
        yield Line(f"It applies to every known release, {_range(told.applying)}.")
    elif told.applying:
        why = f"`profiles` is {told.scenario.profiles}"
        yield Line(
            f"It applies to {_range(told.applying)}, and not to {_range(told.not_applying)}: {why}."
        )
    else:
        yield Line(f"It applies to no known release: `profiles` is {told.scenario.profiles}.")
    if told.applies:
        yield Line(f"What follows is told for {told.release}.")
    else:
        yield Line(f"What follows is told for {told.release}, for which nothing is played.")


def _behaviours(told: Explanation) -> Iterator[Line]:
    for subject, phrases in told.behaviours:
        for phrase in phrases:
            yield Line(f"{phrase}.", f"{subject}: ")
    rest = "In all else the engines behave" if told.behaviours else "All engines behave"
    yield Line(f"{rest} well: they stream what is asked for, answer calls and take heed of aborts.")


def _story(told: Explanation) -> Iterator[Line]:
    width = len(str(len(told.steps)))
    if told.startup:
        yield Line(f"Steps 1 to {told.startup} run during startup.")
    elif not any(step.verb == "connect" for step in told.steps):
        end = "fails, as it is expected to" if told.scenario.connect_fails else "comes to its end"
        yield Line(f"First, startup {end}.")
    for step in told.steps:
        yield Line(step.text, f"{step.number:>{width}}. ")
    yield Line(HEALING)
    for text in told.further:
        yield Line(text)


def _known(told: Explanation) -> Iterator[Line]:
    for phrase in told.known:
        yield Line(f"{phrase}.", "- ")
    for program, names in told.predicted.items():
        yield Line(f"So {program} is to be seen to violate in {told.release}: {listed(names)}.")
    if not told.predicted:
        yield Line(f"None of it is to be seen in {told.release}.")


def _judges(told: Explanation, *, verbose: bool) -> Iterator[Line]:
    expectations = sum(step.verb == "expect" for step in told.steps)
    if expectations:
        yield Line(f"The file itself, by {counted(expectations, 'expectation')}.")
    if told.statements:
        yield Line("It is about these invariants, whose situation it brings about:")
        for name, statement in told.statements.items():
            yield Line(statement, f"- {name}: ")
    else:
        yield Line("It is about no invariant in particular.")
    kinds = list(told.benches)
    if not kinds:
        yield Line(f"No target can play it in {told.release}.")
        return
    first = told.benches[kinds[0]]
    others = [name for name in first.judging if name not in told.statements]
    yield Line(
        f"On {kinds[0]} these judge as well, each if the situation that it guards arises:"
        if told.statements
        else f"On {kinds[0]} these judge, each if the situation that it guards arises:"
    )
    yield Line(f"{', '.join(others) or 'none'}.", "- ")
    yield from _skipped("do not judge", first.skipped)
    for alike in _alike(told.benches, kinds[1:]):
        yield from _difference(alike, told.benches[alike[0]], kinds[0], first)
    if verbose:
        yield from _statements(first.judging)


def _statements(names: Iterable[str]) -> Iterator[Line]:
    docs = {cls.id: cls.doc().get("statement", "") for cls in discover_invariants()}
    yield Line("What they say:")
    for name in names:
        yield Line(docs[name].replace("``", "`"), f"- {name}: ")


def _skipped(how: str, skipped: Mapping[str, str]) -> Iterator[Line]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in skipped.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        yield Line(f"{', '.join(names)}.", f"- {how}, {reason}: ")


def _alike(benches: Mapping[str, Bench], kinds: Iterable[str]) -> list[list[str]]:
    """Kinds of targets, those with the same judges together."""
    groups: list[list[str]] = []
    for kind in kinds:
        same = (group for group in groups if benches[group[0]] == benches[kind])
        group = next(same, None)
        if group is None:
            groups.append([kind])
        else:
            group.append(kind)
    return groups


def _difference(kinds: Sequence[str], bench: Bench, other: str, first: Bench) -> Iterator[Line]:
    """How judging at some places differs from that at the first one."""
    fewer = {name: why for name, why in bench.skipped.items() if name in first.judging}
    more = [name for name in bench.judging if name in first.skipped]
    if not fewer and not more and not bench.unseen:
        yield Line(f"The same judge on {listed(kinds)}.")
        return
    yield Line(f"On {listed(kinds)} judge the same as on {other}, but:")
    if more:
        yield Line(f"{', '.join(more)}.", "- also: ")
    yield from _skipped("not", fewer)
    for number, names in bench.unseen.items():
        yield Line(f"it lacks {listed(names)}.", f"- not the expectation of step {number}: ")


def _targets(told: Explanation) -> Iterator[Line]:
    for place in told.places:
        yield Line(_can(told, place), f"- {place.kind}: ")


def _can(told: Explanation, place: Place) -> str:
    if not told.applying:
        return "no, it applies to no known release."
    if not place.releases:
        missing = (f"{name} ({CAPABILITIES[name]})" for name in place.lacking)
        return f"no, it lacks {listed(missing)}."
    if place.releases == told.applying:
        return "yes."
    return f"in {_range(place.releases)}."


def _mutants(told: Explanation) -> Iterator[Line]:
    if told.kills:
        yield Line(f"It is known to kill {codes(told.kills)}.")
    if told.may_kill:
        text = "These break an invariant that it is about, so they may show in it, too: "
        yield Line(f"{text if told.kills else text.replace(', too', '')}{codes(told.may_kill)}.")
    if not told.kills and not told.may_kill:
        yield Line(
            "None is known to show in it; of a file of your own nobody has tried. One is tried by: "
            f"wavecheck run {told.name} --mutant ID (wavecheck list mutants)"
        )
    if told.kills or told.may_kill:
        name = (told.kills or told.may_kill)[0]
        yield Line(f"To see one: wavecheck run {told.name} --mutant {name}")


def text(told: Explanation, columns: int | None, *, verbose: bool = False) -> Text:
    """The whole explanation.

    Args:
        told: what is to be said.
        columns: width of the terminal; ``None``: paragraphs are not wrapped.
        verbose: the statement of every invariant that judges, too.
    """
    out = Text()
    out.append(told.id, "bold")
    out.append(f"\n{told.scenario.title}\n", "bold")
    out.append(f"{told.place}; {', '.join(told.scenario.refs)}\n", "dim")
    for section in sections(told, verbose=verbose):
        out.append(f"\n{section.title}\n", "bold")
        for line in section.lines:
            out.append("\n".join(wrapped(line, columns)) + "\n")
    return out


def wrapped(line: Line, columns: int | None) -> list[str]:
    """A paragraph in lines of at most ``columns``; ``None``: as one line."""
    label = f"  {line.label}"
    if columns is None or columns < WIDTH_MIN:
        return [label + line.text]
    # A long label would leave no room beside it.
    margin = len(label) if len(label) <= columns // 3 else 4
    return textwrap.wrap(
        label + line.text,
        min(columns, WIDTH_MAX),
        subsequent_indent=" " * margin,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [label]
