"""Worker processes: order, lost workers, time limits, interruption, and no orphan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from harness.cli import jobs as jobs_module
from harness.cli import pool as pool_module
from harness.cli.executors import Came, Lost
from harness.cli.jobs import Task, carry_out
from harness.cli.pool import Batch, Job, execute, failed, run_jobs
from harness.division import Division
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
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


@pytest.mark.parametrize("processes", [1, 2])
def test_jobs_that_are_not_wanted_any_more_are_left_out_and_listed(
    work: Any, processes: int
) -> None:
    names = ["a-violated", "b-ok", "a-ok", "b-ok", "a-ok", "a-ok", "b-ok"]
    told: list[int] = []
    batch = run_jobs(
        jobs(*names),
        work,
        processes=processes,
        on_result=lambda _result: None,
        stops=lambda _result: False,
        on_done=lambda index, _result: told.append(index),
        wanted=lambda index: index == 0 or names[index].startswith("b"),
    )
    assert [r.scenario for r in batch.results] == ["a-violated", "b-ok", "b-ok", "b-ok"]
    assert (sorted(told), batch.not_run) == ([0, 1, 3, 6], (2, 4, 5))


@pytest.mark.parametrize("processes", [1, 2])
def test_batch_of_which_nothing_is_wanted_ends_at_once(work: Any, processes: int) -> None:
    batch = run_jobs(
        jobs("a-ok", "b-ok"),
        work,
        processes=processes,
        on_result=lambda _result: None,
        stops=lambda _result: False,
        wanted=lambda _index: False,
    )
    assert (batch.results, batch.not_run) == ((), (0, 1))


def test_time_limit_stops_a_run_here() -> None:
    def wait(_loaded: LoadedScenario, _options: RunOptions) -> ScenarioResult:
        while True:  # each part of the time limit is a signal
            signal.pause()

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


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


def test_second_interruption_ends_the_wait_for_workers_and_keeps_the_results(
    work: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = BaseProcess.join

    def impatient(process: BaseProcess, timeout: float | None = None) -> None:
        if timeout:
            raise KeyboardInterrupt
        join(process, timeout)

    def told(result: ScenarioResult) -> None:
        monkeypatch.setattr(BaseProcess, "join", impatient)
        raise KeyboardInterrupt

    batch = run_jobs(
        jobs("a-ok", "b-ok", "c-ok"),
        work,
        processes=2,
        on_result=told,
        stops=lambda _result: False,
    )
    assert batch.interrupted
    assert "a-ok" in [result.scenario for result in batch.results]
    assert len(batch.results) + len(batch.not_run) == 3


@pytest.mark.parametrize("processes", [1, 2])
def test_jobs_without_a_result_are_named(work: Any, processes: int) -> None:
    batch, _ = play(work, "a-ok", "b-violated", "c-ok", "d-ok", processes=processes)
    assert batch.not_run == (2, 3)
    assert play(work, "a-ok", "b-ok", processes=processes)[0].not_run == ()


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


# --- divided campaigns ------------------------------------------------------------------------

TWO_CALLS = """
title: t
promise: p
refs: [vllm#1]
steps:
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - finish: [a, b]
  - expect: {op: a, outcome: finished}
"""


class Here:
    """Carries tasks out in this process, the newest first, and can lose one.

    Attributes:
        pieces: number of schedules of each task that was given; 0 for a whole job.
    """

    workers = 2

    def __init__(self, loses: int | None = None) -> None:
        self._tasks: dict[int, Task] = {}
        self._loses = loses
        self.pieces: list[int] = []
        self.forgotten: list[int] = []
        self.closed = False

    @property
    def free(self) -> int:
        return self.workers - len(self._tasks)

    def give(self, number: int, task: Task) -> None:
        self.pieces.append(task.schedules)
        self._tasks[number] = task

    def forget(self, number: int) -> None:
        self.forgotten.append(number)

    def collect(self) -> list[Came]:
        number, task = self._tasks.popitem()
        if number == self._loses:
            return [(number, Lost("it fell over"))]
        return [(number, carry_out(task))]

    def close(self) -> None:
        self.closed = True


def campaigns(*texts: str, schedules: int = 24, **more: Any) -> list[Job]:
    options = RunOptions(strategy="random", schedules=schedules, **more)
    named = [parse(text, Path(f"{n}.yaml"), name=str(n)) for n, text in enumerate(texts)]
    return [Job(one, options, divisible=True) for one in named]


def spread(todo: list[Job], executor: Here, stops: Any = lambda _result: False) -> Batch:
    return run_jobs(
        todo,
        run_scenario,
        processes=1,
        on_result=lambda _result: None,
        stops=stops,
        executor=executor,
    )


def without_times(results: Iterable[ScenarioResult]) -> list[ScenarioResult]:
    return [replace(result, duration_s=0.0) for result in results]


def alone(todo: list[Job]) -> list[ScenarioResult]:
    return without_times(run_scenario(job.loaded, job.options) for job in todo)


def test_one_campaign_is_divided_among_worker_processes_and_comes_to_the_same() -> None:
    todo = campaigns(TWO_CALLS, schedules=120)
    batch = run_jobs(
        todo, run_scenario, processes=2, on_result=lambda _: None, stops=lambda _: False
    )
    assert without_times(batch.results) == alone(todo)
    assert batch.results[0].schedules == 120


def test_jobs_are_divided_where_there_are_few_or_they_are_large_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    todo, executor = campaigns(*[TWO_CALLS] * 7), Here()
    assert without_times(spread(todo, executor).results) == alone(todo)
    # Two workers: the last four are divided, the others are not.
    assert executor.pieces.count(0) == 3
    assert sum(executor.pieces) == 4 * 24
    small = Here()
    spread(campaigns(TWO_CALLS, schedules=16), small)
    assert small.pieces == [0]
    monkeypatch.setattr(pool_module, "LARGE", 24)
    large = Here()
    spread(campaigns(*[TWO_CALLS] * 7), large)
    assert 0 not in large.pieces
    assert sum(large.pieces) == 7 * 24


def test_lost_piece_makes_its_campaign_an_error_and_no_other() -> None:
    todo = campaigns(TWO_CALLS, TWO_CALLS)
    batch = spread(todo, Here(loses=2))
    assert sorted(result.status for result in batch.results) == ["error", "held"]
    (error,) = [result.error for result in batch.results if result.status == "error"]
    assert error == "the run was lost: it fell over"


def test_violation_in_a_divided_campaign_stops_the_batch_like_any_other(tmp_path: Path) -> None:
    fails = TWO_CALLS.replace("outcome: finished", "outcome: failed")
    todo = campaigns(TWO_CALLS, fails, TWO_CALLS, out=tmp_path)
    executor = Here()
    batch = spread(todo, executor, stops=lambda result: result.status == "violated")
    assert without_times(batch.results) == alone(todo[:2])
    assert (batch.not_run, executor.closed) == ((2,), True)
    assert len(list(tmp_path.iterdir())) == 1


def test_time_limit_of_a_divided_campaign_is_told_as_that_of_a_whole_one() -> None:
    (job,) = campaigns(TWO_CALLS)
    piece = Division(job.loaded, job.options).take(1)
    limited = Job(job.loaded, replace(job.options, timeout_s=7.0))

    def waits(*_: object) -> ScenarioResult:
        while True:  # each part of the time limit is a signal
            signal.pause()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs_module, "play_piece", waits)
        result = carry_out(Task(limited, run_scenario, piece, seconds_left=-1.0))
    assert isinstance(result, ScenarioResult)
    assert (result.status, result.error) == ("error", "stopped after the time limit of 7 s")


def test_failure_file_that_came_with_a_result_is_written_here(tmp_path: Path) -> None:
    fails = TWO_CALLS.replace("outcome: finished", "outcome: failed")
    (here,) = campaigns(fails, schedules=1, out=tmp_path / "here")
    (elsewhere,) = campaigns(fails, schedules=1, out=tmp_path / "there")
    elsewhere = replace(elsewhere, options=replace(elsewhere.options, failures_travel=True))
    travelled = run_scenario(elsewhere.loaded, elsewhere.options)
    assert not (tmp_path / "there").exists()
    assert travelled.failure_file is None
    (result,) = spread([elsewhere], Here()).results
    assert result.failure_unwritten is None
    path = Path(run_scenario(here.loaded, here.options).failure_file or "")
    assert Path(result.failure_file or "").read_text() == path.read_text()
    assert Path(result.failure_file or "") == tmp_path / "there" / path.name
    (tmp_path / "here" / "file").write_text("")
    stuck = replace(elsewhere, options=replace(elsewhere.options, out=tmp_path / "here" / "file"))
    (result,) = spread([stuck], Here()).results
    assert (result.status, result.failure_file) == ("violated", None)
    assert "file" in (result.failure_file_error or "")
