"""``python -m harness.differential``: the model against vLLM's own classes, release by release."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from client.protocol.profiles import RELEASES
from harness.differential.breaks import BREAKS
from harness.differential.run import PARTS, Report, compare
from harness.targets.base import TargetError
from harness.targets.vllm_py.sources import resolve
from harness.targets.vllm_rs.releases import UnknownFrontendError, known_release
from harness.verdict import ExitCode


def _releases(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = RELEASES if text == "all" else tuple(part.strip() for part in text.split(","))
    try:
        return tuple(known_release(name) for name in names)
    except UnknownFrontendError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.option("--releases", default="all", callback=_releases, help="Comma-separated, or all.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Default: both.")
@click.option("--sequences", default=10_000, type=click.IntRange(min=1), help="Of each part.")
@click.option("--first", default=0, type=click.IntRange(min=0), help="Number of the first one.")
@click.option("--seed", default=1, type=click.IntRange(min=0), help="Of all sequences.")
@click.option(
    "--break", "broken", type=click.Choice(sorted(BREAKS)), help="A rule to get wrong on purpose."
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path))
def main(
    releases: Sequence[str],
    parts: Sequence[str],
    sequences: int,
    first: int,
    seed: int,
    broken: str | None,
    json_file: Path | None,
) -> None:
    """Compare the engine model and the coordinator with vLLM's own classes.

    Exits with 0 if they agree, 1 if they differ, 2 after bad usage, 3 if a release's classes
    cannot be executed.
    """
    if broken not in (None, "nothing") and "coordinator" in parts:
        msg = "--break changes a rule of the engines; it goes with --part engine"
        raise click.UsageError(msg)
    parts = parts or (PARTS if broken is None else PARTS[:1])
    reports: list[Report] = []
    try:
        for release in releases:
            tree = resolve(release, progress=lambda line: click.echo(line, err=True))
            for part in parts:
                report = compare(
                    tree, part, sequences=sequences, seed=seed, first=first, broken=broken
                )
                click.echo(_line(report))
                reports.append(report)
    except TargetError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(ExitCode.HARNESS) from error
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise SystemExit(ExitCode.INTERRUPTED) from None
    finally:
        if json_file is not None:
            _write(json_file, reports)
    raise SystemExit(ExitCode.VIOLATION if any(r.found for r in reports) else ExitCode.OK)


def _line(report: Report) -> str:
    found = "no difference" if report.found is None else "DIFFERENCE"
    head = (
        f"{report.release:<7} {report.part:<11} {report.sequences:>6} sequences  "
        f"{report.effects:>9} effects  {report.seconds:6.1f} s  {found}"
    )
    return head if report.found is None else "\n".join([head, *_difference(report.found)])


def _difference(found: dict[str, Any]) -> list[str]:
    said = found["difference"]
    where = f" ({said['what']} of rank {said['rank']})" if "what" in said else ""
    return [
        f"  first difference{where}",
        f"    model   {said['model']}",
        f"    vLLM    {said['oracle']}",
        "  what led there, as short as it could be made",
        *(f"    {move}" for move in found["moves"]),
        "  the last effects on which both agreed",
        *(f"    {effect}" for effect in said["before"]),
    ]


def _write(file: Path, reports: Sequence[Report]) -> None:
    try:
        file.write_text(json.dumps([r.as_json() for r in reports], indent=1) + "\n", "utf-8")
    except OSError as error:
        click.echo(f"error: cannot write {file}: {error.strerror}", err=True)
        raise SystemExit(ExitCode.HARNESS) from error


if __name__ == "__main__":
    main(prog_name=f"{Path(sys.executable).name} -m harness.differential")
