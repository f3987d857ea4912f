"""What is wrong with a scenario file: problems with their places, and how they read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.reports.diagnostic import Diagnostic, Excerpt
from harness.reports.wording import counted
from harness.scenario.positions import LINE_BREAKS, Place
from harness.shortened import PART_CHARS_MAX, shortened

PROBLEMS_SHOWN_MAX = 5
"""Problems of one file that are shown; the rest is counted."""
CHOICES_SHOWN_MAX = 24
"""Valid words that a message lists when none of them is near."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. ``place`` is ``None`` when it is not about a line."""

    title: str
    place: Place | None = None
    expected: str = ""
    seen: str = ""
    help: str = ""

    def __post_init__(self) -> None:
        """Cut what quotes the file: a value in it may be as long as the file."""
        for name in ("title", "expected", "seen", "help"):
            object.__setattr__(self, name, shortened(getattr(self, name), PART_CHARS_MAX))


class ScenarioFileError(Exception):
    """A scenario file cannot be used.

    Attributes:
        path: the file, as it was named by the user.
        text: its text, or ``""`` where it could not be read.
        problems: what is wrong, in the order of the file.
    """

    def __init__(self, path: Path, text: str, problems: Sequence[Problem]) -> None:
        super().__init__(f"{path}: {problems[0].title}")
        self.path = path
        self.text = text
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type, tuple[Path, str, tuple[Problem, ...]]]:
        """Pickle by its three parts."""
        return type(self), (self.path, self.text, self.problems)

    def diagnostics(self) -> list[Diagnostic]:
        """The first few problems as messages, and how many more there are."""
        lines = LINE_BREAKS.split(self.text)
        found = [self._diagnostic(problem, lines) for problem in self.problems]
        if (more := len(found) - PROBLEMS_SHOWN_MAX) > 0:
            what = counted(more, "more problem")
            note = Diagnostic("note", f"{what} in this file", where=str(self.path))
            return [*found[:PROBLEMS_SHOWN_MAX], note]
        return found

    def _diagnostic(self, problem: Problem, lines: Sequence[str]) -> Diagnostic:
        where, excerpt = str(self.path), None
        if (place := problem.place) is not None:
            where = f"{where}:{place.line}:{place.column}"
            if place.line <= len(lines) and lines[place.line - 1].strip():
                excerpt = Excerpt(place.line, place.column, lines[place.line - 1])
        return Diagnostic(
            "error",
            problem.title,
            where=where,
            excerpt=excerpt,
            expected=problem.expected,
            seen=problem.seen,
            help=problem.help,
        )


def nearest(word: object, choices: Iterable[str]) -> str | None:
    """The choice that ``word`` is probably meant to be, if any."""
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(word).lower(), list(by_lower), n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """A help line with the nearest choice, or ``""``."""
    found = nearest(word, choices)
    return f"did you mean '{found}'?" if found is not None else ""


def one_of(choices: Iterable[str]) -> str:
    """List the valid words, a few of them where there are many."""
    words = list(choices)
    if not words:
        return "nothing (there is none to choose from)"
    if len(words) == 1:
        return words[0]
    if (more := len(words) - CHOICES_SHOWN_MAX) > 0:
        return f"one of {', '.join(words[:CHOICES_SHOWN_MAX])} and {more} more"
    return f"one of {', '.join(words)}"


def show(value: object) -> str:
    """Name a value as a user wrote it: its kind, and itself where it is short."""
    match value:
        case None:
            return "nothing (null)"
        case bool():
            return str(value).lower()
        case str():
            return f"text {value!r}" if value else "empty text"
        case int() | float():
            return f"the number {value}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "a mapping with " + (", ".join(map(str, list(value)[:5])) or "no keys")
    return repr(value)
