"""Feeds inputs to a family: so many, from a seed, each under a guard of CPU time.

A campaign is cut into blocks of inputs with a seed of their own, so that it can be shared between
processes and resumed, and means the same on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251
from types import FrameType

from harness.cli.worker_process import die_with
from tests.fuzz.model import Family, Finding, Input, to_text

BLOCK = 5_000
"""Inputs of one block."""
CPU_S = 5.0
"""CPU time that one input may take, seconds: a safety net, a thousand times what is usual."""
MEMORY_BYTES = 3 << 30
"""Address space of a worker: what asks for more fails at once instead of filling the machine."""
TRIALS_MAX = 2_000
"""Cuts that are tried to make one finding smaller."""
GROWTH_BYTES = 64 << 20
"""How much the peak memory of a worker may grow after its first block."""


class TooSlow(BaseException):
    """An input used up its CPU time; no handler of the product may swallow this."""


@dataclass
class Tally:
    """What came of the inputs so far."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[Input, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take another tally in."""
        self.inputs += other.inputs
        self.outcomes += other.outcomes
        self.findings += other.findings


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Raise ``TooSlow`` in the main thread when the armed timer runs out."""

    def slow(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, slow)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(family: Family, given: Input) -> tuple[str, str | None]:
    """Check one input: what came of it, and what is wrong if something is."""
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        return family.check(given), None
    except Finding as found:
        return "finding", str(found)
    except TooSlow:
        return "finding", f"took more than {CPU_S:g} s of CPU time"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        shown = "".join(traceback.format_exception(error)[-4:])
        return "finding", f"{type(error).__name__} got out: {shown}"


def block(family: Family, number: int, seed: int, inputs: int = BLOCK) -> Tally:
    """Draw and check the inputs of one block."""
    rng = Random(f"{family.name}/{seed}/{number}")
    tally = Tally()
    with guarded():
        for _ in range(inputs):
            given = family.make(rng)
            what, wrong = outcome(family, given)
            tally.inputs += 1
            tally.outcomes[what] += 1
            if wrong is not None:
                tally.findings.append((given, wrong))
    return tally


def smaller(family: Family, given: Input, wrong: str) -> Input:
    """Cut bytes and frames away while something of the same sort stays wrong."""
    sort = wrong[:40]

    def still(other: Input) -> bool:
        found = outcome(family, other)[1]
        return found is not None and found[:40] == sort

    trials = 0
    with guarded():
        for at in reversed(range(len(given.frames))):
            fewer = Input(given.release, given.door, given.frames[:at] + given.frames[at + 1 :])
            given = fewer if still(fewer) else given
        for at in range(len(given.frames)):
            size = max(len(given.frames[at]) // 2, 1)
            while size and trials < TRIALS_MAX:
                start = 0
                while start < len(given.frames[at]) and trials < TRIALS_MAX:
                    trials += 1
                    cut = _without(given, at, start, size)
                    if still(cut):
                        given = cut
                    else:
                        start += size
                size //= 2
    return given


def _without(given: Input, at: int, start: int, size: int) -> Input:
    frame = given.frames[at]
    cut = frame[:start] + frame[start + size :]
    return Input(given.release, given.door, (*given.frames[:at], cut, *given.frames[at + 1 :]))


def keep(folder: Path, name: str, given: Input, why: str) -> Path:
    """Write an input into a corpus."""
    mark = hashlib.sha256(repr(given).encode()).hexdigest()[:10]
    path = folder / name / f"{mark}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_text(given, why), encoding="utf-8")
    return path


def worker(parent: int) -> None:
    """Begin a process that fuzzes: it ends with its parent, and its address space is bounded."""
    die_with(parent)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def peak_bytes() -> int:
    """Most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
