"""``python -m tests.fuzz [FAMILY…]``: feed broken inputs to the product, and keep what breaks it.

Example: ``python -m tests.fuzz outputs --inputs 1000000 --seed 1 --resume``.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click

from harness.journal import Journal
from tests.fuzz import driver, registry
from tests.fuzz.driver import BLOCK, Tally
from tests.fuzz.model import CORPUS
from tests.fuzz.worker import run

STATE = Path("wavecheck-out/fuzz")
"""Where finished blocks are noted, for ``--resume``."""
KEPT_MAX = 20
"""Findings of one campaign that are made smaller and kept."""


class Ledger:
    """Blocks that are done."""

    def __init__(self, name: str, seed: int, *, resume: bool) -> None:
        STATE.mkdir(parents=True, exist_ok=True)
        self._journal = Journal(STATE / f"{name}-{seed}.jsonl", fresh=not resume)
        self.done: dict[int, tuple[int, dict[str, int], int]] = {
            row["block"]: (row["inputs"], row["outcomes"], row["findings"])
            for row in self._journal.lines
        }

    def add(self, number: int, inputs: int, outcomes: dict[str, int], findings: int) -> None:
        """Note a block."""
        self._journal.add(
            {"block": number, "inputs": inputs, "outcomes": outcomes, "findings": findings}
        )


def _blocks(inputs: int) -> Iterator[tuple[int, int]]:
    for number in itertools.count():
        left = inputs - number * BLOCK
        if left <= 0:
            return
        yield number, min(BLOCK, left)


def campaign(name: str, *, inputs: int, seed: int, workers: int, corpus: Path, resume: bool) -> int:
    """Run one family; returns the number of findings."""
    ledger = Ledger(name, seed, resume=resume)
    due = [
        (name, number, seed, size)
        for number, size in _blocks(inputs)
        if ledger.done.get(number, (0,))[0] < size
    ]
    total, shown, kept, first_peak, began = Tally(), 0, 0, 0, time.perf_counter()
    with ProcessPoolExecutor(workers, get_context("spawn"), driver.worker, (os.getpid(),)) as pool:
        for number, count, outcomes, findings, peak in pool.map(run, due):
            first_peak = first_peak or peak
            if peak - first_peak > driver.GROWTH_BYTES:
                raise click.ClickException(
                    f"{name}: the worker grew from {first_peak >> 20} to {peak >> 20} MiB"
                )
            ledger.add(number, count, outcomes, len(findings))
            total.add(Tally(count, Counter(outcomes), findings))
            for given, wrong in findings[: max(KEPT_MAX - kept, 0)]:
                kept += 1
                family = registry.family(name)
                path = driver.keep(corpus, name, driver.smaller(family, given, wrong), wrong[:300])
                family.close()
                click.echo(f"{name}: {path}: {wrong}")
            if findings or total.inputs // (10 * BLOCK) > shown:
                shown = total.inputs // (10 * BLOCK)
                rate = total.inputs / (time.perf_counter() - began)
                click.echo(
                    f"{name}: {total.inputs} inputs, {rate:.0f}/s, {len(total.findings)} findings, peak {peak >> 20} MiB"
                )
    before = [row for number, row in ledger.done.items() if number not in {job[1] for job in due}]
    for count, outcomes, _ in before:
        total.add(Tally(count, Counter(outcomes)))
    found = len(total.findings) + sum(row[2] for row in before)
    rows = ", ".join(f"{count} {what}" for what, count in sorted(total.outcomes.items()))
    click.echo(f"{name}: seed {seed}, {total.inputs} inputs, {found} findings: {rows}")
    return found


@click.command()
@click.argument("families", nargs=-1, type=click.Choice(registry.FAMILIES))
@click.option(
    "--inputs",
    type=click.IntRange(1),
    help="for each family; by default 1,000,000 for pure decoders and 50,000 for others",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="processes; by default one for each core",
)
@click.option(
    "--corpus", type=click.Path(path_type=Path), default=CORPUS, help="where findings are kept"
)
@click.option("--resume", is_flag=True, help="go on where the same campaign stopped")
def main(
    families: tuple[str, ...],
    inputs: int | None,
    seed: int,
    workers: int,
    corpus: Path,
    *,
    resume: bool,
) -> None:
    """Feed broken inputs to FAMILIES (default: all); exit code 1 if something was found."""
    found = 0
    for name in families or registry.FAMILIES:
        due = registry.due(name) if inputs is None else inputs
        found += campaign(
            name, inputs=due, seed=seed, workers=workers, corpus=corpus, resume=resume
        )
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
