"""``call`` and its streams, over the wire of a simulated run."""

from __future__ import annotations

import asyncio

import pytest

from client import errors
from client.events import (
    AbortFailed,
    ClientClosed,
    OutputDropped,
    RequestRegistered,
    RequestReleased,
)
from client.guards import AdmissionGuard
from client.protocol.messages import EngineCoreOutput, EngineCoreOutputs, FinishReason, Tensor
from harness.faults import LinkFault

STOP = FinishReason.STOP


async def read(stream):
    return [tuple(output.new_token_ids) async for output in stream]


def causes(world):
    return [(each.request_id, each.cause) for each in world.told(RequestReleased)]


def test_call_streams_outputs_in_order_and_ends_after_the_final_one(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        engine = world.engines[0]
        await engine.output("a", 1)
        await engine.output("a", 2, 3)
        await engine.output("a", 4, finish=STOP)
        await engine.output("a", 5)
        assert await read(stream) == [(1,), (2, 3), (4,)]
        assert await read(stream) == []
        await world.settled()
        assert client.in_flight() == ()
        assert engine.aborts() == []
        assert [each.request_id for each in world.told(OutputDropped)] == ["a"]
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert causes(world) == [("a", "finished")]


def test_call_routes_to_the_least_loaded_engine_and_the_explicit_rank(make_world, make_request):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(name)) for name in "abc"]
        streams.append(await client.call(make_request("d", rank=257)))
        await world.settled()
        # Ranks 255, 256, 257 are ordered by identity bytes: 256, 257, 255.
        assert [engine.adds() for engine in world.engines] == [["c"], ["a"], ["b", "d"]]
        with pytest.raises(
            errors.InvalidDataParallelRank, match=r"connected ranks: \[256, 257, 255\]"
        ):
            await client.call(make_request("e", rank=65536 + 256))
        assert client.loads() == ((255, 1), (256, 1), (257, 2))
        await client.shutdown()

    make_world(ranks=(255, 256, 257)).run(story)


def test_call_with_an_id_in_flight_sends_no_second_add(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=1))
        with pytest.raises(errors.DuplicateRequestId, match="is already in flight"):
            await client.call(make_request("a", rank=0))
        await world.settled()
        assert [engine.adds() for engine in world.engines] == [[], ["a"]]
        await world.engines[1].output("a", finish=STOP)
        await read(stream)
        again = await client.call(make_request("a", rank=0))
        await world.settled()
        assert world.engines[0].adds() == ["a"]
        again.close()
        await client.shutdown()

    make_world().run(story)


def test_finished_requests_without_a_final_output_fail_the_reader_once(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        await world.engines[0].finish_only("a")
        with pytest.raises(errors.RequestStreamClosed, match="closed unexpectedly"):
            await read(stream)
        assert await read(stream) == []
        await world.settled()
        assert world.engines[0].aborts() == []
        assert client.is_healthy
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert causes(world) == [("a", "stream-closed")]


@pytest.mark.parametrize("how", ["close", "with", "delete", "cancel"])
def test_leaving_a_stream_aborts_once_at_the_owner(make_world, make_request, how):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=1))
        other = await client.call(make_request("b", rank=0))
        if how == "close":
            stream.close()
            stream.close()
        elif how == "with":
            async with stream:
                pass
        elif how == "cancel":
            reader = world.spawn(read(stream))
            await world.settled()
            reader.cancel()
        del stream
        await world.settled()
        await client.drained()
        assert [engine.aborts() for engine in world.engines] == [[], [("a",)]]
        assert client.in_flight() == ("b",)
        await world.engines[0].output("b", 7, finish=STOP)
        assert await read(other) == [(7,)]
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert causes(world)[0] == ("a", "auto-aborted")


def test_streams_dropped_together_are_grouped_by_engine_since_0_24(make_world, make_request):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(f"{n}", rank=n % 2)) for n in range(4)]
        for stream in streams:
            stream.close()
        await world.settled()
        await client.shutdown()
        return [engine.aborts() for engine in world.engines]

    assert make_world(release="0.24.0").run(story) == [[("0", "2")], [("1", "3")]]
    assert make_world(release="0.23.0").run(story) == [[("0",), ("2",)], [("1",), ("3",)]]


def test_stream_dropped_with_its_final_output_unread_sends_no_abort(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        await world.engines[0].output("a", finish=STOP)
        await world.settled()
        reused = await client.call(make_request("a", rank=1))
        stream.close()  # a late drop of the old request must not hit the new one
        await world.settled()
        assert client.in_flight() == ("a",)
        assert [engine.aborts() for engine in world.engines] == [[], []]
        reused.close()
        await client.shutdown()

    make_world().run(story)


def test_call_cancelled_while_the_send_is_held_leaves_nothing_behind(make_world, make_request):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "add", hold="gate"))
        call = world.spawn(client.call(make_request("a", rank=0)))
        await world.settled()
        assert client.in_flight() == ("a",)
        call.cancel()
        await world.settled()
        assert call.cancelled()
        assert client.in_flight() == ()
        assert client.loads() == ((0, 0), (1, 0))
        world.open("gate")
        world.faults.clear()
        stream = await client.call(make_request("a", rank=0))
        await world.settled()
        # The ABORT of the first one left before the ADD of the second one.
        assert [type(each).__name__ for each in world.engines[0].inbox] == ["Abort", "Add"]
        stream.close()
        await client.shutdown()

    make_world().run(story)


def test_call_cancelled_after_the_add_left_aborts_behind_it(make_world, make_request):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "add", hold_after="gate"))
        call = world.spawn(client.call(make_request("a", rank=0)))
        await world.settled()
        call.cancel()
        await world.settled()
        assert [type(each).__name__ for each in world.engines[0].inbox] == ["Add", "Abort"]
        assert client.in_flight() == ()
        await client.shutdown()

    make_world().run(story)


def test_call_whose_send_fails_rolls_back_without_abort(make_world, make_request):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "add", fail="no route"))
        with pytest.raises(errors.Transport, match="transport error: no route"):
            await client.call(make_request("a", rank=0))
        await world.settled()
        assert client.in_flight() == ()
        assert world.engines[0].inbox == []
        assert client.is_healthy
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert causes(world) == [("a", "rolled-back")]


def test_call_that_cannot_be_encoded_sends_nothing(make_world, make_request):
    async def story(world):
        client = await world.connect()
        with pytest.raises(errors.Encode, match="messagepack encode failed"):
            await client.call(make_request("a", trace_headers={"x": object()}))
        with pytest.raises(errors.UnsupportedField, match="unsupported field `prompt_embeds`"):
            await client.call(make_request("a", prompt_embeds=Tensor("f4", (1,), b"0000")))
        await world.settled()
        assert client.in_flight() == ()
        assert [engine.inbox for engine in world.engines] == [[], []]
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert len(world.told(RequestRegistered)) == 1  # validation comes before registration


def test_request_and_aux_frames_arrive_intact_at_the_explicit_rank(make_world, make_request):
    async def story(world):
        client = await world.connect()
        asked = make_request("a", rank=1, trace_headers={"kv": "x"})
        stream = await client.call(asked, aux=(b"x" * 300, b"y"))
        await world.settled()
        (add,) = world.engines[1].inbox
        assert add.aux == (b"x" * 300, b"y")
        assert add.request == asked
        stream.close()
        await client.shutdown()

    make_world().run(story)


def test_explicit_abort_ends_streams_at_once_and_groups_by_engine(make_world, make_request):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(f"{n}", rank=n % 2)) for n in range(3)]
        await client.abort(["2", "nobody", "0", "0", "1"])
        for stream in streams:
            outputs = [output async for output in stream]
            assert [output.finish_reason for output in outputs] == [FinishReason.ABORT]
        await world.settled()
        assert [engine.aborts() for engine in world.engines] == [[("2", "0")], [("1",)]]
        await client.abort(["0"])
        await world.settled()
        assert len(world.engines[0].aborts()) == 1
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert causes(world) == [("2", "aborted"), ("0", "aborted"), ("1", "aborted")]


@pytest.mark.parametrize("cancelled", [False, True])
def test_explicit_abort_of_an_add_on_the_way_is_sent_behind_it(make_world, make_request, cancelled):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "add", hold_after="gate"))
        call = world.spawn(client.call(make_request("a", rank=0)))
        await world.settled()
        await client.abort(["a"])
        await world.settled()
        assert world.engines[0].aborts() == []
        with pytest.raises(errors.DuplicateRequestId):
            await client.call(make_request("a", rank=1))
        if cancelled:
            call.cancel()
        else:
            world.open("gate")
        await world.settled()
        assert [type(each).__name__ for each in world.engines[0].inbox] == ["Add", "Abort"]
        if not cancelled:
            outputs = [output async for output in call.result()]
            assert [output.finish_reason for output in outputs] == [FinishReason.ABORT]
        world.faults.clear()
        await client.call(make_request("a", rank=1))
        await client.shutdown()

    make_world().run(story)


def test_outputs_of_one_batch_go_to_their_own_streams(make_world, make_request):
    async def story(world):
        client = await world.connect()
        first = await client.call(make_request("a", rank=0))
        second = await client.call(make_request("b", rank=0))
        rows = (
            EngineCoreOutput("b", (9,)),
            EngineCoreOutput("a", (1,), finish_reason=STOP),
            EngineCoreOutput("b", (8,), finish_reason=STOP),
            EngineCoreOutput("b", (7,)),
        )
        await world.engines[0].send(EngineCoreOutputs(0, rows))
        assert await read(first) == [(1,)]
        assert await read(second) == [(9,), (8,)]
        await client.shutdown()

    make_world().run(story)


def test_two_readers_of_one_stream_are_refused(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a"))
        reader = world.spawn(read(stream))
        await world.settled()
        with pytest.raises(RuntimeError, match="read by another task"):
            await read(stream)
        reader.cancel()
        await world.settled()
        await client.shutdown()

    make_world().run(story)


def test_call_cancelled_before_it_began_changes_nothing(make_world, make_request):
    async def story(world):
        client = await world.connect()
        call = world.spawn(client.call(make_request("a")))
        call.cancel()
        await world.settled()
        assert isinstance(call, asyncio.Task)
        assert call.cancelled()
        assert world.told(RequestRegistered) == []
        await client.shutdown()

    make_world().run(story)


def test_abort_of_an_add_that_then_fails_frees_its_id(make_world, make_request):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "add", hold="gate"))
        call = world.spawn(client.call(make_request("a", rank=0)))
        await world.settled()
        await client.abort(["a"])
        world.engines[0].dealer.close()
        await world.settled()
        world.open("gate")
        with pytest.raises(errors.Transport):
            await call
        stream = await client.call(make_request("a", rank=1))
        await world.settled()
        assert world.engines[1].adds() == ["a"]
        stream.close()
        await client.shutdown()

    make_world().run(story)


def test_abort_held_for_one_engine_does_not_hold_up_the_others(make_world, make_request):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "abort", hold="gate"))
        streams = [await client.call(make_request(f"{rank}", rank=rank)) for rank in (0, 1)]
        for stream in streams:
            stream.close()
        draining = world.spawn(client.drained())
        await world.settled()
        assert [engine.aborts() for engine in world.engines] == [[], [("1",)]]
        assert not draining.done()
        world.open("gate")
        await draining
        await world.settled()
        assert [engine.aborts() for engine in world.engines] == [[("0",)], [("1",)]]
        await client.shutdown()

    make_world().run(story)


def test_abort_that_meets_a_failure_on_its_way_sends_nothing(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        aborting = world.spawn(client.abort(["a"]))

        async def fail():
            client._inner.fail(errors.EngineCoreDead())

        world.spawn(fail())  # before the worker takes the abort
        with pytest.raises(errors.EngineCoreDead):
            await aborting
        await world.settled()
        assert world.engines[0].aborts() == []
        stream.close()
        await client.shutdown()

    make_world().run(story)


def test_abort_of_an_engine_that_is_gone_is_told_and_raised(make_world, make_request):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(name, rank=0)) for name in "ab"]
        world.engines[0].dealer.close()
        await world.settled()
        with pytest.raises(errors.Transport):
            await client.abort(["a"])
        streams[1].close()
        await client.drained()
        assert client.in_flight() == ()
        assert client.is_healthy
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert world.told(AbortFailed) == [
        AbortFailed(0, ("a",), "Transport"),
        AbortFailed(0, ("b",), "Transport"),
    ]


def test_shutdown_before_the_worker_ran_ends_an_explicit_abort(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        aborting = world.spawn(client.abort(["a"]))
        closing = world.spawn(client.shutdown())
        with pytest.raises(errors.ClientClosed):
            await aborting
        await closing
        stream.close()

    make_world().run(story)


@pytest.mark.parametrize(
    ("sending", "kind", "expected"),
    [
        (False, asyncio.CancelledError, "roll back"),
        (True, asyncio.CancelledError, "abort"),
        (True, GeneratorExit, "abort"),
        (True, ZeroDivisionError, "abort"),
        (True, errors.Transport, "roll back"),
        (True, errors.EngineCoreDead, "roll back"),
        (False, None, None),
    ],
)
def test_admission_guard_aborts_only_what_may_have_left(sending, kind, expected):
    done = []
    guard = AdmissionGuard(lambda: done.append("roll back"), lambda: done.append("abort"))
    if sending:
        guard.sending()
    guard.__exit__(kind, None, None)
    assert done == ([] if expected is None else [expected])


@pytest.mark.parametrize("fault", ["hold", "hold_after"])
def test_abort_by_the_caller_whose_call_was_cancelled_is_sent_and_frees_the_id(
    make_world, make_request, fault
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(1, "add", **{fault: "gate"}))

        async def user():
            try:
                await client.call(make_request("a", rank=1))
            except asyncio.CancelledError:
                await client.abort(["a"])  # before the worker has looked at the cancelled call
                raise

        task = world.spawn(user())
        await world.settled()
        task.cancel()
        await world.settled()
        assert world.engines[1].aborts() == [("a",)]
        assert client.snapshot().departing == ()
        world.open("gate")
        world.faults.clear()
        again = await client.call(make_request("a", rank=0))
        again.close()
        await client.shutdown()

    make_world().run(story)


def test_stream_that_was_aborted_on_the_way_and_is_closed_unread_sends_one_abort(
    make_world, make_request
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "add", hold_after="gate"))
        call = world.spawn(client.call(make_request("a", rank=0)))
        await world.settled()
        await client.abort(["a"])
        world.open("gate")
        await world.settled()
        call.result().close()
        await world.settled()
        assert world.engines[0].aborts() == [("a",)]
        await client.shutdown()

    make_world().run(story)


@pytest.mark.parametrize("how", ["coroutine closed", "foreign error"])
def test_call_that_ends_in_its_send_by_anything_but_an_error_of_ours_aborts(
    make_world, make_request, how
):
    async def story(world):
        client = await world.connect()
        if how == "coroutine closed":
            world.faults.add(LinkFault(0, "add", hold_after="gate"))
            call = client.call(make_request("a", rank=0))
            call.send(None)
            await world.settled()
            call.close()
        else:
            socket = client._inner._input
            deliver = socket.send

            async def send(frames):
                await deliver(frames)
                socket.send = deliver
                raise ZeroDivisionError

            socket.send = send
            with pytest.raises(ZeroDivisionError):
                await client.call(make_request("a", rank=0))
        await world.settled()
        assert [type(each).__name__ for each in world.engines[0].inbox] == ["Add", "Abort"]
        assert client.in_flight() == client.snapshot().departing == ()
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert causes(world)[0] == ("a", "auto-aborted")


@pytest.mark.parametrize("release", ["0.23.0", "0.33.0"])
def test_stuck_abort_of_one_engine_holds_up_no_other_abort_and_shows(
    make_world, make_request, release
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "abort", hold="gate"))
        names = ("a", 0), ("b", 1), ("c", 1), ("d", 0)
        streams = {name: await client.call(make_request(name, rank)) for name, rank in names}
        streams["a"].close()
        await world.settled()
        streams["b"].close()
        streams["d"].close()
        await world.settled()
        aborting = world.spawn(client.abort(["c"]))
        await world.settled()
        assert aborting.done()
        assert world.engines[1].aborts() == [("b",), ("c",)]
        assert client.in_flight() == ()
        assert client.snapshot().departing == ("a", "d")
        with pytest.raises(errors.DuplicateRequestId):
            await client.call(make_request("a", rank=1))
        again = await client.call(make_request("b", rank=1))
        draining = world.spawn(client.drained())
        await world.settled()
        assert not draining.done()
        world.open("gate")
        await draining
        await world.settled()
        assert world.engines[0].aborts() == [("a",), ("d",)]
        assert client.snapshot().departing == ()
        again.close()
        await client.shutdown()

    make_world(release=release).run(story)


def test_explicit_abort_of_two_engines_frees_the_id_of_the_one_that_was_told(
    make_world, make_request
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(0, "abort", hold="gate"))
        streams = [
            await client.call(make_request(name, rank)) for name, rank in (("a", 0), ("b", 1))
        ]
        aborting = world.spawn(client.abort(["a", "b"]))
        await world.settled()
        assert not aborting.done()
        assert client.snapshot().departing == ("a",)
        await client.shutdown()
        with pytest.raises(errors.ClientClosed):
            await aborting
        for stream in streams:
            stream.close()

    world = make_world()
    world.run(story)
    assert world.told(ClientClosed) == [ClientClosed((), 0)]


@pytest.mark.parametrize("end", ["sentinel", "shutdown"])
@pytest.mark.parametrize("fault", ["hold", "hold_after"])
def test_send_that_is_held_when_the_client_fails_is_given_up(make_world, make_request, end, fault):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("b", rank=0))
        world.faults.add(LinkFault("all", "any", **{fault: "gate"}))
        call = world.spawn(client.call(make_request("a", rank=1)))
        utility = world.spawn(client.is_sleeping())
        aborting = world.spawn(client.abort(["b"]))
        await world.settled()
        sent = [len(engine.inbox) for engine in world.engines]
        if end == "sentinel":
            await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
            wanted = errors.EngineCoreDead
        else:
            await client.shutdown()
            wanted = errors.ClientClosed
        await world.settled()
        for task in (call, utility, aborting):
            with pytest.raises(wanted):
                await task  # at once: the gate is shut
            assert task.cancelling() == 0
        world.open("gate")
        await world.settled()
        assert [len(engine.inbox) for engine in world.engines] == sent
        stream.close()
        await client.shutdown()

    make_world().run(story)


def test_caller_who_leaves_a_send_that_is_given_up_in_the_same_moment_is_cancelled(
    make_world, make_request
):
    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault(1, "add", hold="gate"))
        call = world.spawn(client.call(make_request("a", rank=1)))
        await world.settled()
        call.cancel()
        client._inner.fail(errors.EngineCoreDead())
        await world.settled()
        assert call.cancelled()
        await client.shutdown()

    make_world().run(story)


@pytest.mark.parametrize("queued", [False, True])
def test_fault_in_the_abort_worker_is_no_success_for_who_waits(make_world, make_request, queued):
    async def story(world):
        client = await world.connect()
        streams = [await client.call(make_request(name, rank=0)) for name in "ab"]

        def broken(*_args, **_more):
            raise ZeroDivisionError

        client._inner.abort_grouping.group = broken
        if queued:
            streams[0].close()
        with pytest.raises(errors.DispatcherClosed):
            await client.abort(["b"])
        await world.settled()
        with pytest.raises(errors.DispatcherClosed):
            await client.abort(["a"])
        assert isinstance(client.health_error, errors.DispatcherClosed)
        await client.shutdown()

    make_world().run(story)
