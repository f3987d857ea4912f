"""Simulated links beyond the transport contract: what is a choice, labels, latency."""

from __future__ import annotations

import asyncio

import pytest

from client.protocol.transport import (
    SocketKind,
    SocketOptions,
    TransportError,
    UnknownPeerError,
)
from harness.sim.errors import Deadlock
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from harness.tape import Recorder, Replayer, Tape

ROUTER, DEALER = SocketKind.ROUTER, SocketKind.DEALER
PUSH, PULL = SocketKind.PUSH, SocketKind.PULL
XPUB, XSUB = SocketKind.XPUB, SocketKind.XSUB
RANK_0 = SocketOptions(identity=b"\x00\x00")
RANK_1 = SocketOptions(identity=b"\x01\x00")


def play(body, chooser=None, **options):
    loop = SimLoop(chooser or make_strategy("fifo", 0, 0), **options)
    transport = SimTransport(loop)

    async def main():
        try:
            return await body(transport)
        finally:
            transport.close()

    return loop.run(main())


def every_schedule(body, limit=2_000):
    """Outcomes of all schedules of a small body, by exhaustive search over tapes."""
    outcomes, todo = [], [()]
    while todo:
        prefix = todo.pop()
        recorder = Recorder(Guided(prefix))
        outcomes.append(play(body, recorder))
        choices = recorder.tape.choices
        for position in range(len(prefix), len(choices)):
            done = tuple(choice for choice, _ in choices[:position])
            todo.extend((*done, other) for other in range(1, choices[position][1]))
        assert len(outcomes) < limit
    return outcomes


class Guided:
    def __init__(self, prefix):
        self.left = list(prefix)

    def begin(self):
        pass

    def choose(self, n, labels=None):
        return self.left.pop(0) if self.left else 0


async def two_pushes(transport):
    address = transport.endpoint("output")
    pull = await transport.bind(PULL, address)
    for name in (b"a", b"b"):
        push = await transport.connect(PUSH, address)
        for n in (b"1", b"2"):
            await push.send([name + n])
    return tuple([(await pull.recv())[0] for _ in range(4)])


def test_every_merge_of_two_pipes_is_reached_and_no_other():
    merges = {
        (b"a1", b"a2", b"b1", b"b2"),
        (b"a1", b"b1", b"a2", b"b2"),
        (b"a1", b"b1", b"b2", b"a2"),
        (b"b1", b"a1", b"a2", b"b2"),
        (b"b1", b"a1", b"b2", b"a2"),
        (b"b1", b"b2", b"a1", b"a2"),
    }
    assert set(every_schedule(two_pushes)) == merges


def test_delivery_competes_with_the_tasks_of_both_ends():
    """A message can arrive before or after the sender's next step."""

    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("output")
        pull = await transport.bind(PULL, address)
        push = await transport.connect(PUSH, address)
        log = []

        async def sender():
            await push.send([b"x"])
            turn = loop.create_future()
            loop.call_soon(turn.set_result, None)
            await turn
            log.append("sender")

        async def reader():
            await pull.recv()
            log.append("reader")

        tasks = [loop.create_task(sender()), loop.create_task(reader())]
        for task in tasks:
            await task
        return tuple(log)

    assert set(every_schedule(story)) == {("sender", "reader"), ("reader", "sender")}


def test_labels_name_both_ends_of_a_delivery():
    recorder = Recorder(make_strategy("fifo", 0, 0))

    async def story(transport):
        address = transport.endpoint("client.input")
        client = transport.owned_by("client")
        engines = [await transport.connect(DEALER, address, o) for o in (RANK_0, RANK_1)]
        router = await client.bind(ROUTER, address)
        output = await client.bind(PULL, transport.endpoint("client.output"))
        for _ in range(2):
            await (await transport.connect(PUSH, output.endpoint)).send([b"x"])
        for engine in engines:
            await engine.send([b"registration"])
        for _ in engines:
            await router.send([(await router.recv())[0], b"welcome"])
        for engine in engines:
            await engine.recv()

    play(story, recorder, record_labels=True)
    names = {name for labels in recorder.tape.labels for name in labels}
    assert {
        "deliver engine 0>client.input",
        "deliver client.input>engine 1",
        "deliver client.output#2>client.output",
        "main",
    } <= names


def test_deadlock_names_the_sockets_that_wait():
    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("client.output")
        pull = await transport.bind(PULL, address)
        full = await transport.connect(
            PUSH, transport.endpoint("nowhere"), SocketOptions(send_hwm=1)
        )
        await full.send([b"fits"])
        sender = loop.create_task(full.send([b"waits"]), name="sender")
        await pull.recv()
        await sender

    with pytest.raises(Deadlock) as caught:
        play(story)
    assert caught.value.waiting == (
        ("main", "SimSocket.recv on recv of PULL client.output"),
        ("sender", "Pipe.writable on room to send on PUSH nowhere#1"),
    )


def test_endpoints_of_one_name_differ():
    async def story(transport):
        return [transport.endpoint("a"), transport.endpoint("a"), transport.endpoint("b")]

    assert play(story) == ["sim://a", "sim://a.2", "sim://b"]


def test_sends_to_a_peer_that_is_gone_vanish_until_its_end_is_noticed():
    async def story(transport):
        router = await transport.bind(ROUTER, transport.endpoint("input"))
        dealer = await transport.connect(DEALER, router.endpoint, RANK_0)
        await dealer.send([b"registration"])
        await router.recv()
        dealer.close()
        await router.send([b"\x00\x00", b"vanishes"])
        await asyncio.get_running_loop().settled()
        with pytest.raises(
            UnknownPeerError, match="ROUTER input knows no peer with identity 00 00"
        ):
            await router.send([b"\x00\x00", b"refused"])

    play(story)


def test_peer_that_returns_before_its_end_was_noticed_is_ignored_without_handover():
    """The order of the two notices is a choice, so both outcomes are seen; handover has one."""

    def story(handover):
        async def body(transport):
            loop = asyncio.get_running_loop()
            options = SocketOptions(handover=handover)
            router = await transport.bind(ROUTER, transport.endpoint("input"), options)
            dealer = await transport.connect(DEALER, router.endpoint, RANK_0)
            await loop.settled()
            dealer.close()
            again = await transport.connect(DEALER, router.endpoint, RANK_0)
            await again.send([b"back"])
            await loop.settled()
            try:
                await router.send([b"\x00\x00", b"x"])
            except UnknownPeerError:
                return "ignored"
            return "used"

        return body

    assert set(every_schedule(story(False))) == {"used", "ignored"}
    assert set(every_schedule(story(True))) == {"used"}


def test_whether_a_publish_is_dropped_is_a_choice():
    """Who has not been heard to subscribe gets nothing: the subscription travels like a message."""

    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("coordinator")
        xpub = await transport.bind(XPUB, address)
        xsub = await transport.connect(XSUB, address)
        heard = []

        async def reader():
            while True:
                heard.extend(await xsub.recv())

        async def publisher():
            await xpub.send([b"wave 1"])

        task = loop.create_task(reader())
        await xsub.send([b"\x01"])
        await loop.create_task(publisher())
        await loop.settled()
        await xpub.send([b"wave 2"])
        await loop.settled()
        task.cancel()
        return tuple(heard)

    assert set(every_schedule(story)) == {(b"wave 2",), (b"wave 1", b"wave 2")}


def test_whether_a_slow_subscriber_loses_a_publish_is_a_choice():
    """XPUB never waits: behind a full pipe a message is dropped, unless one left it just before."""

    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("coordinator")
        xpub = await transport.bind(XPUB, address, SocketOptions(send_hwm=1))
        xsub = await transport.connect(XSUB, address)
        await xsub.send([b"\x01"])
        await loop.settled()

        async def publisher():
            for number in b"12":
                await xpub.send([bytes([number])])
                turn = loop.create_future()
                loop.call_soon(turn.set_result, None)
                await turn

        await loop.create_task(publisher())
        await loop.settled()
        await xpub.send([b"end"])
        heard = []
        while heard[-1:] != [b"end"]:
            heard.extend(await xsub.recv())
        return tuple(heard)

    assert set(every_schedule(story)) == {(b"1", b"end"), (b"1", b"2", b"end")}


def test_whether_a_send_to_a_peer_that_leaves_vanishes_is_a_choice():
    async def story(transport):
        loop = asyncio.get_running_loop()
        router = await transport.bind(ROUTER, transport.endpoint("input"))
        dealer = await transport.connect(DEALER, router.endpoint, RANK_0)
        await loop.settled()
        outcome = []

        async def sender():
            try:
                await router.send([b"\x00\x00", b"x"])
            except UnknownPeerError:
                outcome.append("refused")
            else:
                outcome.append("left")

        dealer.close()
        await loop.create_task(sender())
        return outcome[0]

    assert set(every_schedule(story)) == {"left", "refused"}


def test_messages_without_linger_vanish_and_with_linger_arrive():
    def story(linger_ms):
        async def body(transport):
            address = transport.endpoint("output")
            pull = await transport.bind(PULL, address)
            push = await transport.connect(PUSH, address, SocketOptions(linger_ms=linger_ms))
            await push.send([b"last words"])
            push.close()
            later = await transport.connect(PUSH, address)
            await asyncio.get_running_loop().settled()
            await later.send([b"fence"])
            return (await pull.recv())[0]

        return body

    assert play(story(0)) == b"fence"
    assert play(story(5)) == b"last words"
    assert play(story(-1)) == b"last words"


@pytest.mark.parametrize(("wait_s", "heard"), [(0.004, b"early"), (0.006, b"late")])
def test_linger_ends_after_its_time(wait_s, heard):
    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("output")
        push = await transport.connect(PUSH, address, SocketOptions(linger_ms=5))
        await push.send([b"early"])
        push.close()
        over = loop.create_future()
        loop.call_later(wait_s, over.set_result, None)
        await over
        pull = await transport.bind(PULL, address)
        await loop.settled()
        later = await transport.connect(PUSH, address)
        await later.send([b"late"])
        return (await pull.recv())[0]

    assert play(story) == heard


def test_message_of_a_reader_cancelled_as_it_woke_goes_to_the_next_reader():
    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("output")
        pull = await transport.bind(PULL, address)
        push = await transport.connect(PUSH, address)
        first, second = (loop.create_task(pull.recv()) for _ in range(2))
        await loop.settled()
        await push.send([b"x"])
        loop.call_soon(first.cancel)  # after the delivery, before the reader's next step
        assert await second == [b"x"]
        assert first.cancelled()

    play(story)


def test_room_of_a_sender_cancelled_as_it_woke_goes_to_the_next_sender():
    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("output")
        push = await transport.connect(PUSH, address, SocketOptions(send_hwm=1))
        await push.send([b"0"])
        first, second = (loop.create_task(push.send([n])) for n in (b"1", b"2"))
        await loop.settled()
        pull = await transport.bind(PULL, address)
        loop.call_soon(loop.call_soon, first.cancel)  # behind attach and the first delivery
        heard = [(await pull.recv())[0], (await pull.recv())[0]]
        await second
        assert first.cancelled()
        return heard

    assert play(story) == [b"0", b"2"]


def test_subscriber_that_lost_its_publisher_does_not_repeat_itself_twice():
    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("coordinator")
        xpub = await transport.bind(XPUB, address)
        xsub = await transport.connect(XSUB, address)
        await xsub.send([b"\x01"])
        xpub.close()  # before anything arrived
        await loop.settled()
        await xsub.send([b"fence"])
        again = await transport.bind(XPUB, address)
        return [await again.recv(), await again.recv()]

    assert play(story) == [[b"\x01"], [b"fence"]]


def test_latency_delays_in_virtual_time_and_keeps_order():
    async def story(transport):
        loop = asyncio.get_running_loop()
        address = transport.endpoint("output")
        pull = await transport.bind(PULL, address)
        push = await transport.connect(PUSH, address)
        transport.set_latency_us(address, 300)
        await push.send([b"slow"])
        transport.set_latency_us(address, 0)
        await push.send([b"fast"])
        await loop.settled()
        assert loop.time() == 0
        heard = [(await pull.recv())[0], (await pull.recv())[0]]
        return heard, loop.time()

    assert play(story) == ([b"slow", b"fast"], 0.0003)


def test_kinds_that_the_protocol_does_not_use_that_way_are_refused():
    async def story(transport):
        with pytest.raises(TransportError, match="no DEALER socket binds"):
            await transport.bind(DEALER, "sim://x")
        with pytest.raises(TransportError, match="no ROUTER socket connects"):
            await transport.connect(ROUTER, "sim://x")

    play(story)


def test_views_close_their_own_sockets_only():
    async def story(transport):
        client, engine = transport.owned_by("client"), transport.owned_by("engine 0")
        pull = await client.bind(PULL, transport.endpoint("output"))
        push = await engine.connect(PUSH, pull.endpoint)
        await push.send([b"x"])
        assert engine.open_sockets == 1
        await pull.recv()
        engine.close()
        assert (engine.open_sockets, client.open_sockets) == (0, 1)

    play(story)


def test_run_replays_from_its_tape():
    recorder = Recorder(make_strategy("random", 4, 0))
    outcome = play(two_pushes, recorder, record_labels=True)
    tape = Tape.from_json(recorder.tape.to_json())
    player = Replayer(tape)
    assert play(two_pushes, player, record_labels=True) == outcome
    player.finish()
