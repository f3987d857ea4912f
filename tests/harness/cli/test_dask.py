"""A Dask cluster: same results, a worker that dies, interruption, and clear refusals.

The cluster is real: a scheduler and two workers, processes of their own on this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.cli import cluster_worker, executors_dask, spreading
from harness.cli.executors import Came
from harness.cli.executors_dask import AddressError, ClusterError, DaskExecutor, scheduler_of
from harness.cli.pool import Batch, Job, run_jobs
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse
from tests.support.dask_cluster import Cluster

pytest.importorskip("distributed", reason="the extra `dask` is not installed")
# Its own modules use what newer libraries and Pythons warn of.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
TEXT = "title: t\npromise: p\nrefs: [vllm#1]\nsteps:\n  - fence: true\n"
TWO_CALLS = """
title: t
promise: p
refs: [vllm#1]
steps:
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - finish: [a, b]
"""
IN_ORDER = TWO_CALLS + "  - expect: {order: [{event: add, request: a}, {event: add, request: b}]}\n"
HELD = TWO_CALLS + "  - expect: {op: a, outcome: finished}\n"

# What workers run; they import it by name. The last word of a scenario's id says what to do.
WORK = """
import os
import threading
from dataclasses import replace
from pathlib import Path

from harness.cli.jobs import Job, failed

HERE = Path(__file__).parent


def work(loaded, options):
    word = loaded.id.rpartition("-")[2]
    result = replace(failed(Job(loaded, options), ""), error=None, status="held")
    if word == "raise":
        raise RuntimeError("broken")
    if word == "crash":
        os._exit(7)
    if word == "once":
        # Only the first that comes here waits for its end.
        try:
            os.close(os.open(HERE / "begun", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return result
        word = "hang"
    if word == "hang":
        pipe = os.open(HERE / "fifo", os.O_WRONLY)
        try:
            os.write(pipe, f"{os.getpid()}\\n".encode())
            threading.Event().wait()
        finally:
            os.write(pipe, b"cleaned\\n")
            os.close(pipe)
    return result
"""

SCRIPT = """
import json
import sys
from pathlib import Path

from dask_work import work

from harness.cli.executors_dask import DaskExecutor, scheduler_of
from harness.cli.pool import Job, interruptible, run_jobs
from harness.runner import RunOptions
from harness.scenario.loader import parse

jobs = [Job(parse({text!r}, Path(n), name=n), RunOptions()) for n in sys.argv[2:]]
with interruptible():
    batch = run_jobs(
        jobs, work, processes=1, on_result=lambda _: None, stops=lambda _: False,
        executor=DaskExecutor(scheduler_of(sys.argv[1])),
    )
print(json.dumps([batch.interrupted, [r.scenario for r in batch.results]]))
"""


def make(folder: Path) -> Cluster:
    """A cluster whose workers can import ``WORK``; none is there yet."""
    (folder / "dask_work.py").write_text(WORK)
    return Cluster(folder)


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = make(tmp_path_factory.mktemp("cluster"))
    try:
        yield cluster
    finally:
        left = cluster.close()
    assert left == []


@pytest.fixture
def cluster(_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster, with two workers and nothing left of other tests."""
    _cluster.workers()
    for name in ("fifo", "begun"):
        (_cluster.folder / name).unlink(missing_ok=True)
    os.mkfifo(_cluster.folder / "fifo")
    monkeypatch.syspath_prepend(_cluster.folder)
    return _cluster


def scenario_jobs(*names: str, text: str = TEXT, **options: Any) -> list[Job]:
    return [Job(parse(text, Path(name), name=name), RunOptions(**options)) for name in names]


def work() -> Any:
    import dask_work  # type: ignore[import-not-found]

    return dask_work.work


def play(jobs: list[Job], what: Any, executor: DaskExecutor) -> Batch:
    return run_jobs(
        jobs,
        what,
        processes=1,
        on_result=lambda _result: None,
        stops=lambda _result: False,
        executor=executor,
    )


def reached(cluster: Cluster) -> DaskExecutor:
    return DaskExecutor(scheduler_of(cluster.address))


def without_times(results: tuple[ScenarioResult, ...]) -> list[ScenarioResult]:
    return [replace(result, duration_s=0.0) for result in results]


def document(path: Path) -> Any:
    found = json.loads(path.read_text())
    for result in found["results"]:
        del result["duration_s"]
    return found


# --- results ----------------------------------------------------------------------------------


def test_cluster_and_one_process_write_the_same_json_and_the_same_failure_files(
    cluster: Cluster, invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario file of one's own, seen by the caller alone; orders that break it, and a mutant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(IN_ORDER)
    words = ["run", "own.yaml", "waves/stale-first-request", "--schedules", "40", "--seed", "3"]
    words += ["--mutant", "coordinator-rewinds", "--json", "run.json", "--out", "out"]
    found = []
    for name, more in (("here", ()), ("there", ("--executor", cluster.address))):
        result = invoke(*words, *more)
        assert result.exit_code == 1, result.output
        files = {path.name: path.read_text() for path in (tmp_path / "out").glob("*.json")}
        (tmp_path / "out").rename(tmp_path / name)
        found.append((document(tmp_path / "run.json"), files))
    assert found[0] == found[1]
    assert [one["status"] for one in found[1][0]["results"]] == ["violated", "violated"]
    assert len(found[1][1]) == 3  # two failures, and what `--last-failed` reads
    failure = tmp_path / found[1][0]["results"][1]["failure_file"].replace("out/", "there/")
    assert invoke("replay", failure).exit_code == 1
    assert not list(cluster.folder.rglob("wavecheck-out"))


def test_worker_that_dies_in_the_middle_of_a_campaign_loses_nothing(cluster: Cluster) -> None:
    (job,) = scenario_jobs("own", text=HELD, strategy="auto", schedules=250)
    victim = next(iter(cluster.workers().values()))
    executor = reached(cluster)
    collect, came = executor.collect, []

    def collect_and_kill() -> list[Came]:
        found = collect()
        came.extend(found)
        if len(came) >= 3 and psutil.pid_exists(victim):
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        return found

    executor.collect = collect_and_kill  # type: ignore[method-assign]
    batch = play([replace(job, divisible=True)], run_scenario, executor)
    assert without_times(batch.results) == without_times((run_scenario(job.loaded, job.options),))
    assert batch.results[0].schedules == 250
    assert victim not in dict(cluster.client.run(os.getpid)).values()


def test_run_that_dies_with_its_worker_is_played_again_on_the_other(cluster: Cluster) -> None:
    killed: list[int] = []

    def kill_who_has_it() -> None:
        with (cluster.folder / "fifo").open() as pipe:
            helper = psutil.Process(int(pipe.readline()))
            killed.append(helper.ppid())
            os.kill(helper.ppid(), signal.SIGKILL)
            # Its end: the process that played is gone with its worker, without a clean-up.
            killed.append(len(pipe.read()))

    killer = threading.Thread(target=kill_who_has_it)
    killer.start()
    batch = play(scenario_jobs("a-once", "b-held", "c-held"), work(), reached(cluster))
    killer.join(60)
    assert [result.status for result in batch.results] == ["held"] * 3
    assert len(killed) == 2
    assert killed[1] == 0


def test_error_and_crash_of_a_run_are_told_as_here_and_cost_no_worker(cluster: Cluster) -> None:
    before = cluster.workers()
    batch = play(scenario_jobs("a-raise", "b-crash", "c-held"), work(), reached(cluster))
    errors = [result.error or "" for result in batch.results]
    assert errors[0].startswith("RuntimeError: broken (at dask_work.py:")
    assert errors[1].startswith("the run was lost: its process ended with code 7 (worker ")
    assert errors[2] == ""
    assert cluster.workers() == before


def test_time_limit_holds_on_the_cluster(cluster: Cluster) -> None:
    told: list[str] = []

    def read() -> None:
        with (cluster.folder / "fifo").open() as pipe:
            told.extend(pipe.read().split())

    reader = threading.Thread(target=read)
    reader.start()
    batch = play(scenario_jobs("a-hang", timeout_s=0.5), work(), reached(cluster))
    reader.join(60)
    assert [result.error for result in batch.results] == ["stopped after the time limit of 0.5 s"]
    assert told[1:] == ["cleaned"]


def test_interruption_cancels_what_waits_and_lets_what_runs_clean_up(cluster: Cluster) -> None:
    (cluster.folder / "script.py").write_text(SCRIPT.format(text=TEXT))
    names = ["a-hang", "b-hang", *(f"{number}-hang" for number in range(20))]
    caller = subprocess.Popen(
        [sys.executable, str(cluster.folder / "script.py"), cluster.address, *names],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(cluster.folder)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with (cluster.folder / "fifo").open() as pipe:
        assert all(pipe.readline().strip().isdigit() for _ in range(2))
        caller.send_signal(signal.SIGINT)
        # And then its end: nobody is left, and none of the other twenty was begun.
        assert pipe.read() == "cleaned\ncleaned\n"
    out, err = caller.communicate(timeout=60)
    assert (caller.returncode, err) == (0, "")
    assert json.loads(out) == [True, []]
    batch = play(scenario_jobs("c-held"), work(), reached(cluster))
    assert [result.status for result in batch.results] == ["held"]


def test_matrix_plays_its_cells_on_the_cluster(
    cluster: Cluster, invoke: Any, tmp_path: Path
) -> None:
    """Our own client as a server stands for a frontend; no binary is needed."""
    names = [path.stem for path in (ROOT / "scenarios" / "requests").glob("*.yaml")]
    words = ["matrix", f"requests/{min(names)}", "--frontends", "reference", "--json"]
    tables = []
    for name, more in (("here", ("--jobs", "1")), ("there", ("--executor", cluster.address))):
        invoke(*words, tmp_path / f"{name}.json", "--out", tmp_path / name, *more)
        found = json.loads((tmp_path / f"{name}.json").read_text())
        tables.append([(cell["frontend"], cell["status"]) for cell in found["cells"]])
    assert tables[0] == tables[1]
    assert len(tables[0]) == 1


# --- refusals ---------------------------------------------------------------------------------


def test_worker_with_another_wavecheck_is_refused_before_anything_is_played(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors_dask, "tool_identity", lambda: "0.0.0+0123456789abcdef")
    with pytest.raises(
        ClusterError, match=r"has another wavecheck: .* here it is 0\.0\.0\+0123456789ab"
    ):
        reached(cluster)


def test_worker_that_joins_later_with_another_wavecheck_plays_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = reached(cluster)
    monkeypatch.setattr(executors_dask, "tool_identity", lambda: "0.0.0+0123456789abcdef")
    batch = play(scenario_jobs("a-held"), work(), executor)
    (error,) = [result.error or "" for result in batch.results]
    assert "has another wavecheck" in error
    assert "install the same one on all machines" in error


def test_cluster_without_workers_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors_dask, "WORKERS_S", 0.2)
    empty = make(tmp_path)
    try:
        with pytest.raises(ClusterError, match=r"has no worker; start some with `dask worker tcp:"):
            reached(empty)
    finally:
        assert empty.close() == []


@pytest.mark.parametrize(
    "text",
    [
        "dask://",
        "dask://host",
        "tcp://host:1",
        "dask://host:0",
        "dask://host:70000",
        "dask://host:" + "1" * 5_000,
        "dask://a b:1",
    ],
)
def test_address_that_is_none_is_refused(text: str, invoke: Any) -> None:
    with pytest.raises(AddressError, match="expected dask://HOST:PORT"):
        scheduler_of(text)
    result = invoke("run", "waves/stale-first-request", "--executor", text)
    assert result.exit_code == 2
    assert "is no address of a Dask scheduler" in result.stderr


def test_scheduler_that_does_not_answer_ends_the_command_in_time(
    invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors_dask, "CONNECT_S", 0.2)
    for command in (["run"], ["matrix", "--frontends", "reference"]):
        result = invoke(*command, "waves/stale-first-request", "--executor", "dask://127.0.0.1:1")
        assert result.exit_code == 3
        assert "no Dask scheduler answers at tcp://127.0.0.1:1 within 0.2 s" in result.stderr
        assert "start one with `dask scheduler`" in result.stderr


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--jobs", "2"], "--jobs does not go with --executor"),
        (
            ["--target", "vllm-rs", "--attach", "http://127.0.0.1:1", "--as-release", "0.33.0"],
            "--attach does not go with --executor",
        ),
    ],
)
def test_flags_that_do_not_go_with_a_cluster_are_refused(
    more: list[str], why: str, invoke: Any
) -> None:
    result = invoke("run", "--executor", "dask://127.0.0.1:1", *more)
    assert result.exit_code == 2
    assert why in result.stderr


def test_missing_library_is_named_with_the_way_to_install_it(
    invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = invoke("run", "waves/stale-first-request", "--executor", "dask://127.0.0.1:1")
    assert result.exit_code == 2
    assert spreading.INSTALL in result.stderr


def test_frontend_that_a_worker_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    binary = tmp_path / "vllm-rs"
    why = cluster_worker.wrong_file(str(binary), "0" * 64)
    assert why is not None
    assert "cannot be read on the worker" in why
    assert "name a release, which workers fetch themselves" in why
    binary.write_bytes(b"one build")
    why = cluster_worker.wrong_file(str(binary), "0" * 64)
    assert why is not None
    assert "is another file on the worker" in why
    digest = executors_dask.sha256_of(binary)
    assert cluster_worker.wrong_file(str(binary), digest) is None
    with pytest.raises(cluster_worker.RefusedError, match="is another file on the worker"):
        cluster_worker.play("", "", b"", None, (str(binary), "0" * 64))


def test_tasks_of_a_cluster_that_has_lost_all_workers_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "dask_work", raising=False)
    try:
        own.workers()
        executor = reached(own)
        monkeypatch.setattr(executors_dask, "WORKERS_S", 0.2)
        for pid in own.workers().values():
            os.kill(pid, signal.SIGKILL)
        batch = play(scenario_jobs("a-held"), work(), executor)
        assert isinstance(batch.results[0].error, str)
        assert "has had no worker for 0.2 s" in batch.results[0].error
    finally:
        assert own.close() == []


def test_waiting_for_the_cluster_is_told_to_the_clock(monkeypatch):
    told = []

    class Clock:
        def wait_begins(self, seconds):
            told.append(seconds)
            return 0.0

        def wait_ended(self):
            told.append("over")

    monkeypatch.setattr(executors_dask, "CLOCK", Clock())
    executor = object.__new__(executors_dask.DaskExecutor)
    executor._done = queue.SimpleQueue()
    with pytest.raises(queue.Empty):
        executor._next_done()
    executor._done.put(7)
    assert executor._next_done() == 7
    assert told == [executors_dask.LOOK_S, "over"] * 2
