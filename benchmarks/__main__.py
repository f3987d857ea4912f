"""Speed of the simulated target, as ratios: ``python -m benchmarks``.

Everything is measured in interleaved rounds, in CPU time, and shown as medians, so that a busy machine
disturbs all lines alike. Ratios carry over to other machines, rates do not.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import sys
import time
from functools import partial

from benchmarks import detection, exploring, long, loops, pairs, ranks, report, where, whole
from benchmarks.peers import PEERS, Peers

WARM_UP = 20
TARGETS = {loops.STOCK: 1.1, "detangle": 2.5, "simloop": 10.0, "simloom": 10.0}
"""How many times as fast as this our loop is to be."""
WHOLE_SHARE = 0.1
"""Part of a loop's runs per second that the whole thing is to reach (docs/decisions/0013)."""


def main() -> int:
    """Measure and print. 0, or 1 where something does not run as it should."""
    given = options()
    if given.report:
        return 0 if report.table() else 1
    if given.detection:
        return 0 if detection.table(given.campaigns, given.mutant) else 1
    if given.pairs:
        limits = given.budget, given.seed, given.mutant, given.json
        return 0 if pairs.table(*limits, missed=given.missed) else 1
    if given.ranks:
        return 0 if ranks.table(max(1, given.rounds // 3)) else 1
    if given.explore is not None:
        return 0 if exploring.table(given.seed, given.explore, given.mutant) else 1
    print(f"Python {sys.version.split()[0]}; workload W: {loops.steps()} callbacks in FIFO order")
    rounds = max(1, given.rounds)
    seconds = measured(rounds, given.runs, peers=given.peers)
    loop_table(seconds)
    whole_table(seconds)
    if given.where:
        where_table(given.where)
    good = True
    if given.collection:
        good = collection_line(given)
    if given.memory:
        memory_table(given.memory)
    return 0 if good else 1


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds")
    parser.add_argument("--runs", type=int, default=40, help="runs of each line in one round")
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="leave other simulators out"
    )
    parser.add_argument(
        "--ranks", action="store_true", help="what a step of 2 to 64 ranks costs, and nothing else"
    )
    parser.add_argument("--where", type=int, metavar="N", help="sample N schedules: which part")
    parser.add_argument(
        "--collection", type=int, metavar="N", help="play every scenario, N schedules each"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes of --collection")
    parser.add_argument("--strategy", default="auto", help="strategy of --collection")
    parser.add_argument("--memory", type=int, metavar="N", help="watch memory over N schedules")
    parser.add_argument(
        "--report", action="store_true", help="how a report opens and scrolls in Chromium, alone"
    )
    found = parser.add_argument_group("finding mutants, instead of speed")
    found.add_argument("--detection", action="store_true", help="schedules to each mutant's kill")
    found.add_argument("--campaigns", type=int, default=100, help="campaigns of --detection")
    found.add_argument("--pairs", action="store_true", help="random walks against stall and dfs")
    found.add_argument(
        "--missed", action="store_true", help="--pairs: stalls where random walks kill nothing too"
    )
    found.add_argument("--budget", type=int, default=60, help="schedules of each, for --pairs")
    found.add_argument("--seed", type=int, default=0, help="seed of --pairs and --explore")
    found.add_argument(
        "--explore", type=float, metavar="S", help="which mutants explore finds in S seconds each"
    )
    found.add_argument("--json", metavar="FILE", help="write what --pairs found")
    found.add_argument("--mutant", action="append", default=[], metavar="ID", help="this one alone")
    return parser.parse_args()


def measured(rounds: int, runs: int, *, peers: bool) -> dict[str, list[float] | str]:
    """CPU seconds of one run, for each line and round; a text where there is no number."""
    lines = {name: partial(repeat, run) for name, run in loops.RUNNERS.items()}
    lines |= {f"{name}, {how}": partial(whole.play, name, how) for name, how in whole.LINES}
    for play in lines.values():
        play(WARM_UP)
    seconds: dict[str, list[float] | str] = {name: [] for name in lines}
    gc.collect()
    gc.freeze()
    with Peers(runs) if peers else contextlib.nullcontext() as others:
        for _ in range(rounds):
            for name, play in lines.items():
                begin = time.process_time()
                play(runs)
                seconds[name].append((time.process_time() - begin) / runs)
            for name, peer in list(others.running.items()) if others else ():
                try:
                    seconds.setdefault(name, []).append(peer.seconds())
                except RuntimeError as error:
                    others.drop(name, f"broke: {error}")
    for name in PEERS:
        if others is None:
            seconds[name] = "left out"
        elif name in others.missing:
            seconds[name] = others.missing[name]
    return seconds


def repeat(run, times: int) -> None:
    """Play one schedule after the other."""
    for _ in range(times):
        run()


def loop_table(seconds) -> None:
    """Print the loops, ours and others, and how many times as fast ours is.

    In FIFO order, as asyncio's own; in brackets under the random walk, as the peers explore.
    """
    base = statistics.median(seconds[loops.PLAIN])
    ours = statistics.median(seconds[loops.OURS])
    walk = statistics.median(seconds[loops.WALK])
    print(f"\n{'workload W':42}{'µs/run':>9}{'runs/s':>9}{'ratio':>7}{'ours is':>9}{'(walk)':>9}")
    for name in (*loops.RUNNERS, *PEERS):
        values = seconds[name]
        if isinstance(values, str):
            print(f"{name:42}  {values}")
            continue
        median = statistics.median(values)
        line = f"{name:42}{median * 1e6:>9.1f}{1 / median:>9,.0f}{base / median:>7.2f}"
        if name in TARGETS:
            times = median / ours
            met = "as wanted" if times >= TARGETS[name] else "NOT as wanted"
            line += f"{times:>8.2f}x{median / walk:>8.2f}x  {met}: at least {TARGETS[name]:g}x"
        print(line)


def whole_table(seconds) -> None:
    """Print the whole thing, and its share of our own loop, of the hand-written one and of the limit.

    Of ours in the same order: first in, first out, or a random walk, which ``auto`` is nearest to.
    Both readings of what a tenth is taken of are judged (docs/decisions/0013).
    """
    plain = statistics.median(seconds[loops.PLAIN])
    limit = statistics.median(seconds[loops.LIMIT])
    own = {"fifo": statistics.median(seconds[loops.OURS])}
    walk = statistics.median(seconds[loops.WALK])
    print(f"\n{'the whole thing':42}{'ms/run':>9}{'runs/s':>9}{'ours':>7}{'hand':>7}{'limit':>7}")
    for scenario, strategy in whole.LINES:
        name = f"{scenario}, {strategy}"
        median = statistics.median(seconds[name])
        shares = {"ours": own.get(strategy, walk) / median, "hand": plain / median}
        met = [
            f"{'as' if share >= WHOLE_SHARE else 'NOT as'} wanted of {of}"
            for of, share in shares.items()
        ]
        print(
            f"{name:42}{median * 1e3:>9.3f}{1 / median:>9,.0f}{shares['ours']:>7.3f}"
            f"{shares['hand']:>7.3f}{limit / median:>7.3f}   {', '.join(met)}"
        )
    print(f"  wanted: at least {WHOLE_SHARE:g} of our own loop, and of the hand-written one")


def where_table(schedules: int) -> None:
    """Print which part takes how much of the whole thing."""
    print(f"\nwhere it goes ({schedules:,} schedules, random walk)")
    for part, share in where.shares(schedules).items():
        print(f"  {part:40}{share:>7.1%}")


def collection_line(given: argparse.Namespace) -> bool:
    """Print what the collection takes; whether it held."""
    taken = long.collection(given.collection, given.jobs, given.strategy)
    print(
        f"\nthe whole collection, {given.collection} schedules each, {given.strategy}, "
        f"{given.jobs} jobs: {taken.wall_s:.1f} s, {taken.cpu_s:.1f} s of CPU"
        f"\n  {taken.summary}"
    )
    return taken.code == 0


def memory_table(schedules: int) -> None:
    """Print the resident memory as schedules go by."""
    print(f"\nmemory over {schedules:,} schedules")
    for played, resident in long.memory(schedules):
        print(f"  after {played:>8,}: {resident:7.1f} MiB")


if __name__ == "__main__":
    sys.exit(main())
