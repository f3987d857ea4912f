"""``python -m tests.chaos``: kill one process of a run, take the run up again, compare the tables."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from client.protocol.profiles import RELEASES
from harness.targets.vllm_rs.fetch import available, fetch
from tests.chaos.ledger import Ledger
from tests.chaos.processes import KINDS
from tests.chaos.stages import AdapterStage, MatrixStage, Stage
from tests.chaos.trial import Kill, Trials

ADAPTER_EACH = 8
"""Of so many trials one disturbs a run behind an adapter, the others a matrix."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--kills", default=200, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--seed", default=1, show_default=True, help="Chooses moments and processes.")
@click.option(
    "--frontends", default="0.33.0,0.24.0", show_default=True, help="Columns of the matrix."
)
@click.option("--resume", is_flag=True, help="Keep what was tried before and found nothing.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("wavecheck-out/chaos"),
    show_default=True,
    help="Where results go, and the runs that show something.",
)
@click.option(
    "--signal",
    "name",
    type=click.Choice(["KILL", "INT", "TERM", "HUP"]),
    default="KILL",
    show_default=True,
    help="KILL goes to any process, the others to the command.",
)
def main(kills: int, seed: int, frontends: str, resume: bool, out: Path, name: str) -> None:
    """Kill one process of a run at a random moment, take it up again, compare it with an undisturbed one.

    Nobody may be left five seconds later, what is on disk must be readable, and the table must be
    that of an undisturbed run. Exit code: 0 it holds, 1 it does not, 2 wrong usage.
    """
    out.mkdir(parents=True, exist_ok=True)
    try:
        ledger = Ledger(
            out / "kills.jsonl", f"SIG{name}, seed {seed} on {frontends}", resume=resume
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    numbers = range(1, kills + 1)
    left = ledger.left(numbers)
    click.echo(f"{kills} kills, seed {seed}, on {frontends}; {len(left)} to try")
    binaries = linked(frontends.split(","), out.resolve() / "frontends")
    stages: tuple[Stage, Stage] = (MatrixStage(frontends), AdapterStage())
    number = signal.Signals[f"SIG{name}"]
    matrix, adapter = (Trials(stage, out, binaries, number) for stage in stages)
    for trial in left:
        kill = (matrix if trial % ADAPTER_EACH else adapter).trial(trial, seed)
        ledger.add(kill)
        click.echo(told(kill))
    done = [ledger.kills[number] for number in numbers]
    click.echo("\n".join(summary(done)))
    sys.exit(1 if any(kill.findings for kill in done) else 0)


def linked(frontends: Iterable[str], folder: Path) -> Path | None:
    """A folder with the binaries of the releases among these, so that each run has its own cache."""
    releases = [one for one in frontends if one in RELEASES]
    for release in releases:
        place = folder / release / "vllm-rs"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to((available(release) or fetch(release)).resolve())
    return folder if releases else None


def told(kill: Kill) -> str:
    """One trial in one line, and a line for each finding."""
    lines = [
        f"{kill.number}: {kill.stage}: {kill.kind} killed {kill.delay_s:.3f} s behind start "
        f"{kill.start}; ended with {kill.code}, {kill.errors} in error, gone in {kill.gone_s:.2f} s"
    ]
    return "\n".join([*lines, *(f"  FOUND {finding}" for finding in kill.findings)])


def summary(kills: Iterable[Kill]) -> list[str]:
    """How often each kind of process was killed, and what was found."""
    kills = list(kills)
    lines = ["", f"{'killed':<10} {'times':>5} {'cells in error':>15} {'gone, s':>8} {'found':>6}"]
    for kind in KINDS:
        those = [kill for kill in kills if kill.kind == kind]
        if those:
            errors = sum(kill.errors for kill in those)
            gone = max(kill.gone_s for kill in those)
            found = sum(bool(kill.findings) for kill in those)
            lines.append(f"{kind:<10} {len(those):>5} {errors:>15} {gone:>8.2f} {found:>6}")
    found = [kill.number for kill in kills if kill.findings]
    lines.append(f"{len(kills)} kills, {len(found)} with a finding{': ' if found else ''}")
    lines[-1] += ", ".join(map(str, found))
    return lines


if __name__ == "__main__":
    main(prog_name="python -m tests.chaos")
