"""A real Dask cluster on this machine: processes of their own, of which none is left behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


class Cluster:
    """A scheduler, and workers once they are asked for.

    Attributes:
        folder: where they run; workers can import from it.
        address: for ``--executor``.
        client: to look at them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter")
        self._start("scheduler", *words, "--scheduler-file", str(self._file))
        from distributed import Client

        # It waits for the file.
        self.client = Client(scheduler_file=str(self._file), timeout=60, set_as_default=False)
        self.address = self.client.scheduler.address.replace("tcp://", "dask://")

    def _start(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), str(self.folder)])
        with (self.folder / f"{kind}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def workers(self) -> dict[str, int]:
        """Address and process of each worker, of which there are two after this."""
        there = len(self.client.nthreads())
        for _ in range(there, 2):
            self._start(
                "worker", "--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny",
                "--no-dashboard", "--local-directory", str(self.folder),
            )  # fmt: skip
        self.client.wait_for_workers(2, timeout=60)
        return dict(self.client.run(os.getpid))

    def close(self) -> list[psutil.Process]:
        """End everything; what is still there afterwards."""
        self.client.close()
        found = [psutil.Process(one.pid) for one in self._processes if one.poll() is None]
        found += [child for one in found for child in one.children(recursive=True)]
        # Workers first: one that is told to end while it loses its scheduler may hang.
        try:
            for process in reversed(self._processes):
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                process.wait(60)
        finally:
            for process in self._processes:
                process.kill()
        return psutil.wait_procs(found, timeout=30)[1]
