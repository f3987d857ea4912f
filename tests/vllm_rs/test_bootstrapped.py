"""The binary as vLLM's supervisor starts it: sockets given to it, coordinator outside."""

from __future__ import annotations

import mmap
import os

import psutil
import pytest

from client.aio import with_deadline
from client.events import CoordinatorStateApplied
from harness.scenario.model import CallStep
from harness.targets.vllm_rs.fetch import available
from harness.targets.vllm_rs.log_patterns import PATTERNS, patterns_of
from harness.targets.vllm_rs.releases import NEWEST, RELEASES
from harness.targets.vllm_rs.start_error import FrontendStartError
from harness.trace.events import ProcessExited
from mock_engines.behaviours.model import Action
from mock_engines.events import AddSeen

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

BOOTSTRAPPED = {"transport": "bootstrapped"}
EXTERNAL = {**BOOTSTRAPPED, "coordinator": "external"}
SPREAD = ("0.22.0", "0.25.0", "0.29.0", NEWEST)
"""One release of each way in which the options are given, as far as they are there."""


@pytest.mark.parametrize("release", SPREAD)
@pytest.mark.parametrize("topology", [BOOTSTRAPPED, EXTERNAL], ids=["dense", "moe"])
@pytest.mark.parametrize("engines", [1, 8])
def test_every_engine_of_a_bootstrapped_frontend_is_reached(play, release, topology, engines):
    async def story(lab):
        for rank in range(engines):
            step = CallStep(id=f"a{rank}", rank=rank)
            result = await with_deadline(lab.frontend.generate(step, lambda *_: None), 10)
            assert result.outcome == "finished"
        await lab.fence()
        return [add.engine for add in lab.seen(AddSeen)]

    assert play(release, story, engines_count=engines, **topology) == list(range(engines))


def test_ranks_are_global_and_the_size_is_that_of_the_deployment(play):
    async def story(lab):
        result = await lab.frontend.generate(CallStep(id="a", rank=5), lambda *_: None)
        return result, lab.seen(AddSeen)[0].engine, await lab.frontend.server_info()

    result, engine, info = play(
        NEWEST, story, engines_count=2, start_rank=4, data_parallel_size=8, **BOOTSTRAPPED
    )
    assert (result.outcome, engine) == ("finished", 5)
    assert info["data_parallel_size"] == 8


def test_grpc_is_served_on_its_inherited_listener(play):
    async def story(lab):
        step = CallStep(id="a", rank=1, surface="grpc")
        return await lab.frontend.generate(step, lambda *_: None)

    assert play(NEWEST, story, **BOOTSTRAPPED).outcome == "finished"


@pytest.mark.parametrize("release", SPREAD)
def test_a_publish_that_was_taken_over_is_seen_and_stamped(play, release):
    async def story(lab):
        await with_deadline(lab.frontend.coordinator.front_subscribed(), 10)
        await lab.frontend.coordinator.publish(None, 9, running=True)
        await lab.until(CoordinatorStateApplied)
        await lab.frontend.generate(CallStep(id="a"), lambda *_: None)
        return lab.seen(CoordinatorStateApplied), lab.seen(AddSeen)[0].wave

    applied, wave = play(release, story, **EXTERNAL)
    assert applied == [CoordinatorStateApplied(9, running=True)]
    assert wave == 9


def test_a_stranger_ends_the_start_with_the_last_words_and_the_exit_code(play):
    async def story(lab):
        with pytest.raises(FrontendStartError) as caught:
            await lab.start()
        return caught.value, lab.seen(ProcessExited)

    error, exits = play(
        NEWEST,
        story,
        start=False,
        engines=[{"engine": 1, "join": {"identity": "0900"}}],
        **BOOTSTRAPPED,
    )
    assert error.exit_code == 1
    assert exits == [ProcessExited(1)]
    assert "exit code 1" in str(error)
    assert "registration" in str(error)


def test_arguments_of_the_scenario_reach_the_frontend_in_both_modes(play):
    async def story(lab):
        await lab.fence()
        answer = await lab.frontend._callers.http_api.probe("/v1/models")
        return [model["id"] for model in answer.json()["data"]]

    for topology in ({}, BOOTSTRAPPED):
        names = play(NEWEST, story, frontend_args=["--served-model-name", "other"], **topology)
        assert names == ["other"]


@pytest.mark.parametrize("topology", [{}, BOOTSTRAPPED, EXTERNAL])
def test_the_process_is_measured_while_it_lives(play, topology):
    async def story(lab):
        used = await lab.frontend.process_use()
        await lab.frontend.signal("TERM")
        code = await lab.frontend.exit_code()
        return used, code, await lab.frontend.process_use()

    used, code, after = play(NEWEST, story, **topology)
    assert used.rss_bytes > 5 << 20
    assert used.descriptors > 5
    assert used.threads > 1
    assert (code, after) == (0, None)


def test_a_process_that_nobody_told_to_end_has_no_exit_code(play):
    async def story(lab):
        return await lab.frontend.exit_code()

    assert play(NEWEST, story) is None


@pytest.mark.parametrize("topology", [{}, BOOTSTRAPPED, EXTERNAL])
def test_starts_and_stops_leave_nothing_behind(play, topology, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    us = psutil.Process()

    async def story(lab):
        result = await lab.frontend.generate(CallStep(id="a"), lambda *_: None)
        assert result.outcome == "finished"

    play(NEWEST, story, **topology)
    before = us.num_fds()
    for _ in range(5):
        play(NEWEST, story, **topology)
    assert us.num_fds() <= before
    assert us.children(recursive=True) == []
    assert os.listdir(tmp_path) == []


def test_an_engine_s_death_is_told_by_the_log_of_a_bootstrapped_frontend_too(play):
    async def story(lab):
        await lab.cluster.act(0, [Action(die="sentinel")])
        health = await lab.frontend.health()
        while health.healthy:
            health = await lab.frontend.health()
        return health.error

    assert play(NEWEST, story, **BOOTSTRAPPED) == "EngineCoreDead"


@pytest.mark.parametrize("release", RELEASES)
def test_the_binary_holds_the_texts_of_its_table_and_none_of_other_releases(release):
    path = available(release)
    if path is None:
        pytest.skip(f"no binary of the frontend {release}")
    table = set(patterns_of(release))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as binary:
        wrong = [
            pattern.begins
            for pattern in PATTERNS
            if (binary.find(pattern.begins.encode()) >= 0) is not (pattern in table)
        ]
    assert wrong == []
