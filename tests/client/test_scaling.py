"""A change of the number of engines: what refuses it, what ends it half-way, and what is left."""

from __future__ import annotations

import pytest

from client import errors
from client.events import EnginesChanged, RequestReleased
from client.protocol.ids import ELASTIC_NOTICE_ID, RANKS_MAX, identity_from_rank
from client.protocol.messages import SUBSCRIBE_ALL, UNSUBSCRIBE_ALL, FinishReason, ReadyResponse
from client.scaling import COMMIT, FINISHED, GONE, PAUSE, PREPARE, RESUME

COORDINATORS = pytest.mark.parametrize("coordinator", ["none", "in-process", "external"])


class Staff:
    """Engines that answer each utility call as a change needs it, and who starts new ones.

    Attributes:
        silent: methods that engines leave without an answer.
        say: how new engines register; each gets the engine.
        finished: what engine 0 tells once it has been told to commit.
        heard: first frames that new engines got from the coordinator.
    """

    def __init__(self, world, *, silent=()):
        self.world = world
        self.silent = silent
        self.say = [self.register]
        self.finished = [FINISHED, 0]
        self.heard = []
        self.stopped = []
        for engine in world.engines:
            world.spawn(self.serve(engine))

    async def serve(self, engine):
        answered = 0
        while True:
            await self.world.until(lambda after=answered: len(engine.utilities()) > after)
            call = engine.utilities()[answered]
            answered += 1
            if call.method in self.silent:
                continue
            await engine.reply(call.call_id)
            if call.method == COMMIT and engine.rank == 0:
                await engine.reply(ELASTIC_NOTICE_ID, self.finished)
            if call.method == PREPARE and call.args[0]["new_data_parallel_rank"] == -2:
                await engine.reply(ELASTIC_NOTICE_ID, [GONE, engine.rank])

    async def start(self, ranks, size):
        for rank in ranks:
            old = self.world.engines[0]
            ready = {**old.ready, "data_parallel_rank": rank}
            engine = type(old)(self.world, rank, identity_from_rank(rank), ready)
            await engine.connect()
            self.world.engines.append(engine)
            if self.world.coordinator == "in-process":
                self.world.spawn(self.listen(engine))
                for frame in (SUBSCRIBE_ALL, b"hello", UNSUBSCRIBE_ALL, SUBSCRIBE_ALL):
                    await engine.subscriber.send([frame])
                await self.world.until(lambda: len(self.heard) >= 2)
            for say in self.say:
                await say(engine)

    async def listen(self, engine):
        while True:
            self.heard.append(await engine.subscriber.recv())
            self.world.look()

    async def register(self, engine):
        await engine.dealer.send([engine.codec.encode_ready_response(ReadyResponse(engine.ready))])
        self.world.spawn(engine._read_input())
        self.world.spawn(self.serve(engine))

    async def stop(self, ranks):
        self.stopped.extend(ranks)


def routed(world):
    return [(each.connected, each.routed) for each in world.told(EnginesChanged)]


def methods(engine):
    return [call.method for call in engine.utilities()]


@pytest.mark.parametrize(
    ("size", "parts", "why"),
    [
        (0, {}, "between 1 and"),
        (RANKS_MAX + 1, {}, "between 1 and"),
        (3, {"release": "0.26.0"}, "0.26.0 has no two-stage change"),
        (3, {"ranks": (1, 2)}, "not connected to ranks 0 and up"),
    ],
)
def test_change_that_is_not_possible_is_refused_before_anything_is_sent(
    make_world, size, parts, why
):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)
        with pytest.raises(errors.ScaleRefused, match=why):
            await client.scale(size, staff)
        await world.settled()
        assert [engine.inbox for engine in world.engines] == [[], []]
        assert client.is_healthy
        await client.shutdown()

    make_world(**parts).run(story)


def test_change_of_a_client_that_has_failed_raises_its_sticky_error(make_world):
    async def story(world):
        client = await world.connect()
        await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
        await world.settled()
        with pytest.raises(errors.EngineCoreDead):
            await client.scale(3, Staff(world))
        assert [engine.inbox for engine in world.engines] == [[], []]
        await client.shutdown()

    make_world().run(story)


@COORDINATORS
def test_engines_come_and_go_whatever_the_coordinator_is(make_world, make_request, coordinator):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)
        await client.scale(2, staff)
        assert [engine.inbox for engine in world.engines] == [[], []]  # there are two already
        await client.scale(3, staff)
        stream = await client.call(make_request("a", rank=2))
        await world.settled()
        assert world.engines[2].adds() == ["a"]
        await world.engines[2].output("a", 1, finish=FinishReason.STOP)
        assert [output.new_token_ids async for output in stream] == [(1,)]
        assert methods(world.engines[0]) == [PREPARE, PAUSE, COMMIT, RESUME]
        assert methods(world.engines[2]) == [RESUME]
        await client.scale(1, staff)
        assert staff.stopped == [1, 2]
        assert client.engine_indices() == (0,)
        await world.settled()
        if coordinator == "external":
            assert len(world.process._state.counts()) == 1
            await world.process.stop()
        # Each subscription is answered, and whatever else is passed over.
        assert staff.heard == ([[b"READY"]] * 2 if coordinator == "in-process" else [])
        await client.shutdown()

    world = make_world(coordinator=coordinator)
    world.run(story)
    assert routed(world) == [
        ((0, 1, 2), (0, 1)),
        ((0, 1, 2), (0, 1, 2)),
        ((0, 1, 2), (0,)),
        ((0,), (0,)),
    ]


def test_new_engine_that_does_not_register_ends_the_change_at_its_timeout(make_world):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)
        staff.say = []
        start = world.loop.time()
        with pytest.raises(errors.InputRegistrationTimeout, match="after 2"):
            await client.scale(3, staff)
        assert world.loop.time() == start + 2.0
        assert client.engine_indices() == (0, 1)
        assert client._inner.calls == []
        staff.say = [staff.register]
        await client.scale(3, staff)  # and the next change can be made
        assert client.engine_indices() == (0, 1, 2)
        await client.shutdown()

    make_world(client={"ready_timeout_s": 2.0}).run(story)


def test_registrations_of_others_are_passed_over(make_world):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)
        ready = world.codec.encode_ready_response(ReadyResponse(world.engines[0].ready))

        async def old_one_again(_engine):
            await world.engines[1].dealer.send([ready])

        async def too_much(engine):
            await engine.dealer.send([ready, b"more"])

        staff.say = [old_one_again, too_much, staff.register]
        await client.scale(3, staff)
        assert client.engine_indices() == (0, 1, 2)
        assert client.ready_responses()[2].get("data_parallel_rank") == 2
        await client.shutdown()

    make_world().run(story)


def test_registration_that_cannot_be_read_ends_the_change(make_world):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)

        async def garbage(engine):
            await engine.dealer.send([b"\xc1"])

        staff.say = [garbage]
        with pytest.raises(errors.Decode):
            await client.scale(3, staff)
        assert client.is_healthy
        assert client.engine_indices() == (0, 1)
        await client.shutdown()

    make_world().run(story)


def test_socket_that_breaks_before_the_registration_ends_the_change(make_world):
    async def story(world):
        client = await world.connect()
        staff = Staff(world, silent=(COMMIT,))
        staff.say = []
        change = world.spawn(client.scale(3, staff))
        await world.settled()
        engine = world.engines[0]
        for each in world.engines[:2]:
            await each.reply(each.utilities()[-1].call_id)
        await world.settled()
        client._inner._input.close()
        await engine.reply(ELASTIC_NOTICE_ID, [FINISHED, 0])
        with pytest.raises(errors.Transport):
            await change
        await client.shutdown()

    make_world().run(story)


@pytest.mark.parametrize("end", ["sentinel", "shutdown"])
@pytest.mark.parametrize("at", [PREPARE, PAUSE, COMMIT, "notice", "register", RESUME])
def test_end_of_the_client_ends_a_change_at_each_of_its_stages(make_world, end, at):
    async def story(world):
        client = await world.connect()
        staff = Staff(world, silent=(at,))
        if at == "notice":
            staff.finished = ["OTHER", 7]
        if at == "register":
            staff.say = []
        change = world.spawn(client.scale(3, staff))
        await world.settled()
        assert not change.done()
        if end == "sentinel":
            await world.engines[0].push.send([b"ENGINE_CORE_DEAD"])
            wanted = errors.EngineCoreDead
        else:
            await client.shutdown()
            wanted = errors.ClientClosed
        with pytest.raises(wanted):
            await change
        await client.shutdown()
        assert client._inner.calls == []
        assert client._inner.sockets == []
        names = [task.get_name() for task in world.loop._live()]
        assert [name for name in names if name.startswith(("scale", "utility"))] == []

    make_world(coordinator="in-process").run(story)


def test_shutdown_ends_a_change_whose_engines_are_being_started(make_world):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)

        async def slow(_engine):
            await world.gate("gate")

        staff.say = [slow]
        change = world.spawn(client.scale(3, staff))
        await world.settled()
        await client.shutdown()
        with pytest.raises(errors.ClientClosed):
            await change
        assert client._inner.calls == []

    make_world().run(story)


@pytest.mark.parametrize("odd", [None, [FINISHED], [7, FINISHED], [FINISHED, 0, 0]])
def test_notice_of_another_form_is_fatal(make_world, odd):
    async def story(world):
        client = await world.connect()
        staff = Staff(world)
        staff.finished = odd
        with pytest.raises(errors.UnexpectedDispatcherOutput, match="elastic notice"):
            await client.scale(3, staff)
        assert isinstance(client.health_error, errors.UnexpectedDispatcherOutput)
        await client.shutdown()

    make_world().run(story)


def test_what_waits_for_an_engine_that_left_waits_no_more(make_world, make_request):
    async def story(world):
        client = await world.connect()
        stream = await client.call(make_request("a", rank=1))
        call = world.spawn(client.call_utility("m", (), object, only=(1,)))
        await world.settled()
        engine = world.engines[1]
        call_id = engine.utilities()[0].call_id
        await client.scale(1, Staff(world, silent=("m",)))
        with pytest.raises(errors.RequestStreamClosed):
            await anext(stream)
        with pytest.raises(errors.Transport, match="engine 1 was removed"):
            await call
        await engine.reply(call_id)  # late
        await world.settled()
        assert client.is_healthy
        assert client.in_flight() == client.pending_utility_calls() == ()
        await client.shutdown()

    world = make_world()
    world.run(story)
    assert [each.cause for each in world.told(RequestReleased)] == ["engine-removed"]
