"""``python -m tests.fuzz.table``: what the campaigns in ``wavecheck-out/fuzz`` came to, one row each."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tests.fuzz import registry


@click.command()
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--state", type=click.Path(path_type=Path), default=Path("wavecheck-out") / "fuzz")
def main(seed: int, state: Path) -> None:
    """Print inputs, what was taken and what was found, for each family."""
    for name in registry.FAMILIES:
        path = state / f"{name}-{seed}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        inputs = sum(row["inputs"] for row in rows)
        found = sum(row["findings"] for row in rows)
        refused = sum(
            count
            for row in rows
            for what, count in row["outcomes"].items()
            if what.startswith("refused")
        )
        click.echo(
            f"{name}: {inputs:,} of {registry.due(name):,}, {refused:,} refused, {found} findings"
        )


if __name__ == "__main__":
    main()
