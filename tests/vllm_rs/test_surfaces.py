"""Surfaces of a real binary: what goes out, what comes back, what the fence counts."""

from __future__ import annotations

import pytest

from client.aio import with_deadline
from harness.scenario.model import CallStep, GrpcStep, HttpStep
from harness.targets.vllm_rs.releases import NEWEST
from mock_engines.events import AbortSeen, AddSeen, OutputSent, UtilitySeen

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

WAVE = [{"rules": [{"on": "add", "do": [{"output": {"tokens": [87, 97], "finish": "length"}}]}]}]
SURFACES = ["http", "http-stream", "chat", "chat-stream", "generate", "grpc", "grpc-stream"]


def nothing(*_):
    """Take an output and forget it."""


@pytest.mark.parametrize("release", ["0.24.0", NEWEST])
def test_every_surface_shows_what_its_engine_sent(play, release):
    async def story(lab):
        found = {}
        for surface in [*SURFACES, "generate-stream"]:
            step = CallStep(id=surface, surface=surface)
            result = await with_deadline(lab.frontend.generate(step, nothing), 10)
            found[surface] = (result.finish, result.text, result.status)
        ids = [add.external_id for add in lab.seen(AddSeen)]
        return found, ids, [lab.frontend.external_id(CallStep(id=s, surface=s)) for s in found]

    found, ids, expected = play(release, story, engines=WAVE)
    text = {s: "" if s.startswith("generate") else "Wa" for s in found}
    status = {s: "OK" if s.startswith("grpc") else 200 for s in found}
    assert found == {s: ("length", text[s], status[s]) for s in found}
    assert ids == expected


def test_the_fence_counts_half_sent_and_unread_requests(play):
    async def story(lab):
        body = {"prompt": [1], "max_tokens": 1}
        half = HttpStep(id="h", verb="POST", path="/v1/completions", body=body, send="half")
        task = lab.spawn(lab.frontend.http(half))
        slow = CallStep(id="s", surface="chat-stream", max_tokens=1500, read="later")
        call = lab.spawn(lab.frontend.generate(slow, nothing))
        await lab.until(OutputSent, 1500)
        await with_deadline(lab.fence(), 10)
        load = await lab.frontend.http(HttpStep(id="l", path="/load"))
        lab.gates.open("later")
        result = await with_deadline(call, 10)
        task.cancel()
        await with_deadline(lab.fence(), 10)
        after = await lab.frontend.http(HttpStep(id="l", path="/load"))
        return load.body, result, after.body, lab.seen(AddSeen)

    load, result, after, adds = play(NEWEST, story)
    assert load == {"server_load": 2}
    assert (result.finish, len(result.text)) == ("length", 1500)
    assert after == {"server_load": 0}
    assert len(adds) == 1


def test_a_stop_string_ends_a_call_and_aborts_its_request(play):
    engines = [{"rules": [{"on": "add", "do": {"output": {"tokens": [97, 98, 99]}}}]}]

    async def story(lab):
        step = CallStep(id="a", surface="chat", stop="c")
        result = await with_deadline(lab.frontend.generate(step, nothing), 10)
        await lab.fence()
        return result, lab.seen(AbortSeen)

    result, aborts = play(NEWEST, story, engines=engines)
    assert (result.finish, result.text) == ("stop", "ab")
    assert len(aborts) == 1


def test_grpc_methods_reach_engines_and_have_their_status(play):
    async def story(lab):
        sleep = await lab.frontend.grpc(
            GrpcStep(id="s", method="Control/Sleep", request={"level": 2})
        )
        asleep = await lab.frontend.grpc(GrpcStep(id="a", method="Control/IsSleeping"))
        unknown = await lab.frontend.grpc(GrpcStep(id="u", method="Control/Nothing"))
        check = GrpcStep(id="h", method="grpc.health.v1.Health/Check", request={"service": "x"})
        return sleep, asleep, unknown, await lab.frontend.grpc(check), lab.seen(UtilitySeen)

    sleep, asleep, unknown, check, utilities = play(NEWEST, story)
    assert (sleep.status, asleep.status, asleep.body) == ("OK", "OK", {"sleeping": True})
    assert (unknown.outcome, unknown.status) == ("finished", "UNIMPLEMENTED")
    assert check.status == "NOT_FOUND"
    assert {event.method for event in utilities} == {"sleep", "is_sleeping"}


def test_metrics_are_samples_by_engine_without_the_model_s_name(play):
    async def story(lab):
        step = CallStep(id="a", surface="chat", rank=1)
        await with_deadline(lab.frontend.generate(step, nothing), 10)
        return await lab.frontend.metrics()

    metrics = play(NEWEST, story)
    counted = {name: n for name, n in metrics.samples.items() if "success_total" in name}
    assert counted == {'vllm:request_success_total{engine="1",finished_reason="length"}': 1}


def test_a_lost_frontend_is_a_lost_connection_on_every_surface(play):
    hold = [{"rules": [{"on": "add", "do": {"hang": "rest"}}]}]

    async def story(lab):
        calls = [
            lab.spawn(lab.frontend.generate(CallStep(id=s, surface=s), nothing)) for s in SURFACES
        ]
        calls.append(lab.spawn(lab.frontend.http(HttpStep(id="m", path="/v1/models", read="no"))))
        await lab.until(AddSeen, len(SURFACES))
        await lab.frontend.signal("KILL")
        results = [await with_deadline(call, 10) for call in calls[:-1]]
        calls[-1].cancel()
        return [(result.outcome, result.error) for result in results]

    results = play(NEWEST, story, engines=hold)
    assert results == [("failed", "ConnectionLost")] * len(SURFACES)
