"""Where the time of the whole thing goes, by samples of the processor clock.

A sample counts for the innermost of our own functions: what asyncio, msgpack or SimPy do is done for
somebody. Samples do not slow the small functions down more than the large ones, as a tracer would.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from types import FrameType

from benchmarks import whole

ROOT = Path(__file__).resolve().parent.parent
INTERVAL_S = 0.001
PARTS = {
    "harness/sim": "simulated loop, links and sockets",
    "harness/strategies": "choices: strategy and tape",
    "harness/tape.py": "choices: strategy and tape",
    "client/protocol": "messages: encode, decode, check",
    "client": "client",
    "mock_engines": "mock engines",
    "harness/trace": "events: record and digest",
    "harness/invariants": "invariants",
    "harness": "driver, expectations, results",
}
"""The longest path that fits counts."""


def part_of(frame: FrameType | None) -> str:
    """Name the part that the innermost of our frames belongs to."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(str(ROOT)):
            inner = Path(file).relative_to(ROOT).as_posix()
            for path in sorted(PARTS, key=len, reverse=True):
                if inner == path or inner.startswith(f"{path}/"):
                    return PARTS[path]
        frame = frame.f_back
    return "rest"


def shares(schedules: int, strategy: str = "random") -> dict[str, float]:
    """Play schedules and return each part's share of the processor time, largest first."""
    whole.play(whole.LARGE, strategy, 20)
    stacks: Counter[str] = Counter()

    def sample(_number: int, frame: FrameType | None) -> None:
        stacks[part_of(frame)] += 1

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        whole.play(whole.LARGE, strategy, schedules)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    total = sum(stacks.values())
    return {part: count / total for part, count in stacks.most_common()}
