"""``python -m tests.mutation``: draw mutants of the pure modules, and try the tests on them."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path

import click
import filelock

from tests.mutation import mutants as all_of
from tests.mutation.equivalents import listed
from tests.mutation.ledger import Entry, Ledger, digest_of
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.report import judged, lines
from tests.mutation.selection import REST, nearest
from tests.mutation.trial import Outcome, Tree

PATIENCE = 10
"""How many times as long as on the unchanged tree a selection of tests may take."""

LEAST = 20.0
"""Seconds that each trial may take at least: a machine is busy now and then."""


class NoTrial(click.ClickException):
    """No mutant can be tried; nothing is known of the tests."""

    exit_code = 3


class Bench:
    """A tree, and how long each selection of tests takes on the original."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._usual: dict[tuple[str, ...], float] = {}

    def measure(self, tests: tuple[str, ...]) -> None:
        """Run the tests on the original: they must pass, or no kill means anything."""
        if tests in self._usual:
            return
        begun = time.perf_counter()
        outcome = self._tree.begin(tests, keep_bytecode=True).wait(600.0)
        self._usual[tests] = time.perf_counter() - begun
        if outcome.end != "passed":
            raise NoTrial(
                f"the unchanged tree fails its own tests ({outcome.witness or outcome.end}), so no "
                f"mutant can be judged; mend it first\n{self._tree.said()}"
            )

    def tried(self, mutant: Mutant, *, quick: bool) -> Outcome:
        """The nearest tests, then all fast ones."""
        with self._tree.changed(mutant):
            for tests in (nearest(mutant.file), REST)[: 1 if quick else 2]:
                limit = max(LEAST, PATIENCE * self._usual[tests])
                outcome = self._tree.begin(tests).wait(limit)
                if outcome.end != "passed":
                    break
        return outcome


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--count", default=all_of.SAMPLE, show_default=True, help="How many mutants.")
@click.option("--seed", default=all_of.SEED, show_default=True, help="Seed of the draw.")
@click.option("--file", "files", multiple=True, help="Only mutants of this module (repeatable).")
@click.option("--keep-kills", is_flag=True, help="Kills of another state of the tree stand.")
@click.option("--quick", is_flag=True, help="Nearest tests only; survivors are not kept.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("wavecheck-out/mutation.jsonl"),
    show_default=True,
    help="Where results are kept; a run that was stopped is taken up there.",
)
def main(
    count: int, seed: str, files: tuple[str, ...], keep_kills: bool, quick: bool, out: Path
) -> None:
    """Try the tests on mutants of the pure modules.

    Exit code: 0 the bounds hold, 1 they do not, 2 wrong usage, 3 the unchanged tree fails its tests.
    """
    unknown = sorted(set(files) - set(all_of.modules()))
    if unknown:
        raise click.UsageError(f"{unknown[0]} is none of: {', '.join(all_of.modules())}")
    everything = all_of.all_mutants(files=files)
    sample = all_of.drawn(everything, seed, count)
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        with filelock.FileLock(f"{out}.lock", timeout=0):
            ledger = Ledger(out, digest_of(ROOT), keep_kills=keep_kills)
            left = ledger.left(sample)
            many = f"{len(sample)} of {len(everything)} mutants, seed {seed!r}"
            click.echo(f"{many}; {len(left)} to try")
            if left:
                _try(left, ledger, quick=quick)
    except filelock.Timeout as error:
        raise click.UsageError(f"another run writes {out}; wait for it or give --out") from error
    reviewed = listed()
    verdicts = judged(sample, ledger.entries, reviewed)
    click.echo("\n" + "\n".join(lines(verdicts, ledger.entries, reviewed, ROOT)))
    sys.exit(0 if verdicts.good else 1)


def _try(left: list[Mutant], ledger: Ledger, *, quick: bool) -> None:
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wavecheck-mutation-")))
        tree = Tree(ROOT, place)
        if digest_of(tree.path) != ledger.digest:
            raise NoTrial("the tree was edited while it was copied; start again")
        bench = Bench(tree)
        if not quick:
            bench.measure(REST)
        for mutant in sorted(left):
            bench.measure(nearest(mutant.file))
        for number, mutant in enumerate(left, 1):
            begun = time.perf_counter()
            outcome = bench.tried(mutant, quick=quick)
            seconds = round(time.perf_counter() - begun, 2)
            entry = Entry(mutant.name, outcome.end, outcome.witness, seconds)
            ledger.add(entry, keep=not (quick and outcome.end == "passed"))
            end = "SURVIVED" if outcome.end == "passed" else outcome.end
            place_ = f"{mutant.file}:{mutant.number} {mutant.operator}#{mutant.nth}"
            click.echo(f"{number}/{len(left)} {end} {place_} ({seconds:.1f} s) {outcome.witness}")


if __name__ == "__main__":
    main(prog_name="python -m tests.mutation")
