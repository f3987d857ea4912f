"""Pages with generated blocks, and the command that writes them again."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import click

from harness.docs import commands, events, surroundings
from harness.docs.formats_table import formats_table
from harness.docs.limits import limits
from harness.docs.markdown import table
from harness.docs.pictures import PICTURES, picture
from harness.docs.schemas import baseline_keys, document_keys, scenario_keys
from harness.docs.tables import (
    errors_table,
    events_table,
    invariants_reference,
    invariants_table,
    mutants_table,
    profiles_table,
    visibility_table,
)
from harness.targets import capability_table
from harness.targets.adapter import tables as adapter_tables
from harness.targets.vllm_rs import tables as vllm_rs_tables

_BLOCK = re.compile(
    r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)"
    r"(?P<end><!-- end generated -->)",
    re.DOTALL,
)


class UnknownTableError(ValueError):
    """A page asks for a table that nobody can make; the message lists those there are."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no table is called {name!r}; there are: {', '.join(sorted(TABLES))}")


TABLES: dict[str, Callable[[], str]] = {
    "baseline-keys": baseline_keys,
    "adapter-capabilities": lambda: table(
        ("capability", "for an adapter", "meaning"), adapter_tables.capability_rows()
    ),
    "adapter-commands": lambda: table(
        ("`do`", "keys", "answer", "sent if declared", "meaning"), adapter_tables.command_rows()
    ),
    "adapter-events": lambda: table(("kind", "fields", "when"), adapter_tables.event_rows()),
    "adapter-lines": lambda: table(("`say`", "keys", "meaning"), adapter_tables.line_rows()),
    "cli": commands.reference,
    "cli-index": commands.index,
    "capabilities": lambda: table(capability_table.HEAD, capability_table.rows()),
    "errors": errors_table,
    "environment": surroundings.variables,
    "environment-own": surroundings.own_variables,
    "environment-served": surroundings.served_variables,
    "event-fields": events.reference,
    "events": events_table,
    "exit-codes": commands.exit_codes,
    "formats": formats_table,
    "grpc-enums": lambda: table(vllm_rs_tables.ENUM_HEAD, vllm_rs_tables.enum_rows()),
    "grpc-messages": lambda: table(vllm_rs_tables.MESSAGE_HEAD, vllm_rs_tables.message_rows()),
    "grpc-methods": lambda: table(vllm_rs_tables.METHOD_HEAD, vllm_rs_tables.method_rows()),
    "invariants": invariants_table,
    "invariants-reference": invariants_reference,
    "limits": limits,
    "matrix-keys": lambda: document_keys("matrix"),
    "metrics": lambda: table(vllm_rs_tables.METRIC_HEAD, vllm_rs_tables.metric_rows()),
    "mutants": mutants_table,
    "profiles": profiles_table,
    "pytest-fixtures": surroundings.pytest_fixtures,
    "pytest-options": surroundings.pytest_options,
    "report-keys": lambda: document_keys("report"),
    "run-keys": lambda: document_keys("run"),
    "scenario-keys": scenario_keys,
    "surfaces": lambda: table(vllm_rs_tables.SURFACE_HEAD, vllm_rs_tables.surface_rows()),
    "visibility": visibility_table,
    **{name: functools.partial(picture, name) for name in PICTURES},
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
