"""``python -m tests.dependencies``: licences, known vulnerabilities, bill of materials."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tests.dependencies import audit as auditing
from tests.dependencies import licences, sbom
from tests.dependencies.closure import DEVELOPMENT, SHIPPED, closure


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Look at what an installation brings with it."""


@main.command("licences")
def licences_command() -> None:
    """Write docs/licences.md again: what is installed here, beside what it lists already."""
    users = closure(SHIPPED)
    found = licences.licences_of(users | closure(DEVELOPMENT))
    page = licences.PAGE.read_text(encoding="utf-8")
    licences.PAGE.write_text(licences.written(page, found, users), encoding="utf-8")
    click.echo(f"{len(found)} packages here, {len(users)} of them of users: {licences.PAGE.name}")


@main.command("audit")
def audit_command() -> None:
    """Ask for known vulnerabilities. 0: none, or NOT RUN with the reason; 1: some."""
    came = auditing.audit(closure(SHIPPED) | closure(DEVELOPMENT))
    click.echo(came.text)
    sys.exit(came.code)


@main.command("sbom")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def sbom_command(file: Path) -> None:
    """Write the bill of materials of what users install."""
    bill = sbom.bill(closure(SHIPPED))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    click.echo(f"{len(bill['components'])} components: {file}")


if __name__ == "__main__":
    main()
