"""A client that ends at any moment of what it does: who waits hears why, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from client import errors
from client.aio import next_entry, turn
from client.components import Components
from client.coordinator import FirstRequest
from client.events import (
    AbortFailed,
    ClientClosed,
    FirstRequestHandled,
    HealthFailed,
    RequestReleased,
)
from client.protocol.messages import FirstRequestNotice
from client.sends import SendGivenUp, Sends
from client.utility import FanOut, UtilityRegistry
from harness.faults import LinkFault

TURNS = pytest.mark.parametrize("turns", range(16))
SETTINGS = pytest.mark.parametrize(
    ("release", "coordinator"),
    [("0.33.0", "none"), ("0.32.0", "in-process"), ("0.32.0", "external")],
)


async def go_on(turns):
    for _ in range(turns):
        await next_entry()


async def finish(world, client):
    """Shut down, and look that nothing is left."""
    await client.shutdown()
    await world.settled()
    assert client.in_flight() == client.pending_utility_calls() == ()
    assert client._inner.calls == client._inner.sockets == []
    if world.coordinator == "external":
        await world.process.stop()
    assert world.told(ClientClosed) == [ClientClosed((), 0)]


@TURNS
@SETTINGS
@pytest.mark.parametrize("what", ["call", "utility", "abort"])
def test_failure_at_any_moment_reaches_who_waits(
    make_world, make_request, turns, release, coordinator, what
):
    async def story(world):
        client = await world.connect()
        other = await client.call(make_request("other", rank=1))
        begun = {
            "call": lambda: client.call(make_request("a", rank=0)),
            "utility": client.is_sleeping,
            "abort": lambda: client.abort(["other"]),
        }
        work = world.spawn(begun[what]())
        await go_on(turns)
        client._inner.fail(errors.EngineCoreDead())
        await world.settled()
        assert work.done()
        if work.exception() is not None:
            with pytest.raises(errors.EngineCoreDead):
                await work
        elif what == "call":  # its ADD had left
            with pytest.raises(errors.EngineCoreDead):
                await anext(await work)
        else:
            assert what == "abort"  # nobody has answered a utility call
            assert world.engines[1].aborts() == [("other",)]
        other.close()
        await finish(world, client)

    world = make_world(release=release, coordinator=coordinator)
    world.run(story)
    causes = {each.cause for each in world.told(RequestReleased)}
    assert causes <= {"client-closed", "aborted", "rolled-back", "send-failed"}, causes


@TURNS
def test_caller_who_leaves_at_any_moment_of_a_shutdown_waits_for_nothing(
    make_world, make_request, turns
):
    async def story(world):
        client = await world.connect()
        utility = world.spawn(client.is_sleeping())
        call = world.spawn(client.call(make_request("a")))
        await go_on(turns)
        utility.cancel()
        call.cancel()
        closing = world.spawn(client.shutdown())
        await world.settled()
        assert utility.done()
        assert call.done()
        with contextlib.suppress(asyncio.CancelledError, errors.ClientClosed):
            await utility
        with contextlib.suppress(asyncio.CancelledError, errors.ClientClosed):
            (await call).close()
        await closing
        await finish(world, client)

    make_world().run(story)


@SETTINGS
def test_transport_that_breaks_under_the_client_fails_it(
    make_world, make_request, release, coordinator
):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        await world.settled()
        for socket in client._inner.sockets:
            socket.close()
        await world.settled()
        assert isinstance(client.health_error, errors.Transport)
        with pytest.raises(errors.Transport):
            await anext(stream)
        await finish(world, client)

    world = make_world(release=release, coordinator=coordinator)
    world.run(story)
    # Each loop that receives says so: that of the outputs, and that of the coordinator.
    failures = [each.error for each in world.told(HealthFailed) if each.error != "ClientClosed"]
    assert failures == ["Transport"] * (1 if coordinator == "none" else 2)


@pytest.mark.parametrize("coordinator", ["in-process", "external"])
def test_coordinator_that_cannot_be_told_of_a_first_request_fails_the_client(
    make_world, make_request, coordinator
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault("coordinator", fail="the line is cut"))
        stream = await client.call(make_request("a"))
        await world.settled()
        assert isinstance(client.health_error, errors.Transport)
        with pytest.raises(errors.Transport, match="the line is cut"):
            await anext(stream)
        await finish(world, client)

    make_world(release="0.32.0", coordinator=coordinator).run(story)


@pytest.mark.parametrize("coordinator", ["in-process", "external"])
def test_first_request_that_waits_behind_a_send_is_not_told_once_the_client_failed(
    make_world, coordinator
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault("coordinator", hold="gate"))
        runner = client._coordinator
        engine = client.engine_identities()[0]
        runner.first_request(engine)
        await world.faults.held_at("gate")
        if coordinator == "external":  # as for a request of the next wave
            runner._commands.put(FirstRequestNotice(0, 1))
        else:
            runner._commands.put((FirstRequest(0, 1), engine))
        await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
        await world.settled()
        world.open("gate")
        await world.settled()
        assert len(runner._commands) == 0
        assert [engine.waves for engine in world.engines] == [[], []]
        assert len(world.told(FirstRequestHandled)) == (coordinator == "in-process")
        await finish(world, client)

    make_world(release="0.32.0", coordinator=coordinator).run(story)


# --- aborts ---------------------------------------------------------------------------------


def test_aborts_that_wait_behind_a_held_one_are_given_up_with_it(make_world, make_request):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(name, rank=0)) for name in "ab"]
        world.faults.add(LinkFault(0, "abort", hold="gate"))
        first = world.spawn(client.abort(["a"]))
        second = world.spawn(client.abort(["b"]))
        await world.settled()
        await world.engines[1].push.send([b"ENGINE_CORE_DEAD"])
        await world.settled()
        for aborting in (first, second):
            with pytest.raises(errors.EngineCoreDead):
                await aborting
        world.open("gate")
        await world.settled()
        assert world.engines[0].aborts() == []
        for stream in streams:
            stream.close()
        await finish(world, client)

    world = make_world()
    world.run(story)
    # Of the one that was under way it is told that it failed; the other one was never sent.
    assert [each.request_ids for each in world.told(AbortFailed)] == [("a",)]


def test_fault_in_the_abort_worker_gives_up_what_is_held_for_other_engines(
    make_world, make_request
):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(name, rank=0)) for name in "ab"]
        world.faults.add(LinkFault(0, "abort", hold="gate"))
        held = world.spawn(client.abort(["a"]))
        await world.faults.held_at("gate")

        def broken(*_args, **_more):
            raise ZeroDivisionError

        client._inner.abort_grouping.group = broken
        with pytest.raises(errors.DispatcherClosed):
            await client.abort(["b"])
        with pytest.raises(errors.DispatcherClosed):
            await held
        await world.settled()
        world.open("gate")
        await world.settled()
        assert world.engines[0].aborts() == []
        assert client.snapshot().departing == ()
        for stream in streams:
            stream.close()
        await finish(world, client)

    make_world().run(story)


def test_abort_between_the_end_of_the_worker_and_that_of_the_client_is_refused(
    make_world, make_request
):
    async def story(world):
        client = await world.connect()
        worker = client._abort_worker
        kept = [await client.call(make_request(name, rank=0)) for name in "abc"]
        a, b, c = (client._inner.requests.get(name) for name in "abc")
        for request in (a, b):
            client._inner.release(request, "aborted", departing=True)
        worker.follow_up(a)  # waits in the queue, and nobody waits for it
        worker.close()
        assert client.snapshot().departing == ("b",)
        worker.follow_up(b)
        assert client.snapshot().departing == ()
        worker.drop(c)  # its reader left: there is nobody to tell
        (error,) = await worker.send([c])
        assert isinstance(error, errors.DispatcherClosed)
        await world.settled()
        assert world.engines[0].aborts() == []
        for stream in kept:
            stream.close()
        await finish(world, client)

    make_world().run(story)


# --- utility calls --------------------------------------------------------------------------


def test_fault_of_ours_in_one_part_of_a_call_reaches_its_caller(make_world):
    class Broken(FanOut):
        def record(self, position, outcome):
            raise ZeroDivisionError

    async def story(world):
        client = await world.connect()
        call = world.spawn(client.is_sleeping())
        await world.settled()
        await world.engines[0].reply(world.engines[0].utilities()[0].call_id, False)
        with pytest.raises(ZeroDivisionError):
            await call
        assert client.is_healthy
        await finish(world, client)

    make_world(components=Components(fan_out=Broken)).run(story)


@pytest.mark.parametrize("seed", range(24))
def test_call_whose_parts_may_not_have_begun_ends_with_the_client(make_world, seed):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.is_sleeping())
        while len(client.pending_utility_calls()) < 2:
            await next_entry()
        await client.shutdown()
        with pytest.raises(errors.ClientClosed):
            await call
        await finish(world, client)

    make_world(strategy="random", seed=seed).run(story)


def test_waiter_that_a_registry_left_behind_is_no_hindrance_to_the_end(make_world):
    class Leaking(UtilityRegistry):
        def release(self, call_id):
            return False

    async def story(world):
        client = await world.connect()
        call = world.spawn(client.is_sleeping())
        await world.settled()
        call.cancel()
        await world.settled()
        assert len(client.pending_utility_calls()) == 2
        other = world.spawn(client.is_sleeping())
        await world.settled()
        await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
        with pytest.raises(errors.EngineCoreDead):
            await other
        await finish(world, client)

    make_world(components=Components(utilities=Leaking)).run(story)


# --- what is sent ---------------------------------------------------------------------------


def test_send_that_is_given_up_twice_is_cancelled_once(make_world):
    async def story(world):
        sends, gate = Sends(), world.gate("gate")

        async def send():
            with pytest.raises(SendGivenUp):
                await sends.carry(gate)
            return asyncio.current_task().cancelling()

        sending = world.spawn(send())
        await turn()
        sends.give_up()
        sends.give_up()
        assert await sending == 0

    make_world().run(story)
