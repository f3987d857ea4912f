"""What processes hold at moments of rest, and whether it grows."""

from __future__ import annotations

import gc
import os
import statistics
import sys
from dataclasses import dataclass

import psutil

from client.aio import pause
from harness.targets.base import Frontend, ProcessUse
from harness.worlds import World

GROWTH_MAX_KIB = 64.0
"""Most that resident memory may grow in a thousand requests, after the warm-up."""
LOOKS = 100
LOOK_S = 0.01
"""Descriptors that have become more are looked at again, so often, so many seconds apart: one end of a
connection may be closed a moment before the other. What is left then is there to stay."""
SAMPLES_MIN = 8
"""Samples after the warm-up from which growth is told."""


@dataclass(frozen=True)
class Sample:
    """What we, and the frontend's process if it has one, held after so many requests."""

    requests: int
    seconds: float
    ours: ProcessUse
    tasks: int
    blocks: int
    theirs: ProcessUse | None


async def sample(
    frontend: Frontend, world: World, requests: int, seconds: float, before: Sample | None
) -> Sample:
    """Look now, at rest. ``before``: the look before this one."""
    gc.collect()
    for _ in range(LOOKS):
        us = psutil.Process(os.getpid())
        ours = ProcessUse(us.memory_info().rss, us.num_fds(), us.num_threads())
        theirs = await frontend.process_use()
        if before is None or not (_more(ours, before.ours) or _more(theirs, before.theirs)):
            break
        await pause(LOOK_S)
    tasks = len(world.waiting())
    return Sample(requests, seconds, ours, tasks, sys.getallocatedblocks(), theirs)


def _more(now: ProcessUse | None, before: ProcessUse | None) -> bool:
    return now is not None and before is not None and now.descriptors > before.descriptors


@dataclass(frozen=True)
class Line:
    """One quantity over a life, after the warm-up.

    Attributes:
        slope: growth in a thousand requests, by least squares.
        early, late: lowest and highest in the first and in the second half.
    """

    name: str
    slope: float
    early: tuple[float, float]
    late: tuple[float, float]
    limit: float | None

    @property
    def flat(self) -> bool:
        """Whether it stays within its limit; without one, whether its highest does not rise."""
        if self.limit is not None:
            return self.slope <= self.limit
        return self.late[1] <= self.early[1]


def lines(samples: list[Sample], warm_up: int) -> list[Line]:
    """What there is to say of a life after ``warm_up`` requests.

    Raises:
        ValueError: too few samples to see growth in.
    """
    used = [each for each in samples if each.requests > warm_up]
    if len(used) < SAMPLES_MIN:
        msg = (
            f"{len(used)} samples after a warm-up of {warm_up:,} requests, of {len(samples)}: "
            f"growth shows in {SAMPLES_MIN} or more; a longer run, or a shorter --warm-up"
        )
        raise ValueError(msg)
    served = all(s.theirs is not None for s in used)
    found = [
        _line("resident memory, KiB", used, lambda s: s.ours.rss_bytes / 1024, GROWTH_MAX_KIB),
        _line("blocks of Python", used, lambda s: s.blocks, GROWTH_MAX_KIB * 1024 / 64),
        _line("descriptors", used, lambda s: s.ours.descriptors, None),
        _line("tasks", used, lambda s: s.tasks, None),
    ]
    if served:
        found += [
            _line(
                "frontend: memory, KiB", used, lambda s: s.theirs.rss_bytes / 1024, GROWTH_MAX_KIB
            ),
            _line("frontend: descriptors", used, lambda s: s.theirs.descriptors, None),
            _line("frontend: threads", used, lambda s: s.theirs.threads, None),
        ]
    return found


def _line(name: str, used: list[Sample], value, limit: float | None) -> Line:
    values = [float(value(s)) for s in used]
    thousands = [s.requests / 1_000 for s in used]
    slope = statistics.linear_regression(thousands, values).slope
    half = len(values) // 2
    early, late = values[:half], values[half:]
    return Line(name, slope, (min(early), max(early)), (min(late), max(late)), limit)
