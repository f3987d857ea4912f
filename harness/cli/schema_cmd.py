"""``wavecheck schema``: the JSON Schema of a file format, for editors and other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from harness.cli.output import to_stdout
from harness.scenario.schema import schema_text
from harness.verdict import ExitCode

SCHEMAS: Mapping[str, Callable[[], str]] = {"scenario": schema_text}
"""Formats whose schema is generated from the code."""


@click.command(
    "schema",
    epilog="""\b
Examples:
  wavecheck schema scenario > wavecheck.schema.json
""",
)
@click.argument("what", type=click.Choice(list(SCHEMAS)))
def schema_command(what: str) -> int:
    """Print the JSON Schema of scenario files.

    Editors with a YAML language server complete and check a scenario whose first line names it;
    `wavecheck new` writes both.
    """
    to_stdout(SCHEMAS[what]())
    return int(ExitCode.OK)
