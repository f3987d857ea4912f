"""A live server over HTTP: routes, answers, callers who leave, the end."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest

from harness.targets.vllm_rs.start_error import FrontendStartError
from mock_engines.events import AbortSeen, UtilitySeen

pytestmark = [
    pytest.mark.zmq,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the frontend's process ends with ours"),
]
HANG = {"rules": [{"on": "add", "do": {"hang": "go"}}]}


def events_of(text):
    """Data of server-sent events."""
    return [each.removeprefix("data: ") for each in text.split("\n\n") if each]


def test_completion_names_its_caller_and_shows_the_engine_s_tokens(serve):
    async def story(lab):
        plain = await lab.complete({"X-Request-Id": "mine", "X-data-parallel-rank": "1"})
        streamed = await lab.complete({"X-Request-Id": "mine"}, stream=True)
        added = await lab.until_add(2)
        return plain.json(), streamed, added

    plain, streamed, (first, second) = serve(story)
    choice = plain["choices"][0]
    assert (plain["id"], choice["finish_reason"]) == ("cmpl-mine", "length")
    assert choice["prompt_token_ids"] == [97, 98]
    assert choice["text"] == bytes(choice["token_ids"]).decode()
    chunks = events_of(streamed.text)
    assert streamed.headers["content-type"] == "text/event-stream"
    assert chunks[-1] == "[DONE]"
    decoded = [json.loads(each)["choices"][0] for each in chunks[:-1]]
    assert [token for each in decoded for token in each["token_ids"]] == choice["token_ids"]
    assert decoded[-1]["finish_reason"] == "length"
    assert (first.engine, first.data_parallel_rank, first.external_id) == (1, 1, "cmpl-mine")
    assert first.request_id != second.request_id
    assert first.request_id.startswith("cmpl-mine-")


@pytest.mark.parametrize("stream", [False, True])
def test_caller_who_leaves_has_its_request_aborted_at_its_engine(serve, stream):
    async def story(lab):
        call = lab.spawn(lab.complete({"X-data-parallel-rank": "1"}, stream=stream))
        (added,) = await lab.until_add()
        assert (await lab.http.get("/load")).json() == {"server_load": 1}
        call.cancel()
        (abort,) = await lab.until(lambda e: isinstance(e, AbortSeen))
        line = await lab.until_line("auto-abort")
        return added, abort, line, (await lab.http.get("/load")).json()

    added, abort, line, load = serve(story, engines=[HANG])
    assert (abort.engine, abort.request_ids) == (1, (added.request_id,))
    assert dict(line.fields) == {"request_id": added.request_id}
    assert load == {"server_load": 0}


def test_abort_by_external_id_answers_the_caller_at_once(serve):
    async def story(lab):
        call = lab.spawn(lab.complete({"X-Request-Id": "a"}))
        (added,) = await lab.until_add()
        stranger = await lab.http.post("/abort_requests", json={"request_ids": [added.request_id]})
        done = await lab.http.post("/abort_requests", json={"request_ids": ["cmpl-a"]})
        return stranger.status_code, done.status_code, (await call).json()

    stranger, done, answer = serve(story, engines=[HANG])
    assert (stranger, done) == (200, 200)
    assert answer["choices"][0]["finish_reason"] == "abort"


@pytest.mark.parametrize("release", ["0.22.0", "0.24.0", "0.30.0", "0.33.0"])
def test_route_is_there_from_its_release_on(serve, release):
    routes = {
        "0.22.0": ["/health", "/load", "/metrics", "/v1/models", "/is_sleeping"],
        "0.24.0": ["/version", "/server_info", "/get_world_size", "/is_paused"],
        "0.30.0": ["/weight_info"],
    }

    async def story(lab):
        paths = [path for found in routes.values() for path in found]
        return {path: (await lab.http.get(path)).status_code for path in paths}

    seen = serve(story, release=release)
    for since, paths in routes.items():
        wanted = 200 if release >= since else 404
        assert {path: seen[path] for path in paths} == dict.fromkeys(paths, wanted)


def test_unknown_paths_and_wrong_verbs_have_empty_answers(serve):
    async def story(lab):
        return [
            await lab.http.get("/nope"),
            await lab.http.get("/v1/completions"),
            await lab.http.get("/sleep"),
        ]

    nope, completions, sleep = serve(story)
    assert (nope.status_code, nope.content) == (404, b"")
    assert (completions.status_code, completions.headers["allow"]) == (405, "POST")
    assert (sleep.status_code, sleep.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("level", "words"),
    [("x", "invalid digit found in string"), ("9" * 5_000, "number too large to fit")],
)
def test_level_that_is_no_number_is_a_bad_request(serve, level, words):
    async def story(lab):
        return await lab.http.post(f"/sleep?level={level}")

    answer = serve(story)
    assert (answer.status_code, words in answer.text) == (400, True), answer.text


def test_admin_routes_call_their_methods_and_show_the_joined_result(serve):
    async def story(lab):
        post, get = lab.http.post, lab.http.get
        shown = {
            "sleep": (await post("/sleep?level=2&mode=wait")).json(),
            "asleep": (await get("/is_sleeping")).json(),
            "wake_up": (await post("/wake_up?tags=weights&tags=kv_cache")).json(),
            "prefix": (await post("/reset_prefix_cache?reset_external=true")).json(),
            "pause": (await post("/pause?mode=keep&clear_cache=false")).json(),
            "paused": (await get("/is_paused")).json(),
            "resume": (await post("/resume")).json(),
            "rpc": (await post("/collective_rpc", json={"method": "echo", "args": [1]})).json(),
            "version": (await post("/update_weight_version", json={"new_version": "v2"})).json(),
            "weights": (await get("/weight_info")).json(),
        }
        bad = await post("/sleep?mode=bad")
        return shown, bad, [e for e in lab.events if isinstance(e, UtilitySeen) and e.engine == 0]

    shown, bad, seen = serve(story)
    assert shown["sleep"] == {"status": "sleeping", "level": 2}
    assert shown["asleep"] == {"is_sleeping": True}
    assert shown["wake_up"]["tags"] == ["weights", "kv_cache"]
    assert shown["prefix"] == {"success": True}
    assert shown["paused"] == {"is_paused": True}
    assert shown["weights"] == {"weight_version": "v2"}
    assert len(shown["rpc"]["results"]) == 2
    assert bad.status_code == 400
    assert "expected one of: abort, wait, keep" in bad.json()["error"]["message"]
    assert [(e.method, e.args) for e in seen] == [
        ("sleep", "[2, 'wait']"),
        ("is_sleeping", "[]"),
        ("wake_up", "[['weights', 'kv_cache']]"),
        ("reset_prefix_cache", "[False, True]"),
        ("pause_generation", "['keep', False]"),
        ("is_scheduler_paused", "[]"),
        ("resume_scheduler", "[]"),
        ("collective_rpc", "['echo', None, [1], {}]"),
        ("set_weight_version", "['v2']"),
        ("get_weight_version", "[]"),
    ]


def test_adapters_are_loaded_by_name_and_used_by_number(serve):
    engines = [
        {"rules": [{"on": "utility", "method": "add_lora", "nth": 2, "do": {"reply": False}}]}
    ]

    async def story(lab):
        post = lab.http.post
        body = {"lora_name": "sql", "lora_path": str(lab.life.lora_folder)}
        answers = [
            await post("/v1/load_lora_adapter", json=body),
            await post("/v1/load_lora_adapter", json=body),
            await post("/v1/load_lora_adapter", json={**body, "lora_name": "no"}),
            await post("/v1/load_lora_adapter", json={**body, "lora_name": "x", "lora_path": "/"}),
            await lab.complete(model="sql"),
            await lab.complete(model="no"),
            await post("/v1/unload_lora_adapter", json={"lora_name": "sql"}),
            await post("/v1/unload_lora_adapter", json={"lora_name": "sql"}),
        ]
        seen = [e for e in lab.events if isinstance(e, UtilitySeen) and e.engine == 0]
        return [answer.status_code for answer in answers], seen

    statuses, seen = serve(story, engines=engines)
    assert statuses == [200, 400, 500, 400, 200, 404, 200, 404]
    assert [e.method for e in seen] == ["add_lora", "add_lora", "remove_lora"]
    assert seen[0].args.startswith("[['sql', 1,")
    assert seen[1].args.startswith("[['no', 2,")


def below(folder, path):
    """A path with the folder in it, or that folder as seen from where the server runs."""
    return path.format(folder=folder, relative=os.path.relpath(folder))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("organisation/adapter", 200),
        ("\0", 200),
        ("/", 400),
        ("/\0/x", 400),
        ("/nowhere/at/all", 400),
        ("./adapter", 400),
        ("./{relative}", 400),
        ("~/adapter", 400),
        ("a/../../b", 400),
        ("{folder}/../..", 400),
        ("{folder}/circle", 400),
        ("{folder}/out", 400),
    ],
)
def test_adapters_lie_below_a_prefix_or_in_a_hub(serve, path, status):
    async def story(lab):
        folder = Path(lab.life.lora_folder)
        body = {"lora_name": "sql", "lora_path": below(folder, path)}
        link = folder / path.rpartition("/")[2]
        target = {"circle": link, "out": Path("/")}.get(link.name)
        if target is None:
            return await lab.http.post("/v1/load_lora_adapter", json=body)
        # The folder is that of all runs, and stays: a test that was killed may have left its link.
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        try:
            return await lab.http.post("/v1/load_lora_adapter", json=body)
        finally:
            link.unlink()

    assert serve(story).status_code == status


def test_dead_engine_turns_health_and_ends_open_work_with_the_cause(serve):
    async def story(lab):
        open_calls = [lab.spawn(lab.complete(stream=stream)) for stream in (False, True)]
        await lab.until_add(2)
        await lab.cluster.kill(0, "sentinel")
        plain, streamed = [await call for call in open_calls]
        later = await lab.complete()
        health = await lab.http.get("/health")
        return plain, streamed, later, health, await lab.until_line("dispatcher-failed")

    plain, streamed, later, health, line = serve(story, engines=[HANG])
    cause = "engine-core error: engine core reported fatal failure"
    assert plain.status_code == 500
    assert plain.json()["error"]["message"] == f"completion stream failed: {cause}"
    assert json.loads(events_of(streamed.text)[0])["error"]["message"] == cause
    assert later.json()["error"]["message"] == f"failed to submit completion request: {cause}"
    assert (health.status_code, health.content) == (503, b"")
    assert line.level == "WARN"


def test_metrics_count_ends_and_mirror_what_engines_report(serve):
    from prometheus_client.parser import text_string_to_metric_families

    async def story(lab):
        await lab.complete()
        await lab.complete({"X-data-parallel-rank": "1"})
        return (await lab.http.get("/metrics")).text

    samples = {
        (sample.name, sample.labels["engine"], sample.labels.get("finished_reason")): sample.value
        for family in text_string_to_metric_families(serve(story))
        for sample in family.samples
    }
    assert samples["vllm:request_success_total", "0", "length"] == 1
    assert samples["vllm:request_success_total", "1", "length"] == 1
    assert samples["vllm:generation_tokens_total", "0", None] == 3
    assert samples["vllm:num_requests_running", "0", None] >= 0


def test_sigterm_cuts_open_work_without_a_word_to_the_engines(serve):
    async def story(lab):
        call = lab.spawn(lab.complete())
        await lab.until_add()
        code = await lab.terminate()
        with pytest.raises(httpx.TransportError):
            await call
        return code, [e for e in lab.events if isinstance(e, AbortSeen)], lab

    code, aborts, lab = serve(story, engines=[HANG])
    assert (code, aborts) == (0, [])
    order = ["signal", "drain-deadline", "client-closing", "client-closed"]
    assert [e.pattern for e in lab.events if getattr(e, "pattern", "") in order] == order


def test_sigterm_with_a_drain_time_lets_open_work_end(serve):
    async def story(lab):
        call = lab.spawn(lab.complete())
        await lab.until_add()
        await lab.life.signal("TERM")
        await lab.until_line("signal")
        lab.gates.open("go")
        answer = await call
        return answer.status_code, await lab.life.exit_code()

    engines = [{"rules": [{"on": "add", "do": [{"hang": "go"}, {"default": True}]}]}]
    assert serve(story, engines=engines, shutdown_timeout_s=30.0) == (200, 0)


def test_signal_before_the_engines_came_ends_with_zero(serve):
    async def story(lab):
        await lab.prepare()
        started = lab.spawn(lab.life.start(None))
        await lab.until(lambda e: "waiting for engines" in getattr(e, "text", ""))
        started.cancel()
        await lab.life.signal("INT")
        return await lab.life.exit_code()

    assert serve(story, start=False) == 0
    assert signal.SIGINT  # the name that was sent


def test_port_in_use_ends_the_start_with_one_and_says_so(serve):
    async def story(lab):
        await lab.prepare()
        import socket

        port = int(lab.life.http.rpartition(":")[2])
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", port))
            holder.listen()
            lab.cluster.start()
            from harness.targets.base import TargetError
            from harness.targets.vllm_rs.http_api import HttpApi

            closed = HttpApi("http://127.0.0.1:1", "m")
            with pytest.raises(TargetError, match="in use"):
                await lab.life.start(closed)
        return lab.life.ended

    assert serve(story, start=False) == 1


def test_engine_that_never_comes_ends_the_start_with_its_stage(serve):
    async def story(lab):
        await lab.prepare()
        from harness.targets.vllm_rs.http_api import HttpApi

        probe = HttpApi(lab.life.http, lab.life.model)
        with pytest.raises(FrontendStartError) as caught:
            await lab.life.start(probe)
        return caught.value

    error = serve(story, start=False, config={"ready_timeout_s": 1.0})
    assert (type(error).__name__, error.exit_code) == ("HandshakeTimeout", 1)
