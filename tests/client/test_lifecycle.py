"""Fail-closed paths, the sticky error, shutdown, and what is left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import weakref

import pytest

from client import errors
from client.aio import turn
from client.components import Components
from client.config import Bootstrapped, ClientConfig
from client.engine_client import EngineClient
from client.events import (
    ClientClosed,
    EngineConnected,
    HealthFailed,
    OutputDropped,
    RequestReleased,
)
from client.protocol.messages import EngineCoreOutputs, FinishReason
from harness.faults import LinkFault

STATS = {
    "num_running_reqs": 0, "num_waiting_reqs": 0, "step_counter": 0, "current_wave": 0,
    "kv_cache_usage": 0.0, "kv_cache_eviction_events": [],
    "prefix_cache_stats": {
        "reset": False, "requests": 0, "queries": 0, "hits": 0, "preempted_requests": 0,
        "preempted_queries": 0, "preempted_hits": 0,
    },
}  # fmt: skip


def stats(running=0, waiting=0):
    return STATS | {"num_running_reqs": running, "num_waiting_reqs": waiting}


async def read(stream):
    return [tuple(output.new_token_ids) async for output in stream]


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([b"ENGINE_CORE_DEAD"], errors.EngineCoreDead),
        ([b"ENGINE_CORE_DEAD", b"x"], errors.EngineCoreDead),
        ([b"\xc1"], errors.Decode),
        ([b""], errors.Decode),
        ("complete", errors.UnexpectedDispatcherOutput),
        ("start", errors.UnexpectedDispatcherOutput),
        ("empty", errors.Decode),
    ],
)
def test_fatal_message_ends_all_work_with_one_sticky_error(make_world, make_request, frames, error):
    async def story(world):
        client = await world.connect()
        engine = world.engines[1]
        stream = await client.call(make_request("a"))
        utility = world.spawn(client.call_utility("m", (), object))
        await world.settled()
        await engine.output("a", 1)
        if frames == "complete":
            await engine.notice(complete=0)
        elif frames == "start":
            await engine.notice(start=0)
        elif frames == "empty":
            await engine.send(EngineCoreOutputs(1))
        else:
            await engine.push.send(frames)
        await world.settled()
        assert isinstance(client.health_error, error)
        assert not client.is_healthy
        with pytest.raises(error) as seen:
            assert await read(stream)
        assert str(seen.value) == str(client.health_error)
        assert await read(stream) == []
        with pytest.raises(error):
            await utility
        first = client.health_error
        await engine.output("nobody", 1)
        await engine.push.send([b"ENGINE_CORE_DEAD"])
        await world.settled()
        assert client.health_error is first
        sent = [len(each.inbox) for each in world.engines]
        with pytest.raises(error):
            await client.call(make_request("b"))
        with pytest.raises(error):
            await client.abort(["a"])
        await client.abort([])
        with pytest.raises(error):
            await client.call_utility("m", (), object)
        await world.settled()
        assert [len(each.inbox) for each in world.engines] == sent
        assert client.pending_utility_calls() == client.in_flight() == ()
        await client.shutdown()
        assert client.health_error is first

    world = make_world()
    world.run(story)
    assert [each.first for each in world.told(HealthFailed)] == [True, False, False]
    assert world.told(OutputDropped) == []  # a closed client acts on nothing


def test_outputs_before_the_fatal_message_are_delivered_first(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        engine = world.engines[0]
        await engine.output("a", 1)
        await engine.output("a", 2)
        await engine.push.send([b"\xc1"])
        seen = [(await anext(stream)).new_token_ids for _ in range(2)]
        assert seen == [(1,), (2,)]
        with pytest.raises(errors.Decode):
            await anext(stream)
        await client.shutdown()

    make_world().run(story)


def test_unclassified_output_is_refused_by_the_path_up_to_0_24(make_world):
    async def story(world):
        client = await world.connect()
        await world.engines[0].send(EngineCoreOutputs(0))
        await world.settled()
        assert isinstance(client.health_error, errors.UnexpectedDispatcherOutput)
        await client.shutdown()

    make_world(release="0.24.0").run(story)


def test_shutdown_with_work_in_flight_leaves_nothing(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        world.faults.add(LinkFault(1, "utility", hold="gate"))
        utility = world.spawn(client.call_utility("m", (), object))
        reader = world.spawn(read(stream))
        await world.settled()
        await client.shutdown()
        await client.shutdown()
        for task in (utility, reader):
            with pytest.raises(errors.ClientClosed, match="client is closed"):
                await task
        with pytest.raises(errors.ClientClosed):
            await client.call(make_request("b"))
        await world.settled()
        assert [engine.aborts() for engine in world.engines] == [[], []]

    world = make_world(release="0.32.0", coordinator="in-process")
    world.run(story)
    assert world.told(ClientClosed) == [ClientClosed((), 0)]
    assert [each.cause for each in world.told(RequestReleased)] == ["client-closed"]


def test_nothing_keeps_the_client_alive_after_its_last_call(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        await world.engines[0].output("a", finish=FinishReason.STOP)
        assert await read(stream) == [()]
        call = world.spawn(client.call_utility("m", (), object))
        await world.settled()
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call  # takes the error, whose traceback holds frames, out of the task
        await world.settled()
        del call
        watch = weakref.ref(client)
        tasks = client._output_tasks
        del client
        assert watch() is None
        await world.settled()
        assert tasks.names() == ()

    make_world(coordinator="in-process", release="0.32.0").run(story)


def test_client_dropped_without_shutdown_ends_those_who_still_read(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        reader = world.spawn(read(stream))
        await world.settled()
        inner = client._inner
        del client
        with pytest.raises(errors.ClientClosed):
            await reader
        stream.close()
        await world.settled()
        assert inner.sockets == []

    make_world().run(story)


def test_rank_that_returns_with_its_identity_is_used_again(make_world, make_request):
    async def story(world):
        client = await world.connect()
        old = world.engines[1]
        old.dealer.close()
        old.push.close()
        await world.settled()
        with pytest.raises(errors.Transport):
            await client.call(make_request("a", rank=1))
        assert client.is_healthy
        assert client.loads() == ((0, 0), (1, 0))
        world.spawn(old.join())
        await world.settled()
        stream = await client.call(make_request("a", rank=1))
        await world.settled()
        assert old.adds() == ["a"]
        await old.output("a", 5, finish=FinishReason.STOP)
        assert await read(stream) == [(5,)]
        await client.shutdown()

    make_world().run(story)


def test_dead_engine_stays_chosen_on_ties(make_world, make_request):
    async def story(world):
        client = await world.connect()
        world.engines[0].dealer.close()
        await world.settled()
        for _ in range(2):
            with pytest.raises(errors.Transport):
                await client.call(make_request("a"))
        await client.shutdown()

    make_world().run(story)


def test_stats_steer_routing_until_replaced_and_foreign_ones_do_not(make_world, make_request):
    async def story(world):
        client = await world.connect()
        engine = world.engines[0]

        async def chosen(name):
            stream = await client.call(make_request(name))
            rank = stream.rank
            stream.close()
            await world.settled()
            return rank

        assert await chosen("a") == 0
        await engine.send(EngineCoreOutputs(0, scheduler_stats=stats(running=1)))
        await world.settled()
        assert await chosen("b") == 1
        for foreign in (65536, 65537, 7):
            await engine.send(EngineCoreOutputs(foreign, scheduler_stats=stats(running=9)))
        await world.settled()
        assert await chosen("c") == 1
        await engine.send(EngineCoreOutputs(0, scheduler_stats=stats()))
        await world.settled()
        assert await chosen("d") == 0
        await client.shutdown()

    make_world().run(story)


def test_aggregates_and_sizes_come_from_ready_responses_and_configuration(make_world):
    async def story(world):
        world.engines[1].ready |= {"max_model_len": 16, "dtype": "float16", "world_size": 9}
        client = await world.connect()
        assert (client.max_model_len(), client.num_gpu_blocks()) == (16, 200)
        assert client.first("dtype") == "bfloat16"
        assert client.dp_stats_address() is None
        assert client.world_size() == 2 * 5
        assert client.world_size(include_dp=False) == 2
        info = client.server_info()
        assert info["data_parallel_size"] == 5  # configured, although engines report 1
        assert info["world_size"] == 10
        assert info["engine_count"] == 2
        assert len(client.ready_responses()) == 2
        assert client.engine_identities() == (b"\x03\x00", b"\x04\x00")
        await client.shutdown()

    world = make_world(ranks=(3, 4))
    world.run(story)
    assert [each.engine for each in world.told(EngineConnected)] == [3, 4]


def test_handing_over_one_bad_engine_index_is_no_fault(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        engine = world.engines[1]
        engine.rank = 9
        await engine.output("a", 1, finish=FinishReason.STOP)
        assert await read(stream) == [(1,)]  # the sender is not checked
        await client.shutdown()

    make_world().run(story)


def test_startup_that_times_out_closes_its_sockets(make_world):
    async def story(world):
        config = ClientConfig(
            world.profile, Bootstrapped(world.input, world.output, 0, 1, 1), ready_timeout_s=1.0
        )
        for _ in range(2):  # the second attempt can bind again
            with pytest.raises(errors.InputRegistrationTimeout, match="after 1s"):
                await EngineClient.connect(config, world.plain)
        connecting = world.spawn(EngineClient.connect(config, world.plain))
        await world.settled()
        connecting.cancel()
        await world.settled()
        assert connecting.cancelled()
        with pytest.raises(errors.InputRegistrationTimeout):
            await EngineClient.connect(config, world.plain)

    make_world().run(story)


def test_fault_of_ours_in_a_task_closes_the_client(make_world):
    async def story(world):
        client = await world.connect()

        def broken(*_):
            raise ZeroDivisionError

        client._inner.routing.apply_stats = broken
        await world.engines[0].send(EngineCoreOutputs(0, scheduler_stats=stats()))
        await world.settled()
        assert isinstance(client.health_error, errors.DispatcherClosed)
        assert "output-loop ended with ZeroDivisionError()" in str(client.health_error)
        await client.shutdown()

    make_world().run(story)


OURS = (
    "output-loop", "abort", "coordinator-commands", "coordinator-notices",
    "coordinator-publishes", "utility",
)  # fmt: skip


@pytest.mark.parametrize("turns", range(1, 9))
@pytest.mark.parametrize(
    ("release", "coordinator"),
    [("0.33.0", "none"), ("0.29.0", "in-process"), ("0.29.0", "external")],
)
def test_cancelled_shutdown_still_closes_everything(
    make_world, make_request, turns, release, coordinator
):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        world.faults.add(LinkFault("all", "utility", hold="gate"))
        utility = world.spawn(client.is_sleeping(), "caller")
        await world.settled()
        closing = world.spawn(client.shutdown(), "closing")
        for _ in range(turns):
            await turn()
        closing.cancel()
        await world.settled()
        assert closing.done()
        with pytest.raises(errors.ClientClosed):
            await utility
        assert client._inner.sockets == []
        assert client._inner.calls == []
        names = [task.get_name() for task in world.loop._live()]
        assert [name for name in names if name.startswith(OURS)] == []
        await client.shutdown()
        stream.close()

    world = make_world(release=release, coordinator=coordinator)
    world.run(story)
    assert world.told(ClientClosed) == [ClientClosed((), 0)]


@pytest.mark.parametrize("coordinator", ["none", "in-process"])
def test_connect_that_fails_behind_the_handshake_closes_its_sockets(make_world, coordinator):
    async def story(world):
        opened = []
        bind = world.faults.bind

        async def noted(*args, **more):
            opened.append(await bind(*args, **more))
            return opened[-1]

        world.faults.bind = noted

        def observer(_event):
            raise ZeroDivisionError

        for engine in world.engines:
            world.spawn(engine.join())
        with pytest.raises(ZeroDivisionError):
            await EngineClient.connect(world.config(), world.faults, observer=observer)
        assert len(opened) >= 2
        for socket in opened:  # the address is free again
            (await world.plain.bind(socket.kind, socket.endpoint)).close()

    make_world(coordinator=coordinator).run(story)


def test_size_that_the_first_engine_does_not_report_is_unknown(make_world):
    async def story(world):
        for engine in world.engines:
            engine.ready.pop("world_size", None)
        client = await world.connect()
        assert client.world_size() is None
        assert client.world_size(include_dp=False) is None
        assert client.server_info()["world_size"] is None
        await client.shutdown()

    make_world(release="0.22.0").run(story)


def test_what_a_client_is_built_from_is_told_to_who_answers_with_its_parts(make_world):
    components = Components()

    async def story(world):
        client = await world.connect()
        assert client.components is components
        await client.shutdown()

    make_world(components=components).run(story)
