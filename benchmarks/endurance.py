"""Endurance: does anything grow? ``python -m benchmarks.endurance --target zmq --minutes 10``.

Lives of one deployment, one after the other in one process. In each, callers come and go for as long as
asked, engines pause, sleep, fail and answer late; in the end an engine dies with requests open. Memory,
descriptors and tasks are looked at after every round, at rest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from benchmarks.churn import ENGINES, Churn
from benchmarks.footprint import Line, Sample, lines, sample
from client.protocol.profiles import NEWEST, profile_for
from harness.strategies import make_strategy
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
from harness.targets.target import Target
from harness.worlds import SimWorld
from mock_engines.engine import KEPT_REQUESTS_MAX

WARM_UP = ENGINES * KEPT_REQUESTS_MAX * 6 // 5
"""Requests after which each engine remembers as many that ended as it ever will, with a fifth to spare;
until then that grows, and is bounded."""
STEPS_MAX = 2**62
"""Steps of a simulated life: as many as it takes."""
OPEN_AT_DEATH = 4


@dataclass
class Life:
    """What one life came to."""

    requests: int
    utilities: int
    events: int
    seconds: float
    wrongs: int
    wrong: list[str]
    ends: Counter
    samples: list[Sample] = field(repr=False)
    lines: list[Line] = field(default_factory=list)


def main() -> int:
    """Run, print, and say whether all is flat. 0, or 1 if something grows or an answer is wrong."""
    given = options()
    began, spent = time.perf_counter(), time.process_time()
    lives = []
    for number in range(given.lives):
        life = live(given, number)
        try:
            life.lines = lines(life.samples, given.warm_up)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        print(told(number, life), flush=True)
        lives.append(life)
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    after = [life.samples[-1].ours for life in lives]
    total = sum(life.requests for life in lives)
    print(
        f"\n{total:,} requests, {sum(life.utilities for life in lives):,} utility calls, "
        f"{sum(life.events for life in lives):,} events in {sum(life.seconds for life in lives):,.0f} s of "
        f"{'virtual ' if given.target == 'sim' else ''}time; {wall:.0f} s of real time, {cpu:.0f} s of CPU"
    )
    print(
        "memory at the end of each life, MiB: "
        + ", ".join(f"{use.rss_bytes / 2**20:.1f}" for use in after)
    )
    if given.json is not None:
        given.json.write_text(json.dumps([asdict_of(life) for life in lives], indent=1))
    good = all(line.flat for life in lives for line in life.lines) and not any(
        life.wrongs for life in lives
    )
    print("flat, and every answer right" if good else "NOT flat, or answers wrong: see above")
    return 0 if good else 1


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.endurance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", choices=("sim", "zmq", "vllm-rs"), default="sim")
    parser.add_argument("--frontend", default=NEWEST, help="release or file, for vllm-rs")
    parser.add_argument(
        "--minutes", type=float, default=120.0, help="of all lives together; virtual on sim"
    )
    parser.add_argument("--lives", type=int, default=2, help="deployments, one after the other")
    parser.add_argument("--callers", type=int, default=8, help="at once")
    parser.add_argument("--each", type=int, default=10, help="requests of each in a round")
    parser.add_argument(
        "--think", type=float, metavar="S", default=1.0, help="mean pause of a caller, seconds"
    )
    parser.add_argument(
        "--warm-up",
        type=int,
        metavar="N",
        default=WARM_UP,
        help="requests that are left out (%(default)s)",
    )
    parser.add_argument("--mutant", metavar="ID", help="a client with a known bug, to see it leak")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples")
    return parser.parse_args()


def live(given: argparse.Namespace, number: int) -> Life:
    """One life, from start to death."""
    virtual = given.target == "sim"
    request = TargetRequest(
        given.target, frontend=None if virtual or given.target == "zmq" else given.frontend
    )
    target: Target = open_target(request)
    profile = target.profile(None) or profile_for(NEWEST)
    seed = given.seed * 1_000 + number
    world = (
        SimWorld(make_strategy("random", seed, 0), step_limit=STEPS_MAX)
        if virtual
        else target.world(None)
    )
    samples: list[Sample] = []

    async def whole() -> Life:
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + given.minutes * 60 / given.lives
        churn = Churn(target, world, profile, Random(seed), given.mutant)
        async with churn.running():
            while loop.time() < until:
                await churn.round(given.callers, given.each, given.think)
                now, before = loop.time() - began, samples[-1] if samples else None
                samples.append(await sample(churn.frontend, world, churn.requests, now, before))
            await churn.die(OPEN_AT_DEATH)
        return Life(
            churn.requests, churn.utilities, churn.events, loop.time() - began,
            churn.wrongs, churn.wrong, churn.ends, samples,
        )  # fmt: skip

    return world.run(whole)


def told(number: int, life: Life) -> str:
    """A life as text."""
    text = [
        f"\nlife {number + 1}: {life.requests:,} requests, {len(life.samples)} samples, "
        f"{life.wrongs} wrong answers",
        f"  {'after the warm-up':24}{'for 1,000 requests':>20}{'first half':>24}{'second half':>24}",
    ]
    for line in life.lines:
        early, late = (f"{low:,.0f} to {high:,.0f}" for low, high in (line.early, line.late))
        text.append(
            f"  {line.name:24}{line.slope:>+20.2f}{early:>24}{late:>24}   {'flat' if line.flat else 'GROWS'}"
        )
    ends = ", ".join(f"{kind}: {end} {count:,}" for (kind, end), count in sorted(life.ends.items()))
    return "\n".join([*text, f"  {ends}", *(f"  WRONG: {wrong}" for wrong in life.wrong)])


def asdict_of(life: Life) -> dict:
    """A life as plain data."""
    return {
        "requests": life.requests,
        "seconds": life.seconds,
        "wrongs": life.wrongs,
        "samples": [
            {
                "requests": s.requests, "seconds": s.seconds, "rss": s.ours.rss_bytes, "fds": s.ours.descriptors,
                "tasks": s.tasks, "blocks": s.blocks,
                "theirs": None if s.theirs is None else [s.theirs.rss_bytes, s.theirs.descriptors, s.theirs.threads],
            }
            for s in life.samples
        ],
        "lines": [asdict(line) | {"flat": line.flat} for line in life.lines],
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
