"""Starts and stops the real frontend many times in a row, and looks for what stays behind.

    python -m benchmarks.start_stop --rounds 200 --frontend 0.33.0

Each round is what a run of a scenario does, without steps: a frontend, two engines, startup, one
request, the end. Both modes are measured. It fails (exit code 1) when a process, a descriptor, a
leased port, a listening socket or a temporary file is left, or when the median from start to ready is
not below ``MEDIAN_S``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from client.aio import with_deadline
from client.protocol.profiles import NEWEST, profile_for
from client.transports.sockets import ZmqTransport
from harness.scenario.model import CallStep, Topology
from harness.targets.vllm_rs.fetch import FrontendBinary, resolve
from harness.targets.vllm_rs.frontend import VllmRsFrontend
from harness.targets.vllm_rs.launch import LaunchSpec
from harness.targets.vllm_rs.life import ProcessLife
from mock_engines.cluster import Cluster

MEDIAN_S = 1.0
LIMIT_S = 60.0
"""Of one round; beyond it something hangs."""
WARM_ROUNDS = 3
"""Libraries open descriptors of their own when they are used first."""
MODES = {
    "handshake-owner": Topology(engines=2),
    "bootstrapped": Topology(engines=2, transport="bootstrapped"),
    "external coordinator": Topology(
        engines=2, transport="bootstrapped", coordinator="external", waves="script"
    ),
}


@dataclass(frozen=True, slots=True)
class Left:
    """What exists at one moment that a round may leave behind."""

    descriptors: int
    children: int
    ports: int
    listening: int
    files: int

    def more_than(self, before: Left) -> list[str]:
        """Say what there is more of than before."""
        words = []
        for name in self.__slots__:
            grown = getattr(self, name) - getattr(before, name)
            if grown > 0:
                words.append(f"{grown} {name}")
        return words


@dataclass(slots=True)
class Measured:
    """One mode. Times in seconds."""

    mode: str
    ready: list[float] = field(default_factory=list)
    stopped: list[float] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)


def left(temporary: Path) -> Left:
    """Count what this process and its children have open now."""
    gc.collect()
    us = psutil.Process()
    lines = Path("/proc/net/unix").read_text(encoding="ascii").splitlines()
    ours = own_sockets()
    leases = [line for line in lines if "@wavecheck-port-" in line and line.split()[6] in ours]
    listening = [each for each in us.net_connections() if each.status == psutil.CONN_LISTEN]
    return Left(
        descriptors=us.num_fds(),
        children=len(us.children(recursive=True)),
        ports=len(leases),
        listening=len(listening),
        files=sum(1 for _ in temporary.rglob("*")),
    )


def own_sockets() -> set[str]:
    """Return the inodes of our sockets."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if target.startswith("socket:["):
                found.add(target[len("socket:[") : -1])
    return found


async def one_round(binary: FrontendBinary, topology: Topology) -> tuple[float, float]:
    """Start, serve one request, stop. Returns seconds until ready, and of the stop."""
    profile = profile_for(binary.release)
    transport = ZmqTransport(scheme="ipc")
    spec = LaunchSpec(binary.path, binary.release, topology)
    life = ProcessLife(spec, profile=profile, emit=_ignore, transport=transport)
    frontend = VllmRsFrontend(life, topology=topology, profile=profile)
    cluster: Cluster | None = None
    try:
        await frontend.prepare()
        cluster = Cluster(
            transport,
            profile,
            topology.rank_list,
            [],
            frontend.addresses,
            waves=topology.waves,
            real_peer=True,
        )
        began = time.perf_counter()
        cluster.start()
        await frontend.start()
        ready = time.perf_counter() - began
        await cluster.joined()
        result = await frontend.generate(CallStep(id="a"), lambda *_: None)
        if result.outcome != "finished":
            msg = f"the request of a round ended as {result.outcome}: {result.message}"
            raise RuntimeError(msg)
    finally:
        began = time.perf_counter()
        await frontend.stop()
        if cluster is not None:
            await cluster.stop()
        transport.close()
    return ready, time.perf_counter() - began


def _ignore(_event: object) -> None:
    """Take an event; nobody reads this run."""


def measure(binary: FrontendBinary, mode: str, rounds: int, temporary: Path) -> Measured:
    """Play the rounds of one mode in one event loop."""
    result = Measured(mode)

    async def main() -> None:
        for _ in range(WARM_ROUNDS):
            await with_deadline(one_round(binary, MODES[mode]), LIMIT_S, name="round")
        before = left(temporary)
        for number in range(rounds):
            times = await with_deadline(one_round(binary, MODES[mode]), LIMIT_S, name="round")
            result.ready.append(times[0])
            result.stopped.append(times[1])
            show(f"\r{mode}: {number + 1}/{rounds}")
        show("\r" + " " * 60 + "\r")
        result.leaks = left(temporary).more_than(before)

    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    return result


@contextlib.contextmanager
def private_temporary() -> Iterator[Path]:
    """Give us and our children a folder for temporary files that nobody else uses."""
    with tempfile.TemporaryDirectory(prefix="wc-") as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        os.environ["TMPDIR"] = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before


def show(text: str) -> None:
    """Show progress, where somebody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()


def main() -> int:
    """Measure and print a table; the exit code says whether all held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--frontend", default=NEWEST, metavar="V|PATH")
    parser.add_argument("--as-release", metavar="V")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    given = parser.parse_args()
    binary = resolve(given.frontend, given.as_release)
    good = True
    print(f"frontend {binary.release}, {given.rounds} starts and stops in each mode")
    print(
        f"{'mode':22}{'ready: median':>15}{'95 %':>8}{'most':>8}{'stop: median':>14}  left behind"
    )
    with private_temporary() as temporary:
        for mode in MODES if given.mode == "all" else [given.mode]:
            result = measure(binary, mode, given.rounds, temporary)
            ready, stopped = sorted(result.ready), result.stopped
            median = statistics.median(ready)
            good = good and median < MEDIAN_S and not result.leaks
            print(
                f"{mode:22}{median * 1000:>12.0f} ms{ready[int(len(ready) * 0.95)] * 1000:>5.0f} ms"
                f"{ready[-1] * 1000:>5.0f} ms{statistics.median(stopped) * 1000:>11.0f} ms"
                f"  {', '.join(result.leaks) or 'nothing'}"
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
