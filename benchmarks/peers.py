"""Other simulators of asyncio, from the package index, in an environment that is removed again.

What cannot be installed or run is reported as such: a line of the table then has a reason and no
number.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
VERSIONS = {"detangle": "0.1.0", "simloop": "0.2.2", "simloom": "0.5.0"}
"""The releases that were measured for ``docs/performance.md``."""
PEERS = {
    "detangle": ("detangle",),
    "simloop": ("simloop",),
    "  after gc.freeze()": ("simloop", "frozen"),
    "simloom": ("simloom",),
    "  after gc.freeze() ": ("simloom", "frozen"),
}
"""Line of the table → what is asked of ``peer.py``."""
INSTALL_S = 300
STOP_S = 10


class Peer:
    """A running peer. ``seconds`` plays one round."""

    def __init__(self, python: Path, name: str, *how: str, runs: int) -> None:
        self._runs = runs
        self._process = subprocess.Popen(
            [python, HERE / "peer.py", name, str(runs), *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._line() != "ready":
            self.close()
            raise RuntimeError(self.trouble)

    def _line(self) -> str:
        return self._process.stdout.readline().strip()

    def seconds(self) -> float:
        """Play the runs of one round; CPU seconds for each."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._line()
        if not answer:
            self.close()
            raise RuntimeError(self.trouble)
        return float(answer) / self._runs

    def close(self) -> None:
        """End it."""
        process = self._process
        if process.poll() is None:
            process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        said = process.stderr.read().strip()
        self.trouble = said.splitlines()[-1] if said else f"ended with code {process.returncode}"
        process.stdout.close()
        process.stderr.close()


class Peers:
    """All peers of one benchmark, as a context; ``missing``: line → why there is no number."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._stack = ExitStack()
        self.running: dict[str, Peer] = {}
        self.missing: dict[str, str] = {}

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="wc-peers-"))
        try:
            self._begin(Path(folder))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _begin(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        wrong = {name: _install(python, f"{name}=={v}") for name, v in VERSIONS.items()}
        for line, asked in PEERS.items():
            if (why := wrong[asked[0]]) is not None:
                self.missing[line] = why
                continue
            try:
                peer = Peer(python, *asked, runs=self._runs)
            except RuntimeError as error:
                self.missing[line] = f"does not run here: {error}"
                continue
            self._stack.callback(peer.close)
            self.running[line] = peer

    def drop(self, name: str, why: str) -> None:
        """Go on without a peer that broke."""
        self.running.pop(name)
        self.missing[name] = why


def _install(python: Path, what: str) -> str | None:
    """Install a package; the reason if that cannot be."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not installed: pip took more than {INSTALL_S} s"
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if "ERROR" in line]
    if wanted := {
        line.rpartition("Requires-Python ")[2] for line in lines if "Requires-Python" in line
    }:
        return f"not installed: needs Python {', '.join(sorted(wanted))}"
    return f"not installed: {(lines or ['pip failed'])[0].removeprefix('ERROR: ')}"
