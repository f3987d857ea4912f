"""Real frontends on the workers of a Dask cluster."""

from __future__ import annotations

import dataclasses

import pytest

from harness.cli.executors_dask import DaskExecutor, scheduler_of
from harness.cli.pool import Job, run_jobs
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import builtin_dir, load
from harness.targets.vllm_rs.fetch import available
from harness.targets.vllm_rs.releases import NEWEST
from tests.support.dask_cluster import Cluster

pytest.importorskip("distributed", reason="the extra `dask` is not installed")
pytestmark = [
    pytest.mark.vllm_rs,
    pytest.mark.slow,
    # Its own modules use what newer libraries and Pythons warn of.
    pytest.mark.filterwarnings("ignore"),
]

BROKEN = "0.28.0"
"""Returns from a fan-out at the first failure."""


def test_releases_and_a_binary_of_ones_own_are_judged_on_a_cluster_as_here(tmp_path):
    paths = {release: available(release) for release in (BROKEN, NEWEST)}
    if None in paths.values():
        pytest.skip(f"no binaries of the frontends {BROKEN} and {NEWEST}")
    loaded = load(builtin_dir() / "utility" / "failing-beside-hanging.yaml")
    base = RunOptions(target="vllm-rs", out=tmp_path / "out")
    own = dataclasses.replace(base, frontend=str(paths[BROKEN]), profile=BROKEN)
    jobs = [
        Job(loaded, dataclasses.replace(base, frontend=BROKEN)),
        Job(loaded, dataclasses.replace(base, frontend=NEWEST)),
        Job(loaded, own),
    ]
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.workers()
        batch = run_jobs(
            jobs,
            run_scenario,
            processes=1,
            on_result=lambda _result: None,
            stops=lambda _result: False,
            executor=DaskExecutor(scheduler_of(cluster.address)),
        )
    finally:
        assert cluster.close() == []
    assert [(one.profile, one.status) for one in batch.results] == [
        (BROKEN, "violated"),
        (NEWEST, "held"),
        (BROKEN, "violated"),
    ]
    there = {path.name for path in (tmp_path / "out").iterdir()}
    assert there == {
        (one.failure_file or "").rpartition("/")[2] for one in batch.results if one.failure_file
    }
    assert len(there) == 2


def test_binary_that_is_another_one_on_the_worker_is_judged_by_nobody(tmp_path, monkeypatch):
    path = available(NEWEST)
    if path is None:
        pytest.skip(f"no binary of the frontend {NEWEST}")
    loaded = load(builtin_dir() / "utility" / "failing-beside-hanging.yaml")
    cluster = Cluster(tmp_path)
    try:
        cluster.workers()
        executor = DaskExecutor(scheduler_of(cluster.address))
        monkeypatch.setattr("harness.cli.executors_dask.sha256_of", lambda _path: "0" * 64)
        options = RunOptions(target="vllm-rs", frontend=str(path), profile=NEWEST)
        batch = run_jobs(
            [Job(loaded, options)],
            run_scenario,
            processes=1,
            on_result=lambda _result: None,
            stops=lambda _result: False,
            executor=executor,
        )
    finally:
        assert cluster.close() == []
    assert batch.results[0].status == "error"
    assert f"{path} is another file on the worker" in (batch.results[0].error or "")
