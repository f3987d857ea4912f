"""What a transport promises: each fact once, in simulation and over real sockets.

The facts were observed on libzmq 4.3.5 first; the simulated transport follows them. Absence is
shown by a fence: a later message on the same pipe has arrived, so nothing is under way before
it. Nothing here waits for time to pass.
"""

from __future__ import annotations

import asyncio

import pytest

from client.protocol.transport import (
    AddressInUseError,
    Socket,
    SocketClosedError,
    SocketKind,
    SocketOptions,
    TransportError,
    UnknownPeerError,
)
from tests.support.worlds import Stage, in_all_worlds

ROUTER, DEALER = SocketKind.ROUTER, SocketKind.DEALER
PUSH, PULL = SocketKind.PUSH, SocketKind.PULL
XPUB, XSUB = SocketKind.XPUB, SocketKind.XSUB
RANK_0, RANK_1 = b"\x00\x00", b"\x01\x00"
BIG = 256 * 1024
"""Bytes of a message that fills the kernel's buffers soon."""
MANY = 200
"""Big messages that fit neither into kernel buffers nor below a small high-water mark."""
STALL_TURNS = 20
"""Turns without progress that count as a stall; too few would only make a test weaker."""
LINGER = SocketOptions(linger_ms=10_000)


def named(identity: bytes, **options: int) -> SocketOptions:
    return SocketOptions(identity=identity, **options)


async def router_and_dealer(stage: Stage, **options: bool) -> tuple[Socket, Socket]:
    """Bind a ROUTER, connect rank 0, and wait until they know each other."""
    address = stage.transport.endpoint("input")
    router = await stage.transport.bind(ROUTER, address, SocketOptions(**options))
    dealer = await stage.transport.connect(DEALER, address, named(RANK_0))
    await dealer.send([b"registration"])
    assert await router.recv() == [RANK_0, b"registration"]
    return router, dealer


async def knows(router: Socket, identity: bytes) -> bool:
    try:
        await router.send([identity, b"probe"])
    except UnknownPeerError:
        return False
    return True


# --- ROUTER and DEALER ----------------------------------------------------------------------


@in_all_worlds
async def test_router_receives_the_identity_of_the_sender_in_front(stage: Stage) -> None:
    """A ROUTER sees each message of a DEALER with the sender's identity as first frame."""
    router, dealer = await router_and_dealer(stage)
    await dealer.send([b"a", b"b"])
    assert await router.recv() == [RANK_0, b"a", b"b"]


@in_all_worlds
async def test_router_sends_to_the_named_peer_and_to_no_other(stage: Stage) -> None:
    """A message of a ROUTER reaches the peer that its first frame names, without that frame."""
    router, first = await router_and_dealer(stage)
    second = await stage.transport.connect(DEALER, router.endpoint, named(RANK_1))
    await second.send([b"registration"])
    await router.recv()
    await router.send([RANK_1, b"for 1"])
    await router.send([RANK_0, b"for 0"])
    await router.send([RANK_1, b"fence"])
    assert await first.recv() == [b"for 0"]
    assert [await second.recv(), await second.recv()] == [[b"for 1"], [b"fence"]]


@in_all_worlds
async def test_mandatory_router_refuses_an_identity_that_it_never_saw(stage: Stage) -> None:
    """A mandatory ROUTER raises for an unknown identity, and works on."""
    router, dealer = await router_and_dealer(stage)
    with pytest.raises(UnknownPeerError):
        await router.send([RANK_1, b"lost"])
    await router.send([RANK_0, b"found"])
    assert await dealer.recv() == [b"found"]


@in_all_worlds
async def test_lenient_router_drops_what_it_cannot_route(stage: Stage) -> None:
    """A ROUTER that is not mandatory drops a message for an unknown identity without a word."""
    router, dealer = await router_and_dealer(stage, mandatory=False)
    await router.send([RANK_1, b"lost"])
    await router.send([RANK_0, b"found"])
    assert await dealer.recv() == [b"found"]


@in_all_worlds
async def test_dealer_without_identity_is_given_one_that_routes(stage: Stage) -> None:
    """A ROUTER makes up an identity for a peer that announces none; replies to it arrive."""
    address = stage.transport.endpoint("input")
    router = await stage.transport.bind(ROUTER, address)
    dealer = await stage.transport.connect(DEALER, address)
    await dealer.send([b"hello"])
    identity, body = await router.recv()
    assert (identity[:1], body) == (b"\x00", b"hello")
    await router.send([identity, b"welcome"])
    assert await dealer.recv() == [b"welcome"]


@in_all_worlds
async def test_router_forgets_a_peer_some_time_after_it_closed(stage: Stage) -> None:
    """Sends to a peer that is gone may vanish without an error at first; soon they raise."""
    router, dealer = await router_and_dealer(stage)
    assert await knows(router, RANK_0)
    dealer.close()

    async def forgotten() -> bool:
        return not await knows(router, RANK_0)

    await stage.until(forgotten)


@in_all_worlds
async def test_peer_that_returns_once_its_end_was_noticed_is_used_again(stage: Stage) -> None:
    """A DEALER that connects anew with its old identity gets what is sent from then on."""
    router, dealer = await router_and_dealer(stage)
    dealer.close()

    async def forgotten() -> bool:
        return not await knows(router, RANK_0)

    await stage.until(forgotten)
    again = await stage.transport.connect(DEALER, router.endpoint, named(RANK_0))
    await again.send([b"registration"])
    assert await router.recv() == [RANK_0, b"registration"]
    await router.send([RANK_0, b"welcome back"])
    assert await again.recv() == [b"welcome back"]


@in_all_worlds
async def test_second_peer_of_one_identity_is_ignored_without_handover(stage: Stage) -> None:
    """Of two living DEALERs with one identity the first keeps it; the other is not heard."""
    router, first = await router_and_dealer(stage)
    second = await stage.transport.connect(DEALER, router.endpoint, named(RANK_0))
    await second.send([b"ignored"])
    # Fence: a third peer that connected later was heard, and the first still is.
    third = await stage.transport.connect(DEALER, router.endpoint, named(RANK_1))
    await third.send([b"fence"])
    assert await router.recv() == [RANK_1, b"fence"]
    await router.send([RANK_0, b"for the first"])
    assert await first.recv() == [b"for the first"]
    await first.send([b"still here"])
    assert await router.recv() == [RANK_0, b"still here"]


@in_all_worlds
async def test_handover_gives_the_identity_to_the_newest_peer(stage: Stage) -> None:
    """With handover a rank that returns at once is heard and reached, its old end unnoticed."""
    router, first = await router_and_dealer(stage, handover=True)
    first.close()
    second = await stage.transport.connect(DEALER, router.endpoint, named(RANK_0))
    await second.send([b"registration"])
    assert await router.recv() == [RANK_0, b"registration"]
    await router.send([RANK_0, b"for the second"])
    assert await second.recv() == [b"for the second"]


@in_all_worlds
async def test_handover_takes_the_identity_from_a_living_peer(stage: Stage) -> None:
    """With handover the older of two living peers is neither heard nor reached any more."""
    router, first = await router_and_dealer(stage, handover=True)
    second = await stage.transport.connect(DEALER, router.endpoint, named(RANK_0))
    await second.send([b"registration"])
    assert await router.recv() == [RANK_0, b"registration"]
    await first.send([b"not heard"])
    await router.send([RANK_0, b"one"])
    assert await second.recv() == [b"one"]
    await second.send([b"two"])
    assert await router.recv() == [RANK_0, b"two"]


# --- order, content, connecting early -------------------------------------------------------


@in_all_worlds
async def test_order_is_kept_within_one_pipe(stage: Stage) -> None:
    """Messages between the same two sockets arrive in the order in which they were sent."""
    router, dealer = await router_and_dealer(stage)
    sent = [[b"%d" % n] for n in range(50)]
    for message in sent:
        await dealer.send(message)
        await router.send([RANK_0, *message])
    assert [(await router.recv())[1:] for _ in sent] == sent
    assert [await dealer.recv() for _ in sent] == sent


@in_all_worlds
async def test_pull_hears_every_push_each_in_its_own_order(stage: Stage) -> None:
    """A PULL gets all messages of all its peers; only the order between peers is free."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    pushes = [await stage.transport.connect(PUSH, address) for _ in range(3)]
    for n in range(10):
        for index, push in enumerate(pushes):
            await push.send([b"%d" % index, b"%d" % n])
    heard = [await pull.recv() for _ in range(30)]
    for index in range(3):
        own = [message[1] for message in heard if message[0] == b"%d" % index]
        assert own == [b"%d" % n for n in range(10)]


@in_all_worlds
async def test_frames_are_kept_as_they_are(stage: Stage) -> None:
    """Empty frames, large frames and their number survive, in both directions."""
    router, dealer = await router_and_dealer(stage)
    message = [b"", b"\x00" * 300_000, b"", b"x"]
    await dealer.send(message)
    assert await router.recv() == [RANK_0, *message]
    await router.send([RANK_0, *message])
    assert await dealer.recv() == message


@in_all_worlds
async def test_message_without_frames_is_refused(stage: Stage) -> None:
    """A message has at least one frame."""
    _router, dealer = await router_and_dealer(stage)
    with pytest.raises(TransportError):
        await dealer.send([])


@in_all_worlds
async def test_dealer_that_connects_first_queues_until_somebody_binds(stage: Stage) -> None:
    """A DEALER can connect and send before its endpoint is bound; nothing is lost."""
    address = stage.transport.endpoint("input")
    dealer = await stage.transport.connect(DEALER, address, named(RANK_0))
    await dealer.send([b"early"])
    router = await stage.transport.bind(ROUTER, address)
    assert await router.recv() == [RANK_0, b"early"]
    await router.send([RANK_0, b"answer"])
    assert await dealer.recv() == [b"answer"]


@in_all_worlds
async def test_push_that_connects_first_queues_until_somebody_binds(stage: Stage) -> None:
    """A PUSH can connect and send before its endpoint is bound; nothing is lost."""
    address = stage.transport.endpoint("output")
    push = await stage.transport.connect(PUSH, address)
    for n in range(3):
        await push.send([b"%d" % n])
    pull = await stage.transport.bind(PULL, address)
    assert [await pull.recv() for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]


@in_all_worlds
async def test_two_transports_reach_each_other_by_address(stage: Stage) -> None:
    """An address that one transport made can be connected to through another one."""
    other = stage.new_transport()
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await other.connect(PUSH, address)
    await push.send([b"across"])
    assert await pull.recv() == [b"across"]


# --- XPUB and XSUB --------------------------------------------------------------------------


@in_all_worlds
async def test_publisher_drops_for_a_peer_that_has_not_subscribed_yet(stage: Stage) -> None:
    """A publish before the subscription arrived is lost for that peer, later ones are not."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address)
    xsub = await stage.transport.connect(XSUB, address)
    await xpub.send([b"too early"])
    await xsub.send([b"\x01"])
    assert await xpub.recv() == [b"\x01"]
    await xpub.send([b"READY"])
    assert await xsub.recv() == [b"READY"]


@in_all_worlds
async def test_verbose_publisher_sees_equal_subscriptions(stage: Stage) -> None:
    """With ``xpub_verbose`` every subscription message is seen, whoever had that topic."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address)
    first = await stage.transport.connect(XSUB, address)
    second = await stage.transport.connect(XSUB, address)
    await first.send([b"\x01"])
    await first.send([b"\x01"])
    await second.send([b"\x01"])
    assert [await xpub.recv() for _ in range(3)] == [[b"\x01"]] * 3


@in_all_worlds
async def test_terse_publisher_sees_only_the_first_of_equal_subscriptions(stage: Stage) -> None:
    """Without ``xpub_verbose`` a topic that somebody has already is not reported again."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address, SocketOptions(xpub_verbose=False))
    xsub = await stage.transport.connect(XSUB, address)
    await xsub.send([b"\x01"])
    await xsub.send([b"\x01"])
    await xsub.send([b"fence"])
    assert [await xpub.recv(), await xpub.recv()] == [[b"\x01"], [b"fence"]]


@in_all_worlds
async def test_message_of_a_subscriber_reaches_the_publisher(stage: Stage) -> None:
    """What an XSUB sends and is no subscription arrives at the XPUB as it is."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address)
    xsub = await stage.transport.connect(XSUB, address)
    await xsub.send([b"\x92\x01\x04"])
    await xsub.send([b"two", b"frames"])
    assert [await xpub.recv(), await xpub.recv()] == [[b"\x92\x01\x04"], [b"two", b"frames"]]


@in_all_worlds
async def test_subscription_is_a_prefix_of_the_first_frame(stage: Stage) -> None:
    """A subscriber gets the messages whose first frame begins with a topic of its own."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address)
    xsub = await stage.transport.connect(XSUB, address)
    await xsub.send([b"\x01ab"])
    await xpub.recv()
    for first in (b"a", b"abc", b"b", b"ab"):
        await xpub.send([first, b"ab"])
    assert [await xsub.recv(), await xsub.recv()] == [[b"abc", b"ab"], [b"ab", b"ab"]]


@in_all_worlds
async def test_only_the_last_unsubscription_of_a_topic_goes_up(stage: Stage) -> None:
    """An XSUB counts its subscriptions; unsubscribing what it never had sends nothing."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address)
    xsub = await stage.transport.connect(XSUB, address)
    for message in (b"\x01", b"\x01", b"\x00", b"\x00other", b"between", b"\x00"):
        await xsub.send([message])
    seen = [await xpub.recv() for _ in range(4)]
    assert seen == [[b"\x01"], [b"\x01"], [b"between"], [b"\x00"]]
    await xpub.send([b"nobody wants it"])


@in_all_worlds
async def test_end_of_a_subscriber_shows_as_unsubscription(stage: Stage) -> None:
    """When a subscriber closes, the XPUB sees its topics end that no one else has."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address)
    first = await stage.transport.connect(XSUB, address)
    second = await stage.transport.connect(XSUB, address)
    await first.send([b"\x01shared"])
    await first.send([b"\x01own"])
    await second.send([b"\x01shared"])
    for _ in range(3):
        await xpub.recv()
    first.close()
    assert await xpub.recv() == [b"\x00own"]
    await second.send([b"fence"])
    assert await xpub.recv() == [b"fence"]


@in_all_worlds
async def test_publisher_drops_above_its_high_water_mark(stage: Stage) -> None:
    """An XPUB never waits for a slow subscriber: what does not fit is lost, the rest in order."""
    address = stage.transport.endpoint("coordinator")
    xpub = await stage.transport.bind(XPUB, address, SocketOptions(send_hwm=2))
    xsub = await stage.transport.connect(XSUB, address, SocketOptions(recv_hwm=2))
    await xsub.send([b"\x01"])
    await xpub.recv()
    for n in range(MANY):
        await xpub.send([b"%d" % n, bytes(BIG)])

    numbers: list[int] = []

    async def read() -> None:
        while (message := await xsub.recv()) != [b"end"]:
            numbers.append(int(message[0]))

    reader = stage.start(read())

    async def ended() -> bool:
        await xpub.send([b"end"])
        return reader.done()

    await stage.until(ended)
    await reader
    assert numbers[:2] == [0, 1]
    assert numbers == sorted(numbers)
    assert len(numbers) < MANY


# --- high-water marks -----------------------------------------------------------------------


class Sender:
    """Sends ``MANY`` big messages in the background and counts them."""

    def __init__(self, stage: Stage, socket: Socket, prefix: list[bytes]) -> None:
        self.sent = 0
        self._stage = stage
        self._socket = socket
        self._prefix = prefix
        self.task = stage.start(self._send())

    async def _send(self) -> None:
        for n in range(MANY):
            await self._socket.send([*self._prefix, b"%d" % n, bytes(BIG)])
            self.sent += 1

    async def has_stalled(self) -> bool:
        """Whether it began, and nothing left for a while (that it cannot end is the fact)."""
        before = self.sent
        for _ in range(STALL_TURNS):
            await self._stage.turn()
        return 0 < before == self.sent


@in_all_worlds
async def test_push_waits_at_the_high_water_mark_and_loses_nothing(stage: Stage) -> None:
    """A PUSH whose peer does not read waits, and goes on when it does."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address, SocketOptions(recv_hwm=2))
    push = await stage.transport.connect(PUSH, address, SocketOptions(send_hwm=2))
    sender = Sender(stage, push, [])
    await stage.until(sender.has_stalled)
    assert sender.sent < MANY  # it cannot be done: nobody read yet
    heard = [int((await pull.recv())[0]) for _ in range(MANY)]
    await sender.task
    assert heard == list(range(MANY))


@in_all_worlds
async def test_router_waits_for_a_full_peer_alone(stage: Stage) -> None:
    """A ROUTER waits for the peer that is full, while another peer is still served."""
    address = stage.transport.endpoint("input")
    router = await stage.transport.bind(ROUTER, address, SocketOptions(send_hwm=2))
    slow = await stage.transport.connect(DEALER, address, named(RANK_0, recv_hwm=2))
    other = await stage.transport.connect(DEALER, address, named(RANK_1))
    for dealer in (slow, other):
        await dealer.send([b"registration"])
        await router.recv()
    sender = Sender(stage, router, [RANK_0])
    await stage.until(sender.has_stalled)
    await router.send([RANK_1, b"served"])
    assert await other.recv() == [b"served"]
    assert sender.sent < MANY
    heard = [int((await slow.recv())[0]) for _ in range(MANY)]
    await sender.task
    assert heard == list(range(MANY))


@in_all_worlds
async def test_no_high_water_mark_means_that_sends_never_wait(stage: Stage) -> None:
    """With marks of 0, the protocol's own setting, a send never waits for a reader."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await stage.transport.connect(PUSH, address)
    for n in range(3_000):
        await push.send([b"%d" % n])
    assert [int((await pull.recv())[0]) for _ in range(3_000)] == list(range(3_000))


@in_all_worlds
async def test_send_cancelled_while_it_waits_never_arrives(stage: Stage) -> None:
    """A send that is cancelled at the high-water mark has not left, and leaves no gap."""
    address = stage.transport.endpoint("output")
    push = await stage.transport.connect(PUSH, address, SocketOptions(send_hwm=1))
    await push.send([b"first"])
    waiting = stage.start(push.send([b"cancelled"]))
    await stage.turn()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    pull = await stage.transport.bind(PULL, address)
    assert await pull.recv() == [b"first"]
    await push.send([b"fence"])
    assert await pull.recv() == [b"fence"]


# --- closing --------------------------------------------------------------------------------


@in_all_worlds
async def test_messages_of_a_closed_sender_that_lingers_arrive(stage: Stage) -> None:
    """What was sent before ``close`` arrives, all of it, if the socket lingers."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await stage.transport.connect(PUSH, address, LINGER)
    for n in range(100):
        await push.send([b"%d" % n])
    push.close()
    assert [int((await pull.recv())[0]) for _ in range(100)] == list(range(100))


@in_all_worlds
async def test_closed_sender_without_linger_is_cut_off_at_one_point(stage: Stage) -> None:
    """Without linger some of the last messages may never arrive, but never one in between."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await stage.transport.connect(PUSH, address)
    for n in range(100):
        await push.send([b"%d" % n])
    assert await pull.recv() == [b"0"]
    push.close()
    later = await stage.transport.connect(PUSH, address)
    await later.send([b"fence"])
    heard = [b"0"]
    while (message := await pull.recv()) != [b"fence"]:
        heard.extend(message)
    assert heard == [b"%d" % n for n in range(len(heard))]


@in_all_worlds
async def test_delivered_messages_of_a_dead_peer_can_be_read(stage: Stage) -> None:
    """What had arrived before its sender closed is received, then comes whatever is later."""
    router, dealer = await router_and_dealer(stage)
    other = await stage.transport.connect(DEALER, router.endpoint, named(RANK_1))
    await dealer.send([b"last words"])
    await dealer.send([b"echo"])
    assert await router.recv() == [RANK_0, b"last words"]
    assert await router.recv() == [RANK_0, b"echo"]
    dealer.close()
    await other.send([b"later"])
    assert await router.recv() == [RANK_1, b"later"]


@in_all_worlds
async def test_bind_on_a_used_endpoint_is_refused(stage: Stage) -> None:
    """An endpoint has one bound socket; the first one is left in peace."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    with pytest.raises(AddressInUseError):
        await stage.transport.bind(PULL, address)
    with pytest.raises(AddressInUseError):
        await stage.new_transport().bind(PULL, address)
    push = await stage.transport.connect(PUSH, address)
    await push.send([b"for the first"])
    assert await pull.recv() == [b"for the first"]


@in_all_worlds
async def test_endpoint_can_be_bound_again_after_close(stage: Stage) -> None:
    """A connecting socket finds the next one that binds its endpoint, and serves it."""
    address = stage.transport.endpoint("output")
    push = await stage.transport.connect(PUSH, address)
    first = await stage.transport.bind(PULL, address)
    await push.send([b"one"])
    assert await first.recv() == [b"one"]
    first.close()
    second = await stage.transport.bind(PULL, address)
    # Sends before the peer noticed may vanish, so it sends until one arrives.
    heard = stage.start(second.recv())

    async def arrived() -> bool:
        await push.send([b"two"])
        return heard.done()

    await stage.until(arrived)
    assert await heard == [b"two"]


@in_all_worlds
async def test_subscriber_subscribes_anew_when_its_publisher_returns(stage: Stage) -> None:
    """After its endpoint was bound again, an XSUB repeats each of its topics once, unasked."""
    address = stage.transport.endpoint("coordinator")
    xsub = await stage.transport.connect(XSUB, address)
    first = await stage.transport.bind(XPUB, address)
    await xsub.send([b"\x01"])
    await xsub.send([b"\x01"])
    assert [await first.recv(), await first.recv()] == [[b"\x01"]] * 2
    first.close()
    second = await stage.transport.bind(XPUB, address)
    assert await second.recv() == [b"\x01"]
    await second.send([b"news"])
    assert await xsub.recv() == [b"news"]


@in_all_worlds
async def test_close_ends_a_waiting_recv(stage: Stage) -> None:
    """A ``recv`` that waits when its socket is closed raises ``SocketClosedError``."""
    router, dealer = await router_and_dealer(stage)
    for socket in (router, dealer):
        waiting = stage.start(socket.recv())
        await stage.turn()
        socket.close()
        with pytest.raises(SocketClosedError):
            await waiting


@in_all_worlds
async def test_close_ends_a_waiting_send(stage: Stage) -> None:
    """A ``send`` that waits when its socket is closed raises ``SocketClosedError``."""
    push = await stage.transport.connect(
        PUSH, stage.transport.endpoint("output"), SocketOptions(send_hwm=1)
    )
    await push.send([b"fits"])
    waiting = stage.start(push.send([b"does not"]))
    await stage.turn()
    assert not waiting.done()
    push.close()
    with pytest.raises(SocketClosedError):
        await waiting


@in_all_worlds
async def test_closed_socket_refuses_everything(stage: Stage) -> None:
    """After ``close``, sending and receiving raise; closing again does nothing."""
    router, dealer = await router_and_dealer(stage)
    for socket in (router, dealer):
        socket.close()
        socket.close()
        with pytest.raises(SocketClosedError):
            await socket.send([RANK_0, b"x"])
        with pytest.raises(SocketClosedError):
            await socket.recv()


@in_all_worlds
async def test_closed_transport_has_closed_its_sockets_and_opens_no_more(stage: Stage) -> None:
    """``Transport.close`` closes what it opened and refuses to open more; twice is once."""
    transport = stage.new_transport()
    address = stage.transport.endpoint("output")
    pull = await transport.bind(PULL, address)
    waiting = stage.start(pull.recv())
    await stage.turn()
    transport.close()
    transport.close()
    with pytest.raises(SocketClosedError):
        await waiting
    with pytest.raises(TransportError):
        await transport.connect(PUSH, address)
    again = await stage.transport.bind(PULL, address)
    assert again.endpoint == address


@in_all_worlds
async def test_cancelled_recv_loses_no_message(stage: Stage) -> None:
    """A message that arrives in the step in which its reader is cancelled goes to the next."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await stage.transport.connect(PUSH, address)
    for n in range(20):
        reader = stage.start(pull.recv())
        await stage.turn()
        await push.send([b"%d" % n])
        if n % 2:
            await stage.turn()
        reader.cancel()
        try:
            message = await reader
        except asyncio.CancelledError:
            message = await pull.recv()
        assert message == [b"%d" % n]


@in_all_worlds
async def test_several_readers_share_the_messages_in_order(stage: Stage) -> None:
    """Each message goes to one of the waiting ``recv`` calls; a cancelled one passes it on."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await stage.transport.connect(PUSH, address)
    readers = [stage.start(pull.recv()) for _ in range(3)]
    await stage.turn()
    readers[0].cancel()
    await push.send([b"one"])
    await push.send([b"two"])
    got = sorted([(await readers[1])[0], (await readers[2])[0]])
    assert got == [b"one", b"two"]


@in_all_worlds
async def test_one_way_sockets_refuse_the_other_way(stage: Stage) -> None:
    """A PUSH cannot receive and a PULL cannot send."""
    address = stage.transport.endpoint("output")
    pull = await stage.transport.bind(PULL, address)
    push = await stage.transport.connect(PUSH, address)
    with pytest.raises(TransportError):
        await pull.send([b"x"])
    with pytest.raises(TransportError):
        await push.recv()
