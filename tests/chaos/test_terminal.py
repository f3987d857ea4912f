"""A run as a job of a shell on a terminal: Ctrl-Z and ``fg``, Ctrl-\\, a terminal that goes away."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from client.transports.folders import sweep
from tests.chaos.processes import Marked, all_end
from tests.chaos.stages import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs terminals as Linux has them"),
]

LIMIT_S = 120.0
AGAIN_S = 2.0
SIMULATED = ("run", "requests", "--schedules", "5", "--jobs", "2", "--json", "r.json")
REAL = ("run", "--target", "zmq", "lifecycle/a-stalled-engine-goes-on", "routing/", "utility/")
SHELL = """
import fcntl, os, signal, subprocess, sys, termios
heard, tells, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
in_front = place == "fg"
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
if place == "bg":
    wanted = termios.tcgetattr(0)
    wanted[3] |= termios.TOSTOP
    termios.tcsetattr(0, termios.TCSANOW, wanted)
os.write(tells, b"ready\\n")
os.read(heard, 1)


def begin():
    os.setpgid(0, 0)
    if in_front:
        os.tcsetpgrp(0, os.getpid())
    # As every shell does for its jobs: it may itself be the child of one in the background.
    for number in signal.SIGTTOU, signal.SIGINT, signal.SIGQUIT:
        signal.signal(number, signal.SIG_DFL)


job = subprocess.Popen([sys.executable, *sys.argv[4:]], preexec_fn=begin)
os.write(tells, b"%d\\n" % job.pid)
while True:
    _, status = os.waitpid(job.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.write(tells, b"stopped %d\\n" % os.WSTOPSIG(status))
    if not os.read(heard, 1):
        os._exit(0)
    os.tcsetpgrp(0, job.pid)
    os.killpg(job.pid, signal.SIGCONT)
os.tcsetpgrp(0, os.getpid())
os.write(tells, b"ended %d\\n" % os.waitstatus_to_exitcode(status))
"""

SLOW_SPAWN = """
import _posixsubprocess
import os

fork_exec = _posixsubprocess.fork_exec


def slowly(words, files, *more):
    _posixsubprocess.fork_exec = fork_exec
    return fork_exec(words, [b"/no-such-program"] * 1_000_000 + [os.fsencode(files[0])], *more)


if __name__ == "__main__":
    _posixsubprocess.fork_exec = slowly
    from harness.cli import entry
    entry.main()
"""
"""Its first child takes a second or more to find the program that it is to be."""


class Job:
    """A command in a job of a shell that has a terminal of its own."""

    def __init__(
        self, shell: subprocess.Popen[bytes], terminal: int, ours: int, theirs: int
    ) -> None:
        self.shell, self.terminal = shell, terminal
        self._orders, self._tells = ours, theirs
        self._told, self.shown = b"", b""

    def tells(self, within_s: float) -> bool:
        """Whether the shell has something to say by then; what the job shows is taken later."""
        return bool(self._told) or bool(select.select([self._tells], [], [], within_s)[0])

    def told(self) -> str:
        """What the shell says next; meanwhile what the job shows is taken."""
        while b"\n" not in self._told:
            ready, _, _ = select.select([self._tells, self.terminal], [], [], LIMIT_S)
            assert ready, f"nothing happens: {self.shown!r}"
            if self.terminal in ready:
                self.take()
            if self._tells in ready:
                self._told += os.read(self._tells, 1024)
        line, _, self._told = self._told.partition(b"\n")
        return line.decode()

    def take(self) -> None:
        with suppress(OSError):  # nobody has the other end now
            self.shown += os.read(self.terminal, 65_536)

    def await_text(self, text: bytes) -> None:
        while text not in self.shown:
            assert select.select([self.terminal], [], [], LIMIT_S)[0], self.shown
            self.take()

    def types(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def order(self) -> None:
        """``fg``; the first one begins."""
        os.write(self._orders, b"g")

    def leave(self) -> None:
        """The shell ends."""
        os.close(self._orders)
        self.shell.wait(LIMIT_S)

    def state(self) -> list[Any]:
        return termios.tcgetattr(self.terminal)


@contextmanager
def job(
    folder: Path, *words: str, place: str = "fg", program: tuple[str, ...] = ("-m", "harness")
) -> Iterator[tuple[Job, Marked]]:
    marked = Marked()
    (folder / "t").mkdir()
    terminal, inside = os.openpty()
    heard, orders = os.pipe()
    tells, told = os.pipe()
    shell = subprocess.Popen(
        [sys.executable, "-c", SHELL, str(heard), str(told), place, *program, *words],
        cwd=folder,
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={
            **os.environ,
            **marked.environment,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder / "t"),
            "TERM": "xterm",
        },
        pass_fds=[heard, told],
        start_new_session=True,
    )
    marked.root = shell.pid
    for descriptor in (inside, heard, told):
        os.close(descriptor)
    run = Job(shell, terminal, orders, tells)
    try:
        assert run.told() == "ready"
        yield run, marked
    finally:
        for process in marked.living():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        shell.wait()
        for descriptor in (terminal, orders, tells):
            with suppress(OSError):
                os.close(descriptor)


def begin(run: Job) -> int:
    """Let the job begin; its process id."""
    run.order()
    return int(run.told())


@pytest.mark.parametrize("words", [SIMULATED, (*REAL, "--json", "r.json")], ids=["sim", "zmq"])
def test_ctrl_z_and_fg_change_no_result_and_leave_the_terminal_as_it_was(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    with job(tmp_path, *words) as (run, marked):
        before = run.state()
        begin(run)
        run.await_text(b"wavecheck")
        run.types(b"\x1a")
        assert run.told() == f"stopped {signal.SIGTSTP.value}"
        run.order()
        assert run.told() == "ended 0", run.shown.decode()
        assert run.state() == before
        assert all_end(marked, 5.0)
        results = json.loads((tmp_path / "r.json").read_text())["results"]
        assert {one["status"] for one in results} <= {"held", "not_judged"}
        assert list((tmp_path / "t").iterdir()) == []


def has_child(pid: int) -> bool:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text() != ""


def test_ctrl_z_while_a_worker_is_started_stops_the_command(tmp_path: Path) -> None:
    """A child that is stopped before it is a program of its own must not hold its parent."""
    (tmp_path / "slow.py").write_text(SLOW_SPAWN)
    with job(tmp_path, *SIMULATED, program=(str(tmp_path / "slow.py"),)) as (run, marked):
        pid = begin(run)
        while not has_child(pid):
            os.sched_yield()
        run.types(b"\x1a")
        assert run.told() == f"stopped {signal.SIGTSTP.value}"
        run.order()
        assert run.told() == "ended 0", run.shown.decode()
        assert all_end(marked, 5.0)


def test_job_in_the_background_waits_until_it_may_write_and_goes_on_in_front(
    tmp_path: Path,
) -> None:
    with job(tmp_path, "run", "waves/stale-first-request", place="bg") as (run, _):
        begin(run)
        assert run.told() == f"stopped {signal.SIGTTOU.value}"
        run.order()
        assert run.told() == "ended 0"
        assert b"1 held" in run.shown


def test_job_in_the_background_that_asks_waits_until_it_is_in_front(tmp_path: Path) -> None:
    with job(tmp_path, "new", "--no-schema", place="bg, may write") as (run, _):
        pid = begin(run)
        assert run.told() == f"stopped {signal.SIGTTIN.value}"
        run.order()
        while os.tcgetpgrp(run.terminal) != pid:
            os.sched_yield()
        run.types(b"\x03")
        # One that comes in the instant between going on and reading is noted by Python, and heard
        # with the next: whoever sits there types again.
        while not run.tells(AGAIN_S):
            run.types(b"\x03")
        assert run.told() == "ended 130"


def test_ctrl_backslash_ends_all_at_once_and_the_next_run_sweeps(tmp_path: Path) -> None:
    with job(tmp_path, *REAL, "--jobs", "2") as (run, marked):
        begin(run)
        run.await_text(b"held")
        run.types(b"\x1c")
        assert run.told() == f"ended {-signal.SIGQUIT.value}"
        assert all_end(marked, 5.0)
        sweep([tmp_path / "t"])
        assert list((tmp_path / "t").iterdir()) == []


def test_stopped_job_whose_shell_ends_ends_in_order(tmp_path: Path) -> None:
    """The system hangs up and continues what nobody could continue any more."""
    with job(tmp_path, *REAL, "--jobs", "2", "--json", "r.json") as (run, marked):
        begin(run)
        run.await_text(b"wavecheck")
        run.types(b"\x1a")
        assert run.told() == f"stopped {signal.SIGTSTP.value}"
        run.leave()
        assert all_end(marked, LIMIT_S)
        document = json.loads((tmp_path / "r.json").read_text())
        assert document["not_run"]
        assert list((tmp_path / "t").iterdir()) == []
