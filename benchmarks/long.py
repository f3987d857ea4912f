"""Long runs: the whole collection, and memory over many schedules."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

from benchmarks import whole

STRETCH = 1_000
"""Schedules between two looks at the memory."""


@dataclass(frozen=True)
class Collection:
    """What the collection took. ``summary``: the last line of ``wavecheck run``."""

    wall_s: float
    cpu_s: float
    code: int
    summary: str


def collection(schedules: int, jobs: int, strategy: str) -> Collection:
    """Play every scenario on sim, as a user does."""
    command = [
        *(sys.executable, "-m", "harness", "run", "--schedules", str(schedules)),
        *("--jobs", str(jobs), "--strategy", strategy),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = (done.stdout or done.stderr).strip().splitlines() or ["it said nothing"]
    return Collection(wall, cpu, done.returncode, lines[-1])


def memory(schedules: int, strategy: str = "random") -> list[tuple[int, float]]:
    """Play schedules in this process; resident MiB after each tenth of them."""
    us = psutil.Process(os.getpid())
    marks = {max(STRETCH, schedules * tenth // 10 // STRETCH * STRETCH) for tenth in range(1, 11)}
    seen = []
    for played in range(STRETCH, schedules + 1, STRETCH):
        whole.play(whole.LARGE, strategy, STRETCH)
        if played in marks:
            seen.append((played, us.memory_info().rss / 2**20))
    return seen
