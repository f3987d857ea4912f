"""Worker processes: order, lost workers, time limits, interruption, and no orphan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.cli.pool import Batch, Job, execute, failed, run_jobs
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario, parse

TEXT = "title: t\npromise: p\nrefs: [vllm#1]\nsteps:\n  - fence: true\n"

# What workers run. It lives in a file, since a worker imports it by name. The last word of a
# scenario's id says what to do; FIFO is a pipe that shows who is alive.
WORK = """
import os
import threading
from dataclasses import replace
from pathlib import Path

from harness.cli.pool import Job, failed

FIFO = {fifo!r}


def work(loaded, options):
    word = loaded.id.rpartition("-")[2]
    result = replace(failed(Job(loaded, options), ""), error=None, status="held")
    if word == "die":
        os._exit(7)
    if word == "raise":
        raise RuntimeError("broken")
    if word == "violated":
        return replace(result, status="violated")
    if word == "waits":
        os.close(os.open(FIFO, os.O_RDONLY))
    if word == "hang":
        pipe = os.open(FIFO, os.O_WRONLY)
        try:
            os.write(pipe, b"up\\n")
            threading.Event().wait()
        finally:
            os.write(pipe, b"cleaned\\n")
    return replace(result, error=str(os.getpid()))
"""

SCRIPT = """
import json
import sys

from harness.cli.pool import Job, interruptible, run_jobs
from harness.runner import RunOptions
from harness.scenario.loader import parse
from pathlib import Path
from pool_work import work

TEXT = {text!r}
if __name__ == "__main__":
    names = sys.argv[1:]
    jobs = [Job(parse(TEXT, Path(n), name=n), RunOptions()) for n in names]
    with interruptible():
        batch = run_jobs(jobs, work, processes=2, on_result=lambda _: None, stops=lambda _: False)
    print(json.dumps([batch.interrupted, [r.scenario for r in batch.results]]))
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "pool_work.py").write_text(WORK.format(fifo=str(tmp_path / "fifo")))
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pool_work", raising=False)
    import pool_work  # type: ignore[import-not-found]

    return pool_work.work


def jobs(*names: str, timeout_s: float | None = None) -> list[Job]:
    options = RunOptions(timeout_s=timeout_s)
    return [Job(parse(TEXT, Path(name), name=name), options) for name in names]


def play(work: Any, *names: str, processes: int = 2) -> tuple[Batch, list[str]]:
    told: list[str] = []
    batch = run_jobs(
        jobs(*names),
        work,
        processes=processes,
        on_result=lambda result: told.append(result.scenario),
        stops=lambda result: result.status == "violated",
    )
    return batch, told


def test_results_come_in_the_order_of_the_jobs_from_several_processes(work: Any) -> None:
    names = [f"{n}-ok" for n in range(8)]
    batch, told = play(work, *names)
    assert [r.scenario for r in batch.results] == told == names
    assert str(os.getpid()) not in {r.error for r in batch.results}


def test_lost_worker_costs_one_result_and_is_replaced(work: Any) -> None:
    batch, _ = play(work, "a-ok", "b-die", "c-die", "d-ok", "e-raise")
    assert [(r.status, r.error) for r in batch.results][1:3] == [
        ("error", "the run was lost: its worker process ended with code 7"),
    ] * 2
    assert [r.status for r in batch.results] == ["held", "error", "error", "held", "error"]
    assert (batch.results[4].error or "").startswith("RuntimeError: broken (at pool_work.py:")


@pytest.mark.parametrize("processes", [1, 2])
def test_stop_keeps_what_comes_before_whatever_the_number_of_processes(
    work: Any, processes: int
) -> None:
    names = ["a-ok", "b-ok", "c-violated", "d-ok", "e-violated"]
    batch, told = play(work, *names, processes=processes)
    assert [r.scenario for r in batch.results] == told == names[:3]


def test_time_limit_stops_a_run_here() -> None:
    def wait(_loaded: LoadedScenario, _options: RunOptions) -> ScenarioResult:
        signal.pause()
        raise AssertionError

    before = signal.getsignal(signal.SIGINT)
    (job,) = jobs("a", timeout_s=0.05)
    result = execute(job, wait)
    assert (result.status, result.error) == ("error", "stopped after the time limit of 0.05 s")
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_interruption_by_a_person_is_not_taken_for_the_time_limit() -> None:
    def interrupt(_loaded: LoadedScenario, _options: RunOptions) -> ScenarioResult:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    (job,) = jobs("a", timeout_s=60)
    with pytest.raises(KeyboardInterrupt):
        execute(job, interrupt)


def start(folder: Path, *names: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT.format(text=TEXT))
    root = str(Path(__file__).parents[3])
    return subprocess.Popen(
        [sys.executable, str(folder / "script.py"), *names],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interruption_reaches_workers_which_clean_up(
    work: Any, tmp_path: Path, signum: signal.Signals
) -> None:
    parent = start(tmp_path, "a-ok", "b-hang", "c-hang", "d-ok")
    with (tmp_path / "fifo").open() as pipe:
        assert [pipe.readline(), pipe.readline()] == ["up\n", "up\n"]
        parent.send_signal(signum)
        assert pipe.read() == "cleaned\ncleaned\n"  # and then its end: nobody is left
    out, err = parent.communicate(timeout=20)
    assert (parent.returncode, err) == (0, "")
    assert json.loads(out) == [True, ["a-ok"]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs PR_SET_PDEATHSIG")
def test_workers_die_with_a_parent_that_is_killed(work: Any, tmp_path: Path) -> None:
    parent = start(tmp_path, "a-hang", "b-hang")
    with (tmp_path / "fifo").open() as pipe:
        assert [pipe.readline(), pipe.readline()] == ["up\n", "up\n"]
        parent.kill()
        assert pipe.read() == ""  # its end: both are gone, without a chance to clean up
    parent.communicate(timeout=20)


def test_result_is_told_as_soon_as_it_is_there_although_an_earlier_one_takes_long(
    work: Any, tmp_path: Path
) -> None:
    """Who keeps finished cells must not lose them to a long one: here it waits to be told."""
    done: list[tuple[int, str]] = []
    told: list[str] = []

    def on_done(index: int, result: ScenarioResult) -> None:
        done.append((index, result.scenario))
        if result.scenario == "b-held":
            os.close(os.open(tmp_path / "fifo", os.O_WRONLY))

    batch = run_jobs(
        jobs("a-waits", "b-held"),
        work,
        processes=2,
        on_result=lambda result: told.append(result.scenario),
        stops=lambda _: False,
        on_done=on_done,
    )
    assert done == [(1, "b-held"), (0, "a-waits")]
    assert told == ["a-waits", "b-held"]
    assert [result.scenario for result in batch.results] == told


def test_job_that_is_played_several_times_has_a_limit_for_each_play_not_for_all() -> None:
    (job,) = jobs("a-held", timeout_s=0.05)
    turn = threading.Event()

    def slow(loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        turn.wait(0.2)
        return failed(Job(loaded, options), "came to its end")

    assert execute(job, slow).error == "stopped after the time limit of 0.05 s"
    assert execute(Job(job.loaded, job.options, 2), slow).error == "came to its end"
