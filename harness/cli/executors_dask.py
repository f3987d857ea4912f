"""Carries out tasks on a Dask cluster (``--executor dask://HOST:PORT``; extra ``dask``).

What is needed travels with the task: the scenario, and what decides its schedules. What comes
back travels with the result: failure files too. A worker that dies costs nothing, since the
scheduler gives its tasks to another one.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import queue
import re
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.awake import CLOCK
from harness.cli import cluster_worker
from harness.cli.executors import Came, Lost
from harness.cli.jobs import Task, failed
from harness.division import Outcome
from harness.matrix.identity import tool_identity
from harness.numerals import number_of
from harness.shortened import shortened
from harness.targets.request import is_reference, names_a_path
from harness.targets.vllm_rs.cache import sha256_of
from harness.version import tool_version

CONNECT_S = 10.0
"""Seconds to reach the scheduler."""
WORKERS_S = 30.0
"""Seconds to wait for a first worker, and for one that comes back."""
RESULT_S = 30.0
"""Seconds to fetch a result that is said to be there."""
LOOK_S = 1.0
"""Seconds between looks at who is there."""
SCHEME = "dask://"
_ADDRESS = re.compile(r"dask://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})/?")
INSTALL = "pip install 'wavecheck[dask]'"


class AddressError(ValueError):
    """``--executor`` names no cluster; the message says what is expected."""


class MissingError(Exception):
    """The library for it is not installed; the message says what to do."""


class ClusterError(Exception):
    """The cluster cannot be used; the message says why and what to do."""


def scheduler_of(text: str) -> str:
    """Address of the scheduler in the form that Dask takes.

    Raises:
        AddressError: it is none.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or not number_of(found[2], 65_535):
        msg = (
            f"{shortened(text, 200)!r} is no address of a Dask scheduler; expected dask://HOST:PORT"
        )
        raise AddressError(msg)
    return f"tcp://{found[1]}:{found[2]}"


class DaskExecutor:
    """The workers of a cluster. Close it in the end.

    Args:
        address: as ``scheduler_of`` returns it.

    Raises:
        MissingError: ``distributed`` is not installed.
        ClusterError: no scheduler answers, no worker comes, or a worker has another wavecheck.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            msg = f"--executor {SCHEME}… needs the library distributed: {INSTALL}"
            raise MissingError(msg) from error
        # What matters of it reaches the user as a message of ours.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._address = address
        self._done: queue.SimpleQueue[int] = queue.SimpleQueue()
        """Tasks with an outcome, or forgotten ones."""
        self._tasks: dict[int, tuple[Task, Any]] = {}
        self._threads: dict[str, int] = {}
        self._looked = 0.0
        self._alone_since: float | None = None
        self._digests: dict[str, str] = {}
        try:
            # It is not typed.
            client: Any = Client
            self._client = client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            text = str(error).partition("\n")[0]
            msg = (
                f"no Dask scheduler answers at {address} within {CONNECT_S:g} s ({text}); start "
                "one with `dask scheduler`, and see that the port can be reached from here"
            )
            raise ClusterError(msg) from error
        try:
            self._check()
        except BaseException:
            self._client.close(CONNECT_S)
            raise

    @property
    def workers(self) -> int:
        """Threads of all workers; 1 while there is none."""
        self._look()
        return max(1, sum(self._threads.values()))

    @property
    def free(self) -> int:
        """Each thread may have one more task that waits, so that it need not wait itself."""
        return 2 * self.workers - len(self._tasks)

    def give(self, number: int, task: Task) -> None:
        """Send it."""
        options = replace(task.job.options, out=None, failures_travel=True)
        sent = replace(task, job=replace(task.job, options=options))
        future = self._client.submit(
            cluster_worker.play,
            tool_identity(),
            self._client.id,
            pickle.dumps(sent),
            task.kill_after_s,
            self._file(options.frontend),
            pure=False,
        )
        self._tasks[number] = task, future
        future.add_done_callback(lambda _future: self._done.put(number))

    def forget(self, number: int) -> None:
        """Cancel it."""
        # Its outcome may have come together with the one that makes it needless.
        if number in self._tasks and not self._tasks[number][1].cancelled():
            self._tasks[number][1].cancel()

    def collect(self) -> list[Came]:
        """Wait for tasks; without any worker for a while, nothing is to be hoped for."""
        while True:
            try:
                numbers = [self._next_done()]
            except queue.Empty:
                self._look()
                if self._alone_since is None or _now() - self._alone_since < WORKERS_S:
                    continue
                why = f"the cluster at {self._address} has had no worker for {WORKERS_S:g} s"
                return self._all_lost(why)
            while not self._done.empty():
                numbers.append(self._done.get())
            came = [one for number in numbers for one in self._outcome(number)]
            if came:
                return came

    def _next_done(self) -> int:
        """The next task with an outcome; raises ``queue.Empty`` now and then, to look around."""
        # Who waits tells the clock, for which time without work is none of ours.
        try:
            return self._done.get(timeout=CLOCK.wait_begins(LOOK_S))
        finally:
            CLOCK.wait_ended()

    def close(self) -> None:
        """Cancel what waits, interrupt what is being done, and leave the cluster as it was."""
        try:
            if self._tasks and self._client.status == "running":
                self._client.cancel([future for _, future in self._tasks.values()], force=True)
                self._client.run(cluster_worker.interrupt, self._client.id, on_error="ignore")
        finally:
            self._tasks.clear()
            self._client.close(CONNECT_S)

    # --- who is there -------------------------------------------------------------------------

    def _check(self) -> None:
        """Wait for a worker, and see that all of them have this wavecheck.

        Raises:
            ClusterError: as above.
        """
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_S)
        except TimeoutError as error:
            msg = (
                f"the cluster at {self._address} has no worker; start some with "
                f"`dask worker {self._address}`"
            )
            raise ClusterError(msg) from error
        # First what needs nothing of ours over there.
        versions = self._client.run(metadata.version, "wavecheck", on_error="return")
        for worker, version in versions.items():
            if isinstance(version, metadata.PackageNotFoundError):
                msg = f"the worker {worker} has no wavecheck; install {tool_version()} there"
                raise ClusterError(msg)
            if version != tool_version():
                raise ClusterError(cluster_worker.other_tool(worker, tool_version(), str(version)))
        for worker, seen in self._client.run(cluster_worker.identity, on_error="return").items():
            if seen != tool_identity():
                raise ClusterError(cluster_worker.other_tool(worker, tool_identity(), str(seen)))

    def _look(self) -> None:
        """Learn who is there, now and then."""
        now = _now()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        self._threads = {}
        if self._client.status == "running":
            # A scheduler that went away shows as one without workers.
            with contextlib.suppress(OSError, TimeoutError):
                self._threads = dict(self._client.nthreads())
        if self._threads:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now

    # --- what came ----------------------------------------------------------------------------

    def _file(self, frontend: str | None) -> tuple[str, str] | None:
        """Path and digest of a frontend that is a file: workers must have the same."""
        if frontend is None or is_reference(frontend) or not names_a_path(frontend):
            return None
        if frontend not in self._digests:
            self._digests[frontend] = sha256_of(Path(frontend))
        return frontend, self._digests[frontend]

    def _outcome(self, number: int) -> list[Came]:
        if number not in self._tasks:
            return []
        task, future = self._tasks[number]
        if future.status == "finished":
            try:
                raw: bytes = future.result(timeout=RESULT_S)
            except TimeoutError:
                # Whoever had it is gone; it is made once more.
                future.add_done_callback(lambda _future: self._done.put(number))
                return []
            except Exception as error:  # noqa: BLE001 - one broken run must not end the others
                return self._gone(number, self._why(error))
            del self._tasks[number]
            outcome: Outcome | Lost = pickle.loads(raw)
            return [(number, outcome)]
        if future.status == "error":
            raised = future.exception(timeout=RESULT_S)
            if isinstance(raised, cluster_worker.RefusedError):
                del self._tasks[number]
                return [(number, failed(task.job, str(raised)))]
            return self._gone(number, self._why(raised))
        if future.status == "pending":
            # Lost again since it was told.
            future.add_done_callback(lambda _future: self._done.put(number))
            return []
        return self._gone(number, "it was cancelled, or the scheduler is gone")

    def _gone(self, number: int, why: str) -> list[Came]:
        del self._tasks[number]
        return [(number, Lost(why))]

    @staticmethod
    def _why(error: Any) -> str:
        from distributed import KilledWorker

        if isinstance(error, KilledWorker):
            return "each worker that had it died"
        return f"{type(error).__name__}: {' '.join(str(error).split())}"

    def _all_lost(self, why: str) -> list[Came]:
        numbers = list(self._tasks)
        return [one for number in numbers for one in self._gone(number, why)]


def _now() -> float:
    """Seconds on the wall's clock: they decide how long is waited, and nothing else."""
    return time.monotonic()  # noqa: TID251 - no simulated run reads it
