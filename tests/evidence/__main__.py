"""``python -m tests.evidence``: lies about every scenario's run, judged by all invariants."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from harness.mutants import discover
from harness.scenario.loader import builtin_dir, load
from tests.evidence.hiding import Hiding, broken_run
from tests.evidence.rules import rules
from tests.evidence.runs import record, releases_of
from tests.evidence.table import Table


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--places", default=20, show_default=True, help="Events of each run that are lied about."
)
@click.option("--every", default=1, show_default=True, help="Every so many-th scenario only.")
@click.option("--seed", type=int, help="A random walk, in place of FIFO order.")
@click.option(
    "--mutants",
    is_flag=True,
    help="Lie about runs that mutants broke, instead: does it hide what is to be seen?",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table there (Markdown).",
)
def main(places: int, every: int, seed: int | None, *, mutants: bool, out: Path | None) -> None:
    """Play the scenarios on sim, lie about one event at a time, and count which invariants notice.

    Exit code: 0, or 1 if an invariant is never broken and has no rule either, or a checker raised
    over an event that is gone, too many or out of place.
    """
    if mutants:
        sys.exit(_about_mutants(places, every, out))
    began, table = time.monotonic(), Table()  # noqa: TID251 - told to people
    root = builtin_dir()
    for path in sorted(root.rglob("*.yaml"))[::every]:
        loaded = load(path, root=root)
        for release in releases_of(loaded):
            run = record(loaded, release=release, seed=seed)
            if run is not None:
                table.add(run, places)
    seconds = time.monotonic() - began  # noqa: TID251
    click.echo(f"{table.lies:,} lies about {table.runs} runs, {seconds:.0f} s")
    text = "\n".join(table.markdown())
    if out is None:
        click.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")
    ruled = {rule.invariant for rule in rules()}
    for name in table.unbroken:
        how = "has rules of its own" if name in ruled else "NOTHING BREAKS IT"
        click.echo(f"not broken here: {name}: {how}")
    for name, where in table.raised.items():
        click.echo(f"RAISED {name}: {where}")
    click.echo(f"{len(table.odd)} kinds of changed events have a shape that a checker cannot read")
    sys.exit(1 if table.raised or set(table.unbroken) - ruled else 0)


def _about_mutants(places: int, every: int, out: Path | None) -> int:
    """Exit code: 1 if a checker raised, or a run that nobody lied about is not broken."""
    began, table = time.monotonic(), Hiding()  # noqa: TID251 - told to people
    root = builtin_dir()
    loaded = [load(path, root=root) for path in sorted(root.rglob("*.yaml"))]
    for mutant in discover()[::every]:
        run = broken_run(mutant, loaded)
        if run is None:
            table.not_found.append(mutant.id)
        else:
            table.add(run, mutant.killed_by, places)
    seconds = time.monotonic() - began  # noqa: TID251
    click.echo(f"{table.told.total():,} lies about {table.runs} broken runs, {seconds:.0f} s")
    text = "\n".join(table.markdown())
    if out is None:
        click.echo(text)
    else:
        out.write_text(text + "\n", encoding="utf-8")
    for name in table.not_found:
        click.echo(f"no broken run found: {name} (it takes a search: wavecheck mutants {name})")
    for name, where in table.raised.items():
        click.echo(f"RAISED {name}: {where}")
    return int(bool(table.raised))


if __name__ == "__main__":
    main()
