"""Writes the tables of ``docs/`` that repeat what the code says: ``python -m harness.docs``.

A page holds a pair of marker lines, ``generated: NAME`` and ``end generated`` as HTML comments;
what stands between them is replaced. ``--check`` writes nothing and ends with 1 if a page is
stale, which is what ``tests/meta`` asks.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click

from client import errors as client_errors
from client.events import ClientEvent
from client.protocol.profiles import PROFILES, Profile
from harness.invariants import discover as discover_invariants
from harness.mutants import discover as discover_mutants
from harness.mutants.base import FAMILIES
from harness.targets import capability_table
from harness.targets.adapter import tables as adapter_tables
from harness.targets.vllm_rs import tables as vllm_rs_tables
from harness.trace.kinds import FIELDS_OF, KIND_OF
from mock_engines.events import MockEvent

_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)"
    r"(?P<end><!-- end generated -->)",
    re.DOTALL,
)


class UnknownTableError(ValueError):
    """A page asks for a table that nobody can make; the message lists those there are."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no table is called {name!r}; there are: {', '.join(sorted(TABLES))}")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a Markdown table; pipes inside cells are escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") or "–" for cell in cells) + " |"

    return "\n".join([line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]) + "\n"


def code(names: Iterable[str]) -> str:
    """Render names as code, joined by commas."""
    return ", ".join(f"`{name}`" for name in names)


def invariants_table() -> str:
    """All invariants: id, statement, level, what they need, where they apply."""
    return table(
        ("id", "statement", "level", "judged", "needs", "releases"),
        (
            (
                f"`{cls.id}`",
                cls.doc().get("statement", "").replace("``", "`"),
                cls.level.value,
                cls.kind.value,
                code(sorted(cls.needs)),
                cls.profiles or "all",
            )
            for cls in discover_invariants()
        ),
    )


def mutants_table() -> str:
    """All mutants by family: id, the fault, what comes of it, the invariant that kills them."""
    parts = []
    for family in FAMILIES:
        rows = (
            (f"`{mutant.id}`", mutant.title, mutant.bug, f"`{mutant.killed_by}`", mutant.source)
            for mutant in discover_mutants()
            if mutant.family == family
        )
        head = ("id", "fault", "what comes of it", "killed by", "source")
        parts.append(f"### {family.capitalize()}\n\n{table(head, rows)}")
    return "\n".join(parts)


def visibility_table() -> str:
    """All mutants: whether a black box shows their fault, and if not why."""
    return table(
        ("mutant", "shows in", "because"),
        (
            (f"`{mutant.id}`", mutant.visible(), mutant.hidden_because)
            for mutant in discover_mutants()
        ),
    )


def events_table() -> str:
    """All kinds of trace events: meaning, who tells them, and their fields."""
    tellers = {
        "engines": typing.get_args(MockEvent),
        "client": typing.get_args(ClientEvent),
    }

    def teller(event_type: type) -> str:
        return next((who for who, types in tellers.items() if event_type in types), "harness")

    return table(
        ("kind", "when", "told by", "fields"),
        (
            (f"`{kind}`", meaning, teller(event_type), code(FIELDS_OF[event_type]))
            for event_type, (kind, meaning) in KIND_OF.items()
        ),
    )


def errors_table() -> str:
    """The client's errors, with the release since which each exists."""
    # Names in "Error" are the groups of the tree; nothing raises those.
    found = [cls for cls in client_errors.error_tree() if not cls.__name__.endswith("Error")]
    return table(
        ("error", "since", "raised when"),
        (
            (f"`{cls.__name__}`", cls.since or "ours", _first_sentence(cls))
            for cls in sorted(found, key=lambda cls: cls.__name__)
        ),
    )


def profiles_table() -> str:
    """Every property in which releases differ, with the releases at which it changes."""
    profiles = list(PROFILES.values())
    rows = []
    for field in dataclasses.fields(Profile):
        if field.name in ("release", "version"):
            continue
        changes = _changes(profiles, field.name)
        if len(changes) > 1:
            rows.append((f"`{field.name}`", "; ".join(changes)))
    return table(("property", "value, by first release"), rows)


def _changes(profiles: Sequence[Profile], name: str) -> list[str]:
    changes: list[str] = []
    before: object = dataclasses.MISSING
    for profile in profiles:
        value = getattr(profile, name)
        if value != before:
            changes.append(f"{_shown(before, value)}: {profile.release}")
            before = value
    return changes


def _shown(before: object, value: object) -> str:
    """Show a value; of a collection that changed, only what was added and dropped."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, tuple | frozenset):
        return "any" if value is None else str(value)
    ordered = sorted(value) if isinstance(value, frozenset) else list(value)
    if not isinstance(before, tuple | frozenset):
        return code(str(item) for item in ordered) or "none"
    added = [f"+`{item}`" for item in ordered if item not in before]
    dropped = [f"-`{item}`" for item in sorted(before) if item not in value]
    return " ".join([*added, *dropped])


def _first_sentence(cls: type) -> str:
    text = " ".join((cls.__doc__ or "").split()).replace("``", "`")
    return text.split(". ")[0].rstrip(".")


TABLES: dict[str, Callable[[], str]] = {
    "adapter-capabilities": lambda: table(
        ("capability", "for an adapter", "meaning"), adapter_tables.capability_rows()
    ),
    "adapter-commands": lambda: table(
        ("`do`", "keys", "answer", "sent if declared", "meaning"), adapter_tables.command_rows()
    ),
    "adapter-events": lambda: table(("kind", "fields", "when"), adapter_tables.event_rows()),
    "adapter-lines": lambda: table(("`say`", "keys", "meaning"), adapter_tables.line_rows()),
    "capabilities": lambda: table(capability_table.HEAD, capability_table.rows()),
    "errors": errors_table,
    "events": events_table,
    "grpc-enums": lambda: table(vllm_rs_tables.ENUM_HEAD, vllm_rs_tables.enum_rows()),
    "grpc-messages": lambda: table(vllm_rs_tables.MESSAGE_HEAD, vllm_rs_tables.message_rows()),
    "grpc-methods": lambda: table(vllm_rs_tables.METHOD_HEAD, vllm_rs_tables.method_rows()),
    "invariants": invariants_table,
    "metrics": lambda: table(vllm_rs_tables.METRIC_HEAD, vllm_rs_tables.metric_rows()),
    "mutants": mutants_table,
    "profiles": profiles_table,
    "surfaces": lambda: table(vllm_rs_tables.SURFACE_HEAD, vllm_rs_tables.surface_rows()),
    "visibility": visibility_table,
}
"""Every table that a page may ask for, by the name in its marker."""


def regenerated(text: str) -> str:
    """Return a page with all its generated blocks made afresh.

    Raises:
        UnknownTableError: a marker names no table.
    """

    def fill(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in TABLES:
            raise UnknownTableError(name)
        return f"{match['begin']}\n{TABLES[name]()}\n{match['end']}"

    return _BLOCK.sub(fill, text)


def stale_pages(folder: Path) -> list[tuple[Path, str]]:
    """Return the pages below ``folder`` that are not current, with their current text."""
    found = []
    for page in sorted(folder.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        current = regenerated(text)
        if current != text:
            found.append((page, current))
    return found


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; end with 1 if a page is stale.")
@click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default="docs"
)
def main(check: bool, folder: Path) -> None:
    """Write the generated tables of the pages in FOLDER (default: docs) again."""
    stale = stale_pages(folder)
    for page, current in stale:
        if check:
            click.echo(f"{page} is stale; run: python -m harness.docs", err=True)
        else:
            page.write_text(current, encoding="utf-8")
            click.echo(f"wrote {page}")
    if check and stale:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
