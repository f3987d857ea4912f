"""The fixtures: stories in the simulated loop and over real sockets."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from pathlib import Path

import pytest

from client.errors import ClientClosed, UtilityCallFailed
from client.protocol.messages import EngineCoreRequest
from harness.sim.errors import Deadlock
from mock_engines.cluster import JoinAddresses
from mock_engines.events import AbortSeen, AddSeen

pytest_plugins = ["pytester"]

BOTH = pytest.mark.parametrize("target", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
FAILS_BESIDE_HANGS = [
    {"engine": 0, "rules": [{"on": "utility", "do": {"fail": "no memory"}}]},
    {"engine": 1, "rules": [{"on": "utility", "do": [{"hang": "go"}, {"default": True}]}]},
]


def request(name="chat", tokens=4):
    return EngineCoreRequest(
        request_id=name, prompt_token_ids=(1, 2), sampling_params={"max_tokens": tokens}
    )


def fan_out(cluster_of, client_of, mutant):
    async def story():
        cluster = await cluster_of(2, FAILS_BESIDE_HANGS, mutant=mutant)
        client = await client_of(cluster)
        call = asyncio.ensure_future(client.call_utility("add_lora", [{}], bool))
        await cluster.wait_for("utility", engine=1)
        await cluster.fence()
        early = call.done()
        cluster.gates.open("go")
        with pytest.raises(UtilityCallFailed, match="no memory"):
            await call
        return early, cluster

    return story


@BOTH
@pytest.mark.parametrize(("mutant", "early"), [(None, False), ("fail-fast-fan-out", True)])
def test_story_sees_a_known_bug_and_only_that(
    simulate, wavecheck_cluster, wavecheck_client, target, mutant, early
):
    story = fan_out(wavecheck_cluster, wavecheck_client, mutant)
    seen, cluster = simulate(story, target=target)
    assert seen is early
    assert [r.event.engine for r in cluster.matching("utility", method="add_lora")] in (
        [0, 1],
        [1, 0],
    )


@BOTH
def test_trace_stays_when_the_story_is_over(simulate, wavecheck_cluster, wavecheck_client, target):
    async def story():
        cluster = await wavecheck_cluster(3, coordinator="in-process")
        client = await wavecheck_client(cluster)
        stream = await client.call(request())
        async with stream:
            tokens = [token async for output in stream for token in output.new_token_ids]
        return cluster, tokens

    cluster, tokens = simulate(story, target=target)
    assert len(tokens) == 4
    kinds = {type(record.event) for record in cluster.records}
    assert AddSeen in kinds
    assert AbortSeen not in kinds
    assert [record.seq for record in cluster.records] == list(range(len(cluster.records)))


@BOTH
def test_everything_is_stopped_behind_a_story_that_raises(
    simulate, wavecheck_cluster, wavecheck_client, target
):
    kept = []

    async def story():
        cluster = await wavecheck_cluster(
            2, [{"engine": "all", "rules": [{"on": "add", "do": {"hang": True}}]}]
        )
        client = await wavecheck_client(cluster)
        kept.append((client, await client.call(request())))
        msg = "the story broke"
        raise LookupError(msg)

    threads = threading.active_count()
    with pytest.raises(LookupError, match="the story broke"):
        simulate(story, target=target)
    assert threading.active_count() == threads
    client, _stream = kept[0]
    assert isinstance(client.health_error, ClientClosed)


def test_many_orders_are_tried_and_a_failure_tells_how_to_have_it_again(simulate):
    played = []

    async def story():
        order = []

        async def step(name):
            order.append(name)

        for task in [asyncio.ensure_future(step(name)) for name in "abcd"]:
            await task
        played.append(order)
        assert order != ["d", "c", "b", "a"]

    with pytest.raises(AssertionError) as caught:
        simulate(story, schedules=1000, strategy="random", seed=1)
    assert len(played) > 1
    assert len({"".join(order) for order in played}) > 6
    (note,) = caught.value.__notes__
    assert f"schedule {len(played)} of strategy random, seed 1" in note
    tape = re.search(r"tape='([^']+)'", note)
    assert tape is not None
    bad = played[-1]
    with pytest.raises(AssertionError):
        simulate(story, tape=tape[1])
    assert played[-1] == bad


def test_same_seed_plays_the_same_orders(simulate, wavecheck_cluster, wavecheck_client):
    def traces():
        found = []

        async def story():
            cluster = await wavecheck_cluster(2)
            client = await wavecheck_client(cluster)
            streams = [await client.call(request(name)) for name in "abc"]
            for stream in streams:
                async with stream:
                    _ = [output async for output in stream]
            found.append(cluster.trace.digest)

        simulate(story, schedules=6, strategy="random", seed=9)
        return found

    first = traces()
    assert len({*first}) > 1
    assert traces() == first


def test_story_that_can_never_go_on_is_a_deadlock_with_names(simulate):
    async def story():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="story"):
        simulate(story)


@pytest.mark.zmq
def test_story_that_never_ends_on_sockets_is_a_timeout(simulate, monkeypatch):
    from harness.pytest_plugin import lab

    monkeypatch.setattr(lab, "SOCKETS_LIMIT_S", 0.05)

    async def story():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError, match=r"did not end within 0\.05 s"):
        simulate(story, target="zmq")


def test_skip_in_a_story_is_a_skip(simulate):
    async def story():
        pytest.skip("because")

    with pytest.raises(pytest.skip.Exception, match="because"):
        simulate(story)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"target": "vllm-rs"}, "only 'sim' and 'zmq'"),
        ({"target": "zmq", "schedules": 2}, "nobody can choose the order"),
        ({"schedules": 0}, "at least 1"),
        ({"strategy": "fifi"}, "no strategy is called 'fifi'"),
        ({"strategy": "dfs"}, "for scenarios alone"),
        ({"tape": "0/2", "schedules": 2}, "no schedules or strategy beside it"),
        ({"tape": "nonsense"}, "expected choice/options"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(simulate, arguments, text):
    async def story():
        pytest.fail("must not run")

    with pytest.raises(ValueError, match=re.escape(text)):
        simulate(story, **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"coordinater": "none"}, "coordinater"),
        ({"behaviours": [{"engine": 7, "rules": []}]}, "7"),
        ({"frontends": 2, "transport": "bootstrapped"}, "one frontend"),
        ({"mutant": "nobody"}, "nobody"),
    ],
)
def test_engines_that_make_no_sense_are_refused(simulate, wavecheck_cluster, arguments, text):
    async def story():
        await wavecheck_cluster(**arguments)

    with pytest.raises((ValueError, LookupError), match=text):
        simulate(story)


def test_fixtures_outside_a_story_say_where_they_belong(wavecheck_cluster):
    with pytest.raises(RuntimeError, match="inside the `async def` that `simulate` gets"):
        asyncio.run(wavecheck_cluster())


def test_story_in_a_story_is_refused(simulate):
    async def inner():
        pass

    async def story():
        simulate(inner)

    with pytest.raises(RuntimeError, match="a story is running already"):
        simulate(story)


@pytest.mark.zmq
def test_engines_join_a_frontend_that_is_not_ours(simulate, wavecheck_cluster, wavecheck_client):
    async def story():
        theirs = await wavecheck_cluster(1)
        await wavecheck_client(theirs)
        addresses = theirs.frontend.addresses
        ours = await wavecheck_cluster(
            1, join=JoinAddresses(input=addresses.input, output=addresses.output), start_rank=1,
            transport="bootstrapped",
        )  # fmt: skip
        with pytest.raises(ValueError, match="a frontend of yours"):
            await wavecheck_client(ours)

    simulate(story, target="zmq")


@pytest.mark.zmq
def test_socket_files_are_gone_behind_a_story(simulate, wavecheck_cluster, wavecheck_client):
    found = []

    async def story():
        cluster = await wavecheck_cluster(1)
        await wavecheck_client(cluster)
        found.append(Path(cluster.frontend.addresses.input.removeprefix("ipc://")).parent)
        assert found[0].is_dir()

    simulate(story, target="zmq")
    gc.collect()
    assert not found[0].exists()


def test_examples_of_the_page_pass(pytester, pytestconfig):
    text = (pytestconfig.rootpath / "docs" / "pytest.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    pytester.makepyfile(**{f"test_example_{i}": block for i, block in enumerate(blocks)})
    words = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-q", "-W", "error")
    pytester.runpytest_inprocess(*words).assert_outcomes(passed=3)
