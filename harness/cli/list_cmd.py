"""``wavecheck list``: what there is."""

from __future__ import annotations

import textwrap

import click
from rich.text import Text

from harness.cli.catalogue import CATALOGUES, Row
from harness.cli.output import CommandError, Output, json_option
from harness.scenario.selection import InvalidScenariosError
from harness.verdict import ExitCode

TITLE_COLUMNS_MIN = 30
"""On a terminal with less room for titles nothing is wrapped by us."""


@click.command(
    "list",
    epilog="""\b
Examples:
  wavecheck list scenarios
  wavecheck list invariants --json -
""",
)
@click.argument("what", type=click.Choice(list(CATALOGUES)))
@json_option
def list_command(what: str, json_file: str | None) -> int:
    """Show what there is, one line each: id and title.

    With --json an array of objects that have at least `id` and `title`, and more: a scenario's
    refs and needed capabilities, an invariant's source, the path of a frontend.
    """
    output = Output(json_file)
    try:
        rows = CATALOGUES[what]()
    except InvalidScenariosError as error:
        found = [diagnostic for one in error.errors for diagnostic in one.diagnostics()]
        raise CommandError(found, ExitCode.USAGE) from error
    width = max((len(row["id"]) for row in rows), default=0)
    for row in rows:
        output.say(_line(row, width, output.columns))
    if not rows:
        output.say(f"there are no {what}")
    output.write(rows)
    return int(ExitCode.OK)


def _line(row: Row, width: int, columns: int | None) -> Text:
    """One row. On a terminal of ``columns`` a long title goes on below its beginning."""
    out = Text()
    out.append(f"{row['id']:<{width}}", "bold")
    margin = width + 2
    lines = [row["title"]]
    if columns is not None and columns - margin >= TITLE_COLUMNS_MIN:
        lines = textwrap.wrap(row["title"], columns - margin) or [""]
    out.append("  " + ("\n" + " " * margin).join(lines))
    if "available" in row and not row["available"]:
        out.append(f"  ({row.get('reason') or 'not fetched'})", "dim")
    return out
