"""One type for every message to a person, and the one place that renders it.

A diagnostic answers, in this order: what (title), where, the excerpt, expected beside seen, the
evidence, why it matters, and one thing to do next.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.text import Text

from harness.reports.diagram import diagram
from harness.reports.visible import printable

EXCERPT_WIDTH_MAX = 100
"""Columns of a source line that an excerpt shows; longer lines are cut round the caret."""
VALUE_LENGTH_MAX = 400
"""Characters of one line of ``expected`` or ``seen`` that are shown."""

VALUE_LINES_MAX = 30
"""Lines of one ``expected`` or ``seen`` that are shown."""

_LABEL_WIDTH = 13
"""Columns before the value of a labelled line."""

LEVEL_STYLES = {
    "error": "bold red",
    "violated": "bold red",
    "blind": "bold red",
    "regression": "bold red",
    "unstable": "bold red",
    "expired": "bold red",
    "lost": "bold red",
    "unjudged": "bold red",
    "unpinned": "bold red",
    "stale": "bold red",
    "waived": "bold yellow",
    "known": "bold yellow",
    "not judged": "bold yellow",
    "note": "bold",
}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of a file and a column in it. ``line`` and ``column`` count from 1."""

    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem, in parts.

    Attributes:
        level: ``error``, ``violated``, ``blind``, ``known``, ``not judged`` or ``note``; in a
            matrix also ``regression`` and ``unstable``; of a baseline a kind of finding.
        title: one line that stands alone; further lines are shown below it.
        code: id of the invariant or of the kind of problem; shown in brackets.
        where: ``file:line:column`` of a file, or scenario and settings of a run.
        facts: further labelled lines, shown before ``expected``.
        evidence: the witness, one line for each event, in order; drawn as a diagram.
        also: what else is wrong, mostly consequences; one line each.
    """

    level: str
    title: str
    code: str = ""
    where: str = ""
    excerpt: Excerpt | None = None
    facts: tuple[tuple[str, str], ...] = field(default=())
    expected: str = ""
    seen: str = ""
    evidence: tuple[str, ...] = field(default=())
    also: tuple[str, ...] = field(default=())
    why: str = ""
    source: str = ""
    help: str = ""


def shorten(text: str, limit: int = VALUE_LENGTH_MAX) -> str:
    """Cut a long text in its middle."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def _few(lines: list[str], limit: int = VALUE_LINES_MAX) -> list[str]:
    """The first of many lines, and how many more there are."""
    if (more := len(lines) - limit) <= 0:
        return lines
    return [*lines[:limit], f"... and {more} more lines"]


def _excerpt_lines(excerpt: Excerpt) -> tuple[str, str]:
    """The line with its number, and the caret below it."""
    line, column = excerpt.text.expandtabs(1), excerpt.column - 1
    start = max(0, column - EXCERPT_WIDTH_MAX // 2) if len(line) > EXCERPT_WIDTH_MAX else 0
    shown = line[start : start + EXCERPT_WIDTH_MAX]
    # Escapes of unprintable characters widen what stands left of the caret.
    left = printable(shown[: column - start])
    text = left + printable(shown[column - start :])
    number = f"{excerpt.line:>5} | "
    return number + text.rstrip(), " " * 5 + " | " + " " * len(left) + "^"


def render(diagnostic: Diagnostic) -> Text:
    """Lay a diagnostic out as styled text without a final newline."""
    out = Text()
    code = f"[{diagnostic.code}]" if diagnostic.code else ""
    out.append(f"{diagnostic.level}{code}", LEVEL_STYLES.get(diagnostic.level, "bold"))
    title, *more = diagnostic.title.splitlines() or [""]
    out.append(f": {printable(title)}", "bold")
    for line in more:
        out.append(f"\n    {printable(line)}")
    if diagnostic.where:
        out.append(f"\n  --> {printable(diagnostic.where)}")
    if diagnostic.excerpt is not None:
        line, caret = _excerpt_lines(diagnostic.excerpt)
        out.append(f"\n{line}\n", "dim")
        out.append(caret, "bold red")
    for label, value in diagnostic.facts:
        _labelled(out, label, value)
    _labelled(out, "expected", diagnostic.expected, "green")
    _labelled(out, "seen", diagnostic.seen, "red")
    _listed(out, "witness", diagram(diagnostic.evidence))
    _listed(out, "also", diagnostic.also)
    _labelled(out, "why", diagnostic.why)
    _labelled(out, "source", diagnostic.source)
    _labelled(out, "help", diagnostic.help)
    return out


def _listed(out: Text, label: str, lines: tuple[str, ...]) -> None:
    if lines:
        out.append(f"\n  {label}:")
        for line in lines:
            out.append(f"\n    {printable(shorten(line))}")


def _labelled(out: Text, label: str, value: str, style: str = "") -> None:
    if value:
        out.append(f"\n  {label + ':':<10} ")
        # Lines of a value stay below each other; none can pass for a label of ours.
        lines = [printable(shorten(line)) for line in _few(value.splitlines())]
        out.append(("\n" + " " * _LABEL_WIDTH).join(lines), style)


def plain(diagnostic: Diagnostic) -> str:
    """Render without colour."""
    return render(diagnostic).plain
