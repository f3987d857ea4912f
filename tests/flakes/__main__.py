"""``python -m tests.flakes``: the same tests again and again; one red round is one too many."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from tests.flakes.ledger import Ledger, Round, tree_digest

ROOT = Path(__file__).parents[2]
NOT_OURS = "not browser"
GROUPS = {
    "unit": f"not zmq and not long and not vllm_rs and {NOT_OURS}",
    "zmq": f"zmq and not long and not vllm_rs and {NOT_OURS}",
    "long": f"long and not vllm_rs and {NOT_OURS}",
    "vllm_rs": "vllm_rs",
}
"""Groups of tests by their marks. The simulated runs are in ``unit``."""
HASH_SEEDS = 4_294_967_295
RED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
LAST = re.compile(r"^.*\d+ (?:passed|failed|error|skipped).*$", re.MULTILINE)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--times", default=20, show_default=True, type=click.IntRange(1), help="Rounds of unit and zmq."
)
@click.option(
    "--real", default=5, show_default=True, type=click.IntRange(0), help="Rounds of vllm_rs."
)
@click.option(
    "--long", default=5, show_default=True, type=click.IntRange(0), help="Rounds of long tests."
)
@click.option("--only", type=click.Choice(sorted(GROUPS)), help="One group.")
@click.option(
    "--limit-s", default=3_600, show_default=True, type=click.IntRange(1), help="Longest round."
)
@click.option("--budget-s", type=click.IntRange(1), help="Begin no round after so many seconds.")
@click.option(
    "--workers",
    default=2,
    show_default=True,
    type=click.IntRange(1),
    help="Processes of a round; of vllm_rs always one.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("wavecheck-out/flakes.jsonl"),
    show_default=True,
    help="Where rounds are noted; a run that was stopped goes on there.",
)
@click.argument("paths", nargs=-1)
def main(
    times: int,
    real: int,
    long: int,
    only: str | None,
    limit_s: int,
    budget_s: int | None,
    workers: int,
    state: Path,
    paths: tuple[str, ...],
) -> None:
    """Run each group of tests many times, each round with another hash seed.

    PATHS: these tests only; by default all. Exit code: 0 every round was green and all were run, 1 one was
    red, 3 not all were run yet.
    """
    began = time.monotonic()  # noqa: TID251
    ledger = Ledger(state, f"{tree_digest(ROOT)} {' '.join(paths)}".strip())
    fewer = {"vllm_rs": real, "long": long}
    wanted = {name: fewer.get(name, times) for name in GROUPS if only in (None, name)}
    for name, number in in_turns(ledger, wanted):
        if budget_s is not None and time.monotonic() - began > budget_s:  # noqa: TID251
            break
        done = play(name, number, paths, limit_s, workers)
        ledger.add(done)
        if not done.green:
            printed = state.with_suffix(f".{name}-{number}.txt")
            printed.write_text(done.printed, encoding="utf-8")
        click.echo(
            f"{name} {number}: {'green' if done.green else 'RED'} in {done.seconds:.0f} s: {done.line}"
        )
        for test in done.red:
            click.echo(f"  red: {test}")
        if not done.green:
            click.echo(f"  what it printed: {printed}")
    click.echo("\n".join(summary(ledger, wanted)))
    red = any(not each.green for each in ledger.rounds)
    missing = any(ledger.left(name, count) for name, count in wanted.items())
    sys.exit(1 if red else 3 if missing else 0)


def in_turns(ledger: Ledger, wanted: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Rounds to run, the groups in turn, so that one that is stopped says something of each."""
    left = {name: ledger.left(name, count) for name, count in wanted.items()}
    while any(left.values()):
        for name, numbers in left.items():
            if numbers:
                yield name, numbers.pop(0)


def play(group: str, number: int, paths: tuple[str, ...], limit_s: int, workers: int = 1) -> Round:
    """Run one round; real frontends take what they get of the machine, one at a time."""
    shared = ("-n", str(workers)) if workers > 1 and group != "vllm_rs" else ()
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=short"),
        *shared,
        *("-m", GROUPS[group], *paths),
    ]
    seed = number * 2_654_435_761 % HASH_SEEDS
    began = time.monotonic()  # noqa: TID251
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            # Under nohup the tests of what a hang-up does would ignore it.
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
        )
    except subprocess.TimeoutExpired as error:
        line = f"did not end within {limit_s} s (hash seed {seed})"
        printed = (error.stdout or b"").decode(errors="replace")
        return Round(group, number, 124, time.monotonic() - began, line, printed=printed)  # noqa: TID251
    seconds = round(time.monotonic() - began, 1)  # noqa: TID251
    lines = LAST.findall(done.stdout)
    line = (
        lines[-1].strip()
        if lines
        else (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    )
    red = tuple(RED.findall(done.stdout))
    printed = done.stdout + done.stderr
    return Round(group, number, done.returncode, seconds, line, red, printed)


def summary(ledger: Ledger, wanted: dict[str, int]) -> Iterator[str]:
    """How far each group is, and which tests were red how often."""
    for name, count in wanted.items():
        those = [each for each in ledger.rounds if each.group == name]
        green = sum(each.green for each in those)
        yield f"{name}: {len(those)} of {count} rounds, {green} green"
    red = [test for each in ledger.rounds for test in each.red]
    for test in sorted(set(red)):
        yield f"  red {red.count(test)} times: {test}"


if __name__ == "__main__":
    main()
