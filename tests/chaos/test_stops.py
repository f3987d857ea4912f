"""Processes of a run that are stopped, and go on: by a signal, or by Ctrl-Z on a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.targets.vllm_rs.fetch import available
from mock_engines.spawn import is_stopped
from tests.chaos.processes import WORKER, Marked, all_end
from tests.chaos.stages import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs proc(5)"),
]

LIMIT_S = 120.0
LONG_S = 3.0
"""A stop that takes longer than the time limits below, and than what passes for a busy machine."""
STORY = "utility/failing-beside-hanging"
FAULT = ("utility/failing-beside-hanging", "--mutant", "fail-fast-fan-out")

SCRIPT = """
import os, selectors, signal, sys
import harness.cli.jobs, harness.driver, harness.play, harness.runner
from harness.worlds import ZmqWorld

harness.cli.jobs.CLEAN_UP_S = float(os.environ["CLEAN_UP_S"])
ZmqWorld.step_limit_s = 1.5
where, fifo = os.environ["WHERE"], os.environ["FIFO"]
mine = __name__ == "__main__" if os.environ["WHO"] == "command" else __name__ != "__main__"


def stop():
    if not mine:
        return
    try:
        # The first one of several workers, which may come here at once.
        open(fifo + ".done", "x").close()
    except FileExistsError:
        return
    with open(fifo, "w") as told:
        told.write(str(os.getpid()) + chr(10))
    os.kill(os.getpid(), signal.SIGSTOP)


def stops_first(function):
    def stopped_first(*words, **more):
        stop()
        return function(*words, **more)
    return stopped_first


def at_a_fence(play):
    async def stopped_first(self, index, step):
        if step.verb in ("fence", "finish"):
            if where == "work":
                stop()
            else:
                base = selectors.DefaultSelector
                base.select = stops_first(base.select)
        await play(self, index, step)
    return stopped_first


if where == "play":
    harness.runner.play = stops_first(harness.runner.play)
else:
    harness.driver.Driver._play = at_a_fence(harness.driver.Driver._play)
if __name__ == "__main__":
    from harness.cli import entry
    entry.main()
"""


@dataclass
class Stopped:
    """A command of which one process has just been stopped, by itself."""

    command: subprocess.Popen[str]
    pid: int
    marked: Marked
    folder: Path

    def go_on(self, after_s: float = 0.0) -> None:
        # Nothing is waited for: that this time passes is what is tried.
        threading.Event().wait(after_s)
        assert is_stopped(self.pid), self.end()
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> tuple[int, str]:
        out, err = self.command.communicate(timeout=LIMIT_S)
        return self.command.returncode, out + err

    def statuses(self) -> tuple[str, ...]:
        document = json.loads((self.folder / "r.json").read_text())
        return tuple(one["status"] for one in document["results"])

    def nothing_is_left(self) -> bool:
        return all_end(self.marked, 5.0) and list((self.folder / "t").iterdir()) == []


def told(fifo: Path, command: subprocess.Popen[str]) -> int:
    """The id that is written to ``fifo`` by a process of the command, which may end instead."""
    reading, end = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(command.pid)
    try:
        ready, _, _ = select.select([reading, end], [], [], LIMIT_S)
        assert reading in ready, command.communicate() if end in ready else "nothing was told"
        return int(os.read(reading, 64))
    finally:
        os.close(reading)
        os.close(end)


@contextmanager
def stopped(
    folder: Path, *words: str, where: str, who: str = "command", clean_up_s: float = 10.0
) -> Iterator[Stopped]:
    """Run the command until ``who`` (the command, or a worker) stands still at ``where``."""
    marked, fifo, script = Marked(), folder / "fifo", folder / "script.py"
    script.write_text(SCRIPT)
    (folder / "t").mkdir()
    os.mkfifo(fifo)
    command = subprocess.Popen(
        [sys.executable, str(script), *words, "--json", "r.json"],
        cwd=folder,
        env={
            **os.environ,
            **marked.environment,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder / "t"),
            "WHERE": where,
            "WHO": who,
            "FIFO": str(fifo),
            "CLEAN_UP_S": str(clean_up_s),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    marked.root = command.pid
    try:
        pid = told(fifo, command)
        while not is_stopped(pid):
            assert command.poll() is None
            os.sched_yield()
        yield Stopped(command, pid, marked, folder)
    finally:
        for process in marked.living():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        command.communicate()


@pytest.mark.parametrize("where", ["work", "wait"])
@pytest.mark.parametrize("who", ["command", "worker"])
def test_run_on_real_sockets_that_is_stopped_for_longer_than_its_steps_may_take_comes_to_the_same(
    tmp_path: Path, where: str, who: str
) -> None:
    jobs = "1" if who == "command" else "2"
    words = ["run", "--target", "zmq", STORY, "requests/aborted-then-left", "--jobs", jobs]
    with stopped(tmp_path, *words, where=where, who=who) as run:
        run.go_on(after_s=LONG_S)
        code, text = run.end()
        assert code == 0, text
        assert run.statuses() == ("held", "held")
        assert run.nothing_is_left()


@pytest.mark.vllm_rs
def test_run_on_a_real_frontend_that_is_stopped_for_longer_than_its_steps_may_take_is_no_violation(
    tmp_path: Path,
) -> None:
    """The frontend goes on meanwhile: it held, or it is to be played again."""
    release = "0.33.0"
    if available(release) is None:
        pytest.skip(f"no binary of the frontend {release}")
    words = ["run", "--target", "vllm-rs", "--frontend", release, STORY]
    with stopped(tmp_path, *words, where="wait") as run:
        run.go_on(after_s=LONG_S)
        code, text = run.end()
        assert (code, run.statuses()) in {(0, ("held",)), (3, ("error",))}, text
        assert code == 0 or "is to be played again" in text
        assert run.nothing_is_left()


@pytest.mark.parametrize("who", ["command", "worker"])
def test_simulated_run_that_is_stopped_for_longer_than_its_time_limit_comes_to_the_same(
    tmp_path: Path, who: str
) -> None:
    jobs = "1" if who == "command" else "2"
    words = ["run", STORY, "requests/aborted-then-left", "--timeout", "2", "--jobs", jobs]
    with stopped(tmp_path, *words, where="play", who=who) as run:
        run.go_on(after_s=LONG_S)
        code, text = run.end()
        assert code == 0, text
        assert run.statuses() == ("held", "held")


@pytest.mark.parametrize(
    ("target", "after_s", "status"),
    [("sim", LONG_S, "violated"), ("zmq", 0.0, "violated"), ("zmq", LONG_S, "error")],
)
def test_violation_of_a_run_that_was_stopped_counts_where_that_cost_no_time(
    tmp_path: Path, target: str, after_s: float, status: str
) -> None:
    where = "play" if target == "sim" else "work"
    with stopped(tmp_path, "run", "--target", target, *FAULT, where=where) as run:
        run.go_on(after_s)
        code, text = run.end()
        assert (code, run.statuses()) == (1 if status == "violated" else 3, (status,)), text
        files = [path.name for path in tmp_path.glob("wavecheck-out/utility-*")]
        if status == "error":
            assert "was stopped (SIGSTOP, SIGTSTP) meanwhile" in text
            assert "is to be played again" in text
            assert f"wavecheck-out/{files[0]}, which may show nothing" in " ".join(text.split())
        assert len(files) == 1


def test_worker_that_is_stopped_for_good_is_an_error_behind_the_time_limit_and_others_go_on(
    tmp_path: Path,
) -> None:
    words = ["run", "--target", "zmq", STORY, "requests/aborted-then-left"]
    words += ["--jobs", "2", "--timeout", "2"]
    with stopped(tmp_path, *words, where="work", who="worker", clean_up_s=0.5) as run:
        code, text = run.end()
        assert code == 3, text
        assert sorted(run.statuses()) == ["error", "held"]
        assert "its worker process stood still (SIGSTOP)" in text
        assert all_end(run.marked, 5.0)


def test_ctrl_c_ends_a_run_whose_worker_was_stopped_for_good_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    words = ["run", "--target", "zmq", "lifecycle/a-stalled-engine-goes-on", STORY]
    with stopped(tmp_path, *words, "--jobs", "2", where="work", who="worker") as run:
        assert any(one.kind == WORKER and one.pid == run.pid for one in run.marked.living())
        run.command.send_signal(signal.SIGINT)
        code, text = run.end()
        assert code == 130, text
        assert run.nothing_is_left()
