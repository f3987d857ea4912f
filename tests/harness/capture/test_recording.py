"""The tap at an engine's sockets: what passes is written down, unchanged and in order."""

from __future__ import annotations

import pytest

from client.protocol.codec import Codec
from client.protocol.messages import READY_GATE, Init
from client.protocol.profiles import profile_for
from client.protocol.transport import SocketClosedError, SocketKind, SocketOptions
from harness.capture.recording import (
    COORDINATOR_INPUT,
    COORDINATOR_OUTPUT,
    FROM_ENGINE,
    HANDSHAKE,
    INPUT,
    OUTPUT,
    TO_ENGINE,
    Tape,
)
from harness.strategies import make_strategy
from harness.tape import Recorder
from harness.worlds import SimWorld, ZmqWorld
from mock_engines.cluster import JoinAddresses

PROFILE = profile_for("0.33.0")


@pytest.fixture(params=["sim", pytest.param("zmq", marks=pytest.mark.zmq)])
def world(request):
    if request.param == "zmq":
        return ZmqWorld()
    return SimWorld(Recorder(make_strategy("fifo", 0, 0)))


def test_sockets_are_named_by_the_addresses_that_init_tells(world):
    tape = Tape(PROFILE)

    async def main():
        outer = world.transport
        there = {name: outer.endpoint(name) for name in ("h", "i", "o", "ci", "co")}
        router = await outer.bind(SocketKind.ROUTER, there["h"])
        pulls = [await outer.bind(SocketKind.PULL, there[name]) for name in ("o", "co")]
        inputs = await outer.bind(SocketKind.ROUTER, there["i"])
        xpub = await outer.bind(SocketKind.XPUB, there["ci"])
        tapped = tape.tap(3, outer, JoinAddresses(handshake=router.endpoint))
        shake = await tapped.connect(
            SocketKind.DEALER, router.endpoint, SocketOptions(identity=b"\x03\x00")
        )
        await shake.send([b"hello"])
        await router.recv()
        init = Init(
            inputs=(inputs.endpoint,),
            outputs=(pulls[0].endpoint,),
            coordinator_input=xpub.endpoint,
            coordinator_output=pulls[1].endpoint,
        )
        await router.send([b"\x03\x00", Codec(PROFILE).encode_init(init)])
        await shake.recv()
        dealer = await tapped.connect(
            SocketKind.DEALER, inputs.endpoint, SocketOptions(identity=b"\x03\x00")
        )
        await dealer.send([b"registered"])
        await inputs.recv()
        for pull in pulls:
            push = await tapped.connect(SocketKind.PUSH, pull.endpoint)
            await push.send([b"one", b"aux"])
            assert await pull.recv() == [b"one", b"aux"]
        xsub = await tapped.connect(SocketKind.XSUB, xpub.endpoint)
        await xsub.send([b"\x01"])
        await xpub.recv()
        await xpub.send([READY_GATE])
        assert await xsub.recv() == [READY_GATE]

    world.run(main)
    frames = tape.frames()
    assert [(f.socket, f.direction) for f in frames] == [
        (HANDSHAKE, FROM_ENGINE),
        (HANDSHAKE, TO_ENGINE),
        (INPUT, FROM_ENGINE),
        (OUTPUT, FROM_ENGINE),
        (COORDINATOR_OUTPUT, FROM_ENGINE),
        (COORDINATOR_INPUT, FROM_ENGINE),
        (COORDINATOR_INPUT, TO_ENGINE),
    ]
    assert [f.n for f in frames] == list(range(7))
    assert {f.engine for f in frames} == {3}
    assert frames[3].frames == (b"one", b"aux")
    assert frames[0].time_us == 0


def test_a_message_that_could_not_be_sent_is_not_kept(world):
    tape = Tape(PROFILE)

    async def main():
        outer = world.transport
        pull = await outer.bind(SocketKind.PULL, outer.endpoint("o"))
        push = await tape.tap(0, outer, JoinAddresses()).connect(SocketKind.PUSH, pull.endpoint)
        await push.send([b"kept"])
        await pull.recv()
        push.close()
        with pytest.raises(SocketClosedError):
            await push.send([b"lost"])

    world.run(main)
    assert [f.frames for f in tape.frames()] == [(b"kept",)]
