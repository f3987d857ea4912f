"""Waves over the wire: in-process and external coordinator, both semantics."""

from __future__ import annotations

import pytest

from client import errors
from client.components import Components
from client.coordinator_process import ExternalCoordinator
from client.events import (
    CoordinatorPublished,
    CoordinatorStateApplied,
    FirstRequestHandled,
    FirstRequestQueued,
    WaveNoticeHandled,
)
from client.external_coordinator import ExternalCoordinatorState
from client.protocol.messages import Add, EngineCoreOutput, EngineCoreOutputs, UtilityOutput
from client.protocol.transport import SocketKind, TransportError
from harness.faults import LinkFault
from harness.sim.errors import CallbackFailed


def waves(world, at=0):
    return [(each.wave, each.exclude_engine_index) for each in world.engines[at].waves]


def stamps(world, at):
    adds = [each for each in world.engines[at].inbox if isinstance(each, Add)]
    return [each.request.current_wave for each in adds]


async def cold_calls(client, request, *ranks):
    return [await client.call(request(f"{rank}", rank=rank)) for rank in ranks]


def test_first_request_wakes_the_others_once_up_to_0_32(make_world, make_request):
    async def story(world):
        client = await world.connect()
        assert (client.snapshot().current_wave, client.snapshot().engines_running) == (0, False)
        streams = await cold_calls(client, make_request, 1, 0)
        await world.settled()
        assert waves(world) == waves(world, 1) == [(0, 1)]
        assert client.snapshot().engines_running
        await world.engines[0].notice(complete=0)
        await world.settled()
        assert (client.snapshot().current_wave, client.snapshot().engines_running) == (1, False)
        streams.append(await client.call(make_request("late", rank=0)))
        await world.settled()
        assert waves(world) == [(0, 1), (1, 0)]
        assert stamps(world, 0) == [0, 1]
        for stream in streams:
            stream.close()
        await client.shutdown()

    world = make_world(release="0.32.0", coordinator="in-process")
    world.run(story)
    assert world.told(FirstRequestQueued) == [FirstRequestQueued(1, 0), FirstRequestQueued(0, 1)]


def test_frontend_never_starts_waves_in_0_33(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=1))
        await world.settled()
        assert waves(world) == []
        await world.engines[1].notice(start=0)
        await world.settled()
        await world.engines[1].notice(start=0)
        await world.settled()
        assert waves(world) == waves(world, 1) == [(0, 1)]
        stream.close()
        await client.shutdown()

    world = make_world(coordinator="in-process")
    world.run(story)
    assert [each.broadcast for each in world.told(WaveNoticeHandled)] == [True, False]


def test_first_request_overtaken_by_wave_complete_starts_the_current_wave_for_all(
    make_world, make_request
):
    """The first broadcast is held, so the second command waits while waves complete."""

    async def story(world):
        client = await world.connect()
        world.faults.add(LinkFault("coordinator", hold="gate"))
        streams = await cold_calls(client, make_request, 0)
        await world.settled()
        await world.engines[0].notice(complete=0)
        await world.settled()
        streams += await cold_calls(client, make_request, 1)
        await world.engines[0].notice(complete=1)
        await world.settled()
        assert client.snapshot().current_wave == 2
        world.open("gate")
        world.faults.clear()
        await world.settled()
        assert waves(world) == [(0, 0), (2, None)]
        assert client.snapshot().engines_running
        for stream in streams:
            stream.close()
        await client.shutdown()

    world = make_world(release="0.32.0", coordinator="in-process")
    world.run(story)
    assert world.told(FirstRequestHandled)[-1] == FirstRequestHandled(
        engine=1, request_wave=1, wave_before=2, running_before=False, wave_after=2,
        running_after=True, broadcast_wave=2, exclude=None,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(25))
def test_broadcast_waves_never_go_back_whatever_the_schedule(make_world, make_request, seed):
    async def story(world):
        client = await world.connect()
        for wave in range(6):
            task = world.spawn(client.call(make_request(f"{wave}", rank=wave % 2)))
            await world.engines[wave % 2].notice(complete=wave)
            if wave % 2:
                await world.engines[0].notice(start=wave + 1)
            (await task).close()
        await world.settled()
        seen = [wave for wave, _ in waves(world)]
        assert seen == sorted(seen)
        await client.shutdown()

    world = make_world(release="0.32.0", coordinator="in-process", strategy="random", seed=seed)
    world.run(story)


@pytest.mark.parametrize("what", ["outputs", "finished", "utility", "dead", "garbage", "empty"])
def test_anything_but_notices_and_stats_is_fatal_on_the_coordinator_path(make_world, what):
    async def story(world):
        client = await world.connect()
        engine = world.engines[0]
        sent = {
            "outputs": EngineCoreOutputs(0, (EngineCoreOutput("a", (1,)),)),
            "finished": EngineCoreOutputs(0, finished_requests=("a",)),
            "utility": EngineCoreOutputs(0, utility_output=UtilityOutput(1)),
        }
        if what in sent:
            await engine.coordinator_push.send(world.codec.encode_outputs(sent[what]))
        else:
            raw = {"dead": b"ENGINE_CORE_DEAD", "garbage": b"\xc1", "empty": b""}[what]
            await engine.coordinator_push.send([raw])
        await world.settled()
        expected = {
            "dead": errors.EngineCoreDead,
            "garbage": errors.Decode,
            "empty": errors.Decode,
        }.get(what, errors.UnexpectedCoordinatorOutput)
        assert type(client.health_error) is expected
        await engine.notice(start=5)
        await world.settled()
        assert waves(world) == []  # a closed client sends nothing more
        assert world.told(WaveNoticeHandled) == []
        assert client.snapshot().current_wave == 0
        await client.shutdown()

    make_world(coordinator="in-process").run(story)


def test_engine_whose_identity_is_no_rank_cannot_be_named_in_a_wake_up(make_world, make_request):
    async def story(world):
        world.engines[1].identity = b"\x01\x00\x00"
        client = await world.connect()
        assert client.engine_indices() == (0, -2)
        stream = await client.call(make_request("a", rank=0))
        await world.settled()
        await world.engines[0].notice(complete=0)
        await world.settled()
        other = await client.call(make_request("b"))  # rank 0 is busy
        await world.settled()
        assert isinstance(client.health_error, errors.UnsupportedCoordinatorEngineId)
        assert "two-byte engine id, got 0x010000" in str(client.health_error)
        del stream, other
        await client.shutdown()

    make_world(release="0.24.0", coordinator="in-process").run(story)


@pytest.mark.parametrize("coordinator", ["in-process", "external"])
def test_call_finds_the_coordinators_task_gone(make_world, make_request, coordinator):
    async def story(world):
        client = await world.connect()
        client._coordinator._commands.close()
        with pytest.raises(errors.ControlClosed, match="control channel closed"):
            await client.call(make_request("a"))
        await world.settled()
        assert client.in_flight() == ()
        assert [engine.adds() for engine in world.engines] == [[], []]
        await client.shutdown()
        if coordinator == "external":
            await world.process.stop()

    make_world(release="0.32.0", coordinator=coordinator).run(story)


class SlowPublisher:
    """Only the first message has to wait; what came second would overtake it."""

    def __init__(self, gate):
        self.gate, self.left, self.codec = gate, [], None

    async def send(self, frames):
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate
        self.left.append(self.codec.decode_engine_input(frames).wave)


@pytest.mark.parametrize("fails", [False, True])
def test_broadcasts_leave_in_the_order_of_the_decisions_and_none_after_a_failure(
    make_world, make_request, fails
):
    async def story(world):
        client = await world.connect()
        runner = client._coordinator
        runner._publisher = publisher = SlowPublisher(world.gate("gate"))
        publisher.codec = world.codec
        stream = await client.call(make_request("a", rank=0))
        await world.settled()
        await world.engines[0].notice(complete=0)
        await world.engines[0].notice(start=1)
        await world.settled()
        assert client.snapshot().current_wave == 1
        if fails:
            await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
            await world.settled()
        world.open("gate")
        await world.settled()
        assert publisher.left == ([] if fails else [0, 1])  # also what was held is given up
        stream.close()
        await client.shutdown()

    make_world(release="0.32.0", coordinator="in-process").run(story)


# --- external -------------------------------------------------------------------------------


def test_external_coordinator_is_told_of_a_first_request_up_to_0_32(make_world, make_request):
    async def story(world):
        client = await world.connect()
        streams = await cold_calls(client, make_request, 1, 0)
        await world.settled()
        assert waves(world) == [(0, 1)]
        assert client.snapshot().engines_running
        for stream in streams:
            stream.close()
        await client.shutdown()
        await world.process.stop()

    world = make_world(release="0.28.0", coordinator="external")
    world.run(story)
    assert world.told(FirstRequestQueued) == [FirstRequestQueued(1, 0)]
    assert world.told(CoordinatorPublished) == [CoordinatorPublished(None, 0, True)]
    assert world.told(CoordinatorStateApplied) == [CoordinatorStateApplied(0, True)]


def test_external_coordinator_does_not_mark_running_by_itself_since_0_29(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        await world.settled()
        assert waves(world, 1) == [(0, 0)]
        assert not world.process.snapshot().engines_running
        await world.engines[0].notice(start=0)
        await world.settled()
        assert world.process.snapshot().engines_running
        stream.close()
        await client.shutdown()
        await world.process.stop()

    world = make_world(release="0.32.0", coordinator="external")
    world.run(story)
    assert world.told(CoordinatorPublished) == [CoordinatorPublished(None, 0, True)]


def test_client_of_0_33_sends_nothing_to_an_external_coordinator(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=0))
        await world.settled()
        assert waves(world) == []
        stream.close()
        await client.shutdown()
        await world.process.stop()

    world = make_world(coordinator="external")
    world.run(story)
    assert world.told(FirstRequestHandled) == []


def test_newer_first_request_starts_the_coordinators_own_wave(make_world, make_request):
    """Coordinator at wave 4, a publish made the frontend believe 5: (4, target)."""

    async def story(world):
        client = await world.connect()
        await world.engines[0].notice(complete=3)
        await world.settled()
        await world.process.publish(None, 5, False)
        await world.settled()
        assert client.snapshot().current_wave == 5
        stream = await client.call(make_request("a", rank=1))
        await world.settled()
        assert waves(world) == [(4, 1)]
        stream.close()
        await client.shutdown()
        await world.process.stop()

    world = make_world(release="0.28.0", coordinator="external")
    world.run(story)
    (handled,) = world.told(FirstRequestHandled)
    assert (handled.request_wave, handled.wave_before, handled.wave_after) == (5, 4, 4)


def test_publish_replaces_the_pair_even_backwards(make_world):
    async def story(world):
        client = await world.connect()
        await world.process.publish([[0, 0]], 5, True)
        await world.settled()
        await world.process.publish(None, 3, False)
        await world.settled()
        assert (client.snapshot().current_wave, client.snapshot().engines_running) == (3, False)
        await client.shutdown()
        await world.process.stop()

    make_world(coordinator="external").run(story)


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([b"\xc1"], errors.Decode),
        ([b"\x92\x00\xc2"], errors.Decode),
        ([b"\x93\xc0\x00\xc2", b""], errors.UnexpectedCoordinatorOutput),
    ],
)
def test_malformed_publish_is_fatal(make_world, frames, error):
    async def story(world):
        client = await world.connect()
        await world.process.publish_raw(frames)
        await world.settled()
        assert type(client.health_error) is error
        await client.shutdown()
        await world.process.stop()

    make_world(coordinator="external").run(story)


def test_process_publishes_every_five_seconds_when_nothing_changes(make_world):
    async def story(world):
        client = await world.connect()
        await world.until(lambda: len(world.told(CoordinatorPublished)) == 2)
        assert world.loop.time() == 10.0
        await client.shutdown()
        await world.process.stop()

    world = make_world(coordinator="external")
    world.run(story)
    assert world.told(CoordinatorPublished)[0].counts == ((0, 0, 0), (0, 0, 0))


def test_process_answers_every_late_subscriber_and_restarts_anew(make_world, make_request):
    async def story(world):
        client = await world.connect()
        await world.engines[0].notice(complete=7)
        await world.settled()
        assert world.process.snapshot().current_wave == 8
        world.engines[0].gate = False
        await world.engines[0].subscriber.send([b"\x01"])
        await world.until(lambda: world.engines[0].gate)
        with pytest.raises(RuntimeError, match="started already"):
            await world.process.start()
        await world.process.stop()
        assert not world.process.running
        with pytest.raises(RuntimeError, match="stopped"):
            await world.process.publish(None, 0, False)
        stream = await client.call(make_request("a", rank=0))
        await world.settled()
        assert stamps(world, 0) == [8]  # the last state is used while it is gone
        await world.process.start()
        await world.settled()
        assert world.process.snapshot().current_wave == 0
        await world.engines[0].notice(start=2)
        await world.until(lambda: client.snapshot().current_wave == 2)
        stream.close()
        await client.shutdown()
        await world.process.stop()

    make_world(coordinator="external").run(story)


def test_process_dies_when_an_engine_sends_it_outputs(make_world):
    async def story(world):
        client = await world.connect()
        await world.engines[0].coordinator_push.send(
            world.codec.encode_outputs(EngineCoreOutputs(0, (EngineCoreOutput("a", (1,)),)))
        )
        await world.settled()
        assert not world.process.running
        assert "sent outputs to the coordinator" in world.process.died
        assert client.is_healthy
        await world.process.start()
        assert world.process.died is None
        await client.shutdown()
        await world.process.stop()

    make_world(coordinator="external").run(story)


# --- the external one goes -------------------------------------------------------------------


def process_of(world, **parts):
    return ExternalCoordinator(
        transport=world.plain, profile=world.profile, engine_count=2,
        front_address=world.front, back_input_address=world.back_input,
        back_output_address=world.back_output, observer=world.observe, **parts,
    )  # fmt: skip


@pytest.mark.parametrize("taken", ["front", "back_input", "back_output"])
def test_process_that_cannot_bind_an_address_leaves_the_others_free(make_world, taken):
    async def story(world):
        other = await world.plain.bind(SocketKind.PULL, getattr(world, taken))
        process = process_of(world)
        with pytest.raises(TransportError):
            await process.start()
        assert not process.running
        other.close()
        await process.start()
        assert process.running
        await process.stop()

    make_world().run(story)


def test_process_whose_sockets_all_break_at_once_dies_once(make_world):
    async def story(world):
        client = await world.connect()
        sockets = world.process._sockets
        for socket in (sockets.front, sockets.back_input, sockets.back_output):
            socket.close()
        await world.settled()
        assert not world.process.running
        assert "closed" in world.process.died
        assert world.process.snapshot() is None
        await world.process.stop()  # nothing is left to stop
        assert client.is_healthy
        names = [task.get_name() for task in world.loop._live()]
        assert [name for name in names if name.startswith("coordinator-")] == [
            "coordinator-publishes"  # of the client
        ]
        await client.shutdown()

    make_world(coordinator="external").run(story)


def test_fault_of_ours_in_the_process_ends_it_and_is_not_swallowed(make_world):
    class Broken(ExternalCoordinatorState):
        def on_outputs(self, outputs):
            raise ZeroDivisionError

    async def story(world):
        process = process_of(world, components=Components(external_coordinator=Broken))
        await process.start()
        engine = world.engines[0]
        await engine.connect()
        push = await world.plain.connect(SocketKind.PUSH, world.back_output)
        outputs = EngineCoreOutputs(0, wave_complete=0)
        await push.send(world.codec.encode_outputs(outputs))
        await world.settled()
        assert not process.running
        assert process.died.startswith("coordinator: ")

    with pytest.raises(CallbackFailed, match="ZeroDivisionError"):
        make_world().run(story)


def test_front_message_of_several_frames_is_noted_and_changes_nothing(make_world):
    async def story(world):
        client = await world.connect()
        before = world.process.snapshot()
        await client._coordinator._socket.send([b"one", b"two"])
        await world.settled()
        assert world.process.notes == ["front message of 2 frames"]
        assert world.process.snapshot() == before
        await client.shutdown()
        await world.process.stop()

    make_world(coordinator="external").run(story)
