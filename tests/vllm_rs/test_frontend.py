"""The target's own promises, on a real binary: surfaces, ids, leaving, starting, ending."""

from __future__ import annotations

import os

import pytest

from client.aio import with_deadline
from harness.scenario.model import CallStep, UtilityStep
from harness.targets.base import TargetError
from harness.targets.vllm_rs.releases import NEWEST
from harness.targets.vllm_rs.start_error import FrontendStartError
from harness.trace.events import LogLine, ProcessExited
from mock_engines.behaviours.model import Action
from mock_engines.events import AbortSeen, AddSeen, UtilitySeen

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

HOLD = [{"rules": [{"on": "add", "do": {"stream": {"pause_at": 1, "gate": "rest"}}}]}]


@pytest.mark.parametrize("surface", ["http", "http-stream", "grpc", "grpc-stream"])
def test_every_surface_carries_rank_id_and_tokens(play, surface):
    async def story(lab):
        step = CallStep(id="a", rank=1, surface=surface, prompt=[104, 105])
        tokens = []
        result = await lab.frontend.generate(step, lambda new, *_: tokens.extend(new))
        (add,) = lab.seen(AddSeen)
        return result, tokens, add, lab.frontend.external_id(step)

    result, tokens, add, external_id = play(NEWEST, story)
    assert (result.outcome, result.finish) == ("finished", "length")
    assert len(tokens) == 3
    assert (add.engine, add.external_id, add.prompt) == (1, external_id, (104, 105))


@pytest.mark.parametrize("surface", ["http", "http-stream", "grpc", "grpc-stream"])
def test_a_caller_who_leaves_causes_one_abort_behind_the_fence(play, surface):
    async def story(lab):
        step = CallStep(id="a", surface=surface)
        call = lab.spawn(lab.frontend.generate(step, lambda *_: None))
        await lab.until(AddSeen)
        call.cancel()
        await lab.until(AbortSeen)
        await lab.fence()
        return lab.seen(AbortSeen), lab.seen(AddSeen), lab.seen(LogLine)

    aborts, adds, lines = play(NEWEST, story, engines=HOLD)
    assert [abort.request_ids for abort in aborts] == [(adds[0].request_id,)]
    assert "auto-abort" in {line.pattern for line in lines}


def test_an_engine_s_error_is_an_end_and_not_a_failure_of_the_client(play):
    engines = [{"rules": [{"on": "add", "do": {"stream": {"tokens": 1, "finish": "error"}}}]}]

    async def story(lab):
        return [
            await lab.frontend.generate(CallStep(id=s, surface=s), lambda *_: None)
            for s in ("http", "http-stream")
        ]

    for result in play(NEWEST, story, engines=engines):
        assert (result.outcome, result.finish) == ("finished", "error")


def test_kv_transfer_params_come_back(play):
    engines = [{"rules": [{"on": "add", "do": {"stream": {"kv_transfer_params": {"x": 1}}}}]}]

    async def story(lab):
        step = CallStep(id="a", kv_transfer_params={"y": 2})
        result = await lab.frontend.generate(step, lambda *_: None)
        return result, lab.seen(AddSeen)[0]

    result, add = play(NEWEST, story, engines=engines)
    assert result.kv_transfer_params == {"x": 1}
    assert "'y': 2" in add.extra_args


def test_sizes_are_those_of_the_deployment(play):
    async def story(lab):
        return await lab.frontend.server_info()

    info = play(NEWEST, story)
    assert (info["data_parallel_size"], info["world_size"]) == (2, 2)


def test_health_names_the_fatal_error_and_the_fence_does_not_hang(play):
    async def story(lab):
        before = await lab.frontend.health()
        await lab.cluster.act(0, [Action(die="sentinel")])
        after = before
        while after.healthy:
            after = await lab.frontend.health()
        await lab.fence()
        return before, after

    before, after = play(NEWEST, story)
    assert before.healthy
    assert after.error == "EngineCoreDead"


def test_a_missing_engine_fails_the_start_with_the_client_s_error(play):
    async def story(lab):
        with pytest.raises(FrontendStartError) as caught:
            await lab.start()
        return caught.value, lab.seen(ProcessExited)

    error, exits = play(
        NEWEST,
        story,
        start=False,
        engines=[{"engine": 1, "join": {"never": True}}],
        config={"ready_timeout_s": 1.0},
    )
    assert type(error).__name__ == "HandshakeTimeout"
    assert error.exit_code == 1
    assert exits == [ProcessExited(1)]


def test_a_method_without_a_route_is_refused_and_nothing_is_sent(play):
    async def story(lab):
        with pytest.raises(TargetError, match="no admin route"):
            await lab.frontend.utility(UtilityStep(id="u", method="list_loras"))
        return lab.seen(UtilitySeen)

    assert play(NEWEST, story) == []


def test_shutdown_ends_the_process_in_order_and_stop_releases_the_rest(play):
    async def story(lab):
        pid = lab.life._process.pid
        await with_deadline(lab.frontend.shutdown(0), 10)
        return pid, lab.seen(ProcessExited)

    pid, exits = play(NEWEST, story)
    assert exits == [ProcessExited(0)]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
