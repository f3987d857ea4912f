"""A live server over gRPC: generation, rank metadata, control, health, callers who leave."""

from __future__ import annotations

import sys

import grpc
import pytest

from harness.reference_frontend.grpc_messages import messages
from mock_engines.events import AbortSeen, UtilitySeen

pytestmark = [
    pytest.mark.zmq,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the frontend's process ends with ours"),
]
GENERATE = "/vllm.Inference/Generate"
STREAM = "/vllm.Inference/GenerateStream"
RANK = "x-data-parallel-rank"
HANG = {"rules": [{"on": "add", "do": {"hang": "go"}}]}


def request(lab, **more):
    built = messages()["GenerateRequest"](request_id="g", model=lab.model)
    built.token_ids.ids.extend([97, 98])
    built.stopping.max_new_tokens = 3
    built.response.output_token_ids = True
    built.MergeFrom(messages()["GenerateRequest"](**more))
    return built


async def status(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code().name, caught.value.details()


def test_both_methods_bring_the_engine_s_tokens_and_the_end(serve):
    async def story(lab):
        whole = await lab.rpc(GENERATE, request(lab), answer="GenerateResponse")
        pieces = await lab.rpc(STREAM, request(lab), answer="GenerateResponse", stream=True)
        return whole, pieces, await lab.until_add(2)

    whole, pieces, added = serve(story)
    tokens = list(whole.outputs.token_ids)
    assert whole.prompt_info.num_prompt_tokens == 2
    assert whole.outputs.text == bytes(tokens).decode()
    assert (
        whole.outputs.finish_info.num_output_tokens,
        whole.outputs.finish_info.finish_reason,
    ) == (
        3,
        1,
    )
    assert pieces[0].prompt_info.num_prompt_tokens == 2
    assert [token for each in pieces for token in each.outputs.token_ids] == tokens
    assert pieces[-1].outputs.finish_info.finish_reason == 1
    assert {each.external_id for each in added} == {"g"}


@pytest.mark.parametrize("release", ["0.26.0", "0.28.0"])
def test_service_has_the_name_of_its_release_and_reads_the_rank(serve, release):
    name = "Generate" if release == "0.26.0" else "Inference"

    async def story(lab):
        metadata = ((RANK, " +1 "),)
        await lab.rpc(f"/vllm.{name}/Generate", request(lab), metadata=metadata)
        (added,) = await lab.until_add()
        other = "Inference" if name == "Generate" else "Generate"
        return added.engine, await status(lab.rpc(f"/vllm.{other}/Generate", request(lab)))

    engine, (code, _) = serve(story, release=release)
    assert (engine, code) == (1, "UNIMPLEMENTED")


def test_rank_that_is_no_number_or_not_connected_is_an_invalid_argument(serve):
    async def story(lab):
        word = await status(lab.rpc(GENERATE, request(lab), metadata=((RANK, "one"),)))
        away = await status(lab.rpc(STREAM, request(lab), metadata=((RANK, "7"),), stream=True))
        return word, away

    word, away = serve(story)
    assert word == (
        "INVALID_ARGUMENT",
        "x-data-parallel-rank metadata must be an unsigned 32-bit integer",
    )
    assert away[0] == "INVALID_ARGUMENT"
    assert away[1].endswith("connected ranks: [0, 1]")


def test_requests_that_cannot_be_served_have_their_status(serve):
    engines = [{"rules": [{"on": "add", "do": {"stream": {"tokens": 0, "finish": "error"}}}]}]

    async def story(lab):
        prompt = messages()["GenerateRequest"](request_id="g", model=lab.model)
        return {
            "model": await status(lab.rpc(GENERATE, request(lab, model="nope"))),
            "prompt": await status(lab.rpc(GENERATE, prompt)),
            "stop": await status(lab.rpc(GENERATE, request(lab, stopping={"stop_strings": ["x"]}))),
            "engine": await status(lab.rpc(GENERATE, request(lab))),
        }

    seen = serve(story, engines=engines)
    assert seen["model"] == ("NOT_FOUND", "model `nope` not found")
    assert seen["prompt"] == ("INVALID_ARGUMENT", "prompt is required")
    assert seen["stop"][0] == "UNIMPLEMENTED"
    assert seen["engine"] == ("INTERNAL", "engine failed during generation")


@pytest.mark.parametrize("stream", [False, True])
def test_caller_who_cancels_has_its_request_aborted(serve, stream):
    async def story(lab):
        method = STREAM if stream else GENERATE
        call = lab.spawn(lab.rpc(method, request(lab), stream=stream))
        (added,) = await lab.until_add()
        call.cancel()
        (abort,) = await lab.until(lambda e: isinstance(e, AbortSeen))
        return added, abort

    added, abort = serve(story, engines=[HANG])
    assert (abort.engine, abort.request_ids) == (added.engine, (added.request_id,))


def test_control_calls_the_same_methods_as_the_admin_routes(serve):
    async def story(lab):
        kinds = messages()
        info = await lab.rpc("/vllm.Control/GetServerInfo", answer="ServerInfo")
        await lab.rpc("/vllm.Control/PauseGeneration", kinds["PauseRequest"](mode=2))
        paused = await lab.rpc("/vllm.Control/IsPaused", answer="Flag")
        await lab.rpc("/vllm.Control/ResumeGeneration")
        await lab.rpc("/vllm.Control/UpdateWeightVersion", kinds["WeightVersion"](version="v2"))
        version = await lab.rpc("/vllm.Control/GetWeightVersion", answer="WeightVersion")
        return (
            info,
            paused.value,
            version.version,
            [
                (e.method, e.args)
                for e in lab.events
                if isinstance(e, UtilitySeen) and e.engine == 0
            ],
        )

    info, paused, version, seen = serve(story)
    assert (info.engine_version, info.parallelism.data_parallel_size) == ("0.33.0", 2)
    assert (paused, version) == (True, "v2")
    assert seen[0] == ("pause_generation", "['wait', True]")
    assert [method for method, _ in seen[1:3]] == ["is_scheduler_paused", "resume_scheduler"]


def test_health_follows_the_client_and_tells_its_watchers(serve):
    check, watch = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"

    async def story(lab):
        kinds = messages()
        known = kinds["HealthCheckRequest"](service="vllm.Inference")
        before = await lab.rpc(check, known, answer="HealthCheckResponse")
        unknown = await status(lab.rpc(check, kinds["HealthCheckRequest"](service="zzz")))
        watcher = lab.spawn(lab.rpc(watch, known, answer="HealthCheckResponse", stream=True))
        await lab.cluster.kill(1, "sentinel")
        await lab.until_line("grpc-not-serving")
        after = await lab.rpc(check, known, answer="HealthCheckResponse")
        await lab.life.signal("TERM")
        told = [each.status for each in await watcher]
        return before.status, unknown[0], after.status, told

    before, unknown, after, told = serve(story)
    assert (before, unknown, after) == (1, "NOT_FOUND", 2)
    assert told[-1] == 2
