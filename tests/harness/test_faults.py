"""Faults on single sends: held before or after they leave, or failing."""

from __future__ import annotations

import asyncio

import pytest

from client.protocol.transport import SocketKind, SocketOptions, TransportError
from harness.faults import FaultTransport, LinkFault
from harness.scenario.model import LinkStep
from tests.support.worlds import Stage, in_all_worlds

ADD, ABORT, UTILITY, START = b"\x00", b"\x01", b"\x03", b"\x02"
RANK_0, RANK_1 = b"\x00\x00", b"\x01\x00"


class Rig:
    """A faulty client ROUTER, two engines on sound DEALERs, and gates."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.gates: dict[str, asyncio.Event] = {}
        self.faults = FaultTransport(stage.transport, self.wait)

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    async def wait(self, name: str) -> None:
        await self.gate(name).wait()

    async def join(self) -> None:
        self.router = await self.faults.bind(SocketKind.ROUTER, self.faults.endpoint("input"))
        self.engines = []
        for identity in (RANK_0, RANK_1):
            dealer = await self.stage.transport.connect(
                SocketKind.DEALER, self.router.endpoint, SocketOptions(identity=identity)
            )
            await dealer.send([b"registration"])
            assert await self.router.recv() == [identity, b"registration"]
            self.engines.append(dealer)

    def start(self, *frames: bytes) -> asyncio.Task[None]:
        return self.stage.start(self.router.send(list(frames)))


async def rigged(stage: Stage) -> Rig:
    rig = Rig(stage)
    await rig.join()
    return rig


@in_all_worlds
async def test_held_send_has_not_left_until_its_gate_opens(stage: Stage) -> None:
    """A send that is held is neither done nor delivered; other engines and kinds pass."""
    rig = await rigged(stage)
    rig.faults.apply(LinkStep(engine=1, frames="add", hold="g"))
    held = rig.start(RANK_1, ADD, b"held")
    await rig.faults.held_at("g")
    await rig.router.send([RANK_1, ABORT, b"passes"])
    await rig.router.send([RANK_0, ADD, b"passes"])
    assert await rig.engines[1].recv() == [ABORT, b"passes"]
    assert await rig.engines[0].recv() == [ADD, b"passes"]
    assert not held.done()
    rig.gate("g").set()
    await held
    assert await rig.engines[1].recv() == [ADD, b"held"]
    assert (rig.faults.held("g"), rig.faults.held_total("g")) == (0, 1)


@in_all_worlds
async def test_held_send_that_is_cancelled_never_leaves(stage: Stage) -> None:
    """Cancelling a send at its gate means that the engine never sees the message."""
    rig = await rigged(stage)
    rig.faults.apply(LinkStep(engine=0, hold="g"))
    held = rig.start(RANK_0, ADD, b"never")
    await rig.faults.held_at("g")
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert rig.faults.held("g") == 0
    rig.gate("g").set()
    await rig.router.send([RANK_0, ADD, b"fence"])
    assert await rig.engines[0].recv() == [ADD, b"fence"]


@in_all_worlds
async def test_send_held_afterwards_has_left_but_has_not_returned(stage: Stage) -> None:
    """With ``hold_after`` the engine has the message while the sender still waits."""
    rig = await rigged(stage)
    rig.faults.apply(LinkStep(engine="all", frames="utility", hold_after="g"))
    held = rig.start(RANK_0, UTILITY, b"call")
    assert await rig.engines[0].recv() == [UTILITY, b"call"]
    await rig.faults.held_at("g")
    assert not held.done()
    rig.gate("g").set()
    await held


@in_all_worlds
async def test_failing_send_raises_its_text_and_sends_nothing(stage: Stage) -> None:
    """With ``fail`` the send raises; after ``clear`` sends pass again."""
    rig = await rigged(stage)
    rig.faults.apply(LinkStep(engine=0, frames="any", fail="broken pipe"))
    with pytest.raises(TransportError, match=r"^broken pipe$"):
        await rig.router.send([RANK_0, ADD, b"never"])
    await rig.router.send([RANK_1, ADD, b"other engine"])
    rig.faults.apply(LinkStep(engine=0, clear=True))
    await rig.router.send([RANK_0, ADD, b"fence"])
    assert await rig.engines[0].recv() == [ADD, b"fence"]
    assert await rig.engines[1].recv() == [ADD, b"other engine"]


@in_all_worlds
async def test_sends_held_at_one_gate_leave_in_their_order(stage: Stage) -> None:
    """An open gate lets the held sends of one engine go first in, first out, gaps or not."""
    rig = await rigged(stage)
    rig.faults.add(LinkFault(engine=0, hold="g"))
    sends = []
    for n in range(6):
        sends.append(rig.start(RANK_0, ADD, b"%d" % n))
        await rig.faults.held_at("g", n + 1)
    sends[2].cancel()
    await stage.turn()
    rig.gate("g").set()
    heard = [int((await rig.engines[0].recv())[1]) for _ in range(5)]
    assert heard == [0, 1, 3, 4, 5]
    assert rig.faults.held_total("g") == 6


@in_all_worlds
async def test_startup_messages_are_never_touched(stage: Stage) -> None:
    """INIT, READY and subscriptions pass although everything is to fail."""
    rig = await rigged(stage)
    rig.faults.add(LinkFault(engine="all", fail="no"))
    rig.faults.add(LinkFault(engine="coordinator", fail="no coordinator"))
    await rig.router.send([RANK_0, b"\x81init"])
    assert await rig.engines[0].recv() == [b"\x81init"]
    address = rig.faults.endpoint("coordinator")
    xpub = await rig.faults.bind(SocketKind.XPUB, address)
    xsub = await rig.faults.connect(SocketKind.XSUB, address)
    await xsub.send([b"\x01"])
    assert await xpub.recv() == [b"\x01"]
    await xpub.send([b"READY"])
    assert await xsub.recv() == [b"READY"]


@in_all_worlds
async def test_coordinator_faults_strike_coordinator_sockets_alone(stage: Stage) -> None:
    """``coordinator`` means START_DP_WAVE broadcasts and notices to an external coordinator."""
    rig = await rigged(stage)
    address = rig.faults.endpoint("coordinator")
    xpub = await rig.faults.bind(SocketKind.XPUB, address)
    xsub = await rig.faults.connect(SocketKind.XSUB, address)
    rig.faults.add(LinkFault(engine="coordinator", fail="gone"))
    for socket, frames in ((xpub, [START, b"body"]), (xsub, [b"\x92\x00\x04"])):
        with pytest.raises(TransportError, match=r"^gone$"):
            await socket.send(frames)
    await rig.router.send([RANK_0, ADD, b"passes"])
    assert await rig.engines[0].recv() == [ADD, b"passes"]


@in_all_worlds
async def test_first_fault_that_matches_strikes(stage: Stage) -> None:
    """Faults are tried in the order in which they were added."""
    rig = await rigged(stage)
    rig.faults.add(LinkFault(engine=0, frames="abort", fail="first"))
    rig.faults.add(LinkFault(engine="all", fail="second"))
    with pytest.raises(TransportError, match="first"):
        await rig.router.send([RANK_0, ABORT, b"x"])
    with pytest.raises(TransportError, match="second"):
        await rig.router.send([RANK_0, ADD, b"x"])
    rig.faults.clear()
    await rig.router.send([RANK_0, ADD, b"x"])


@in_all_worlds
async def test_watcher_of_held_sends_waits_for_its_count(stage: Stage) -> None:
    """``held_at`` returns once that many sends wait at the gate, not before."""
    rig = await rigged(stage)
    rig.faults.add(LinkFault(hold="g"))
    watch = stage.start(rig.faults.held_at("g", 2))
    one = rig.start(RANK_0, ADD, b"1")
    await rig.faults.held_at("g", 1)
    assert not watch.done()
    two = rig.start(RANK_1, ADD, b"2")
    await watch
    rig.gate("g").set()
    await one
    await two


@pytest.mark.parametrize("given", [{}, {"hold": "g", "fail": "x"}])
def test_fault_is_exactly_one_thing(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="exactly one of"):
        LinkFault(**given)
