"""The proxy, between our client and mock engines on real sockets."""

from __future__ import annotations

import asyncio

import pytest

from client.aio import turn, with_deadline
from client.protocol.codec import Codec
from client.protocol.messages import Hello, Init
from client.protocol.profiles import profile_for
from client.protocol.transport import (
    AddressInUseError,
    SocketKind,
    SocketOptions,
    UnknownPeerError,
)
from client.transports.sockets import ZmqTransport
from harness.capture.file import read_file
from harness.capture.kinds import kind_of_frame
from harness.capture.recording import HANDSHAKE, TO_ENGINE
from harness.recording.init_addresses import Addresses, addresses_of, with_addresses
from harness.recording.proxy import ENGINES, FRONTEND, Plan, Proxy
from harness.recording.release import ReleaseGuess
from harness.recording.sink import Sink
from harness.recording.watching import Watch
from harness.targets.reference import ZmqTarget
from tests.support.proxied import play_through_proxy
from tests.support.stories import load

pytestmark = pytest.mark.zmq
LIMIT_S = 30.0
PROFILE = profile_for("0.33.0")

STORY = """
topology: {topology}
engines:
  - engine: {last}
    rules:
      - {{on: utility, method: reset_mm_cache, do: {{fail: no memory}}}}
      - {{on: add, request: cut, do: {{stream: {{tokens: 3, pause_at: 1, gate: rest}}}}}}
steps:
  - call: {{id: one, rank: {first}, aux: ["00ff", "", "0102030405"]}}
  - call: {{id: two, rank: {last}, max_tokens: 20}}
  - finish: [one, two]
  - utility: {{id: u, method: reset_mm_cache}}
  - finish: u
  - expect: {{op: u, outcome: failed, error: UtilityCallFailed}}
  - call: {{id: cut, rank: {last}}}
  - wait: {{event: call-output, request: cut}}
  - drop: cut
  - fence: true
  - expect: {{count: {{event: abort, engine: {last}, equals: 1}}}}
  - open: rest
"""
TOPOLOGIES = {
    "one engine": ("{engines: 1}", 0, 0),
    "without a coordinator": ("{engines: 3}", 0, 2),
    "in-process coordinator": ("{engines: 2, coordinator: in-process}", 0, 1),
    "bootstrapped": ("{engines: 2, start_rank: 4, transport: bootstrapped}", 4, 5),
    "external coordinator": (
        "{engines: 2, transport: bootstrapped, coordinator: external}",
        0,
        1,
    ),
}


def story(name):
    topology, first, last = TOPOLOGIES[name]
    return load(STORY.format(topology=topology, first=first, last=last)).scenario


def by_socket(frames):
    """Messages of each engine, socket and direction, in order; of INIT only that there is one."""
    found = {}
    for frame in frames:
        key = (frame.engine, frame.socket, frame.direction)
        is_init = frame.socket == HANDSHAKE and frame.direction == TO_ENGINE
        found.setdefault(key, []).append("INIT" if is_init else frame.frames)
    return found


@pytest.mark.parametrize("release", ["0.33.0", "0.24.0"])
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_frame_passes_unchanged_and_in_order(tmp_path, name, release):
    through = play_through_proxy(story(name), ZmqTarget(), release, tmp_path / "f.jsonl")
    assert through.violated == []
    (recorded,) = read_file(through.path).stories
    assert by_socket(recorded.frames) == by_socket(through.at_engines)
    assert len(recorded.frames) == len(through.at_engines) > 20
    assert (recorded.release, through.guess.release) == (release, release)
    assert through.proxy.joined == tuple(sorted({f.engine for f in through.at_engines}))


def test_frames_behind_a_body_pass_as_they_are(tmp_path):
    name = "without a coordinator"
    through = play_through_proxy(story(name), ZmqTarget(), "0.33.0", tmp_path / "f.jsonl")
    (recorded,) = read_file(through.path).stories
    adds = [f.frames for f in recorded.frames if kind_of_frame(f).name == "add"]
    assert adds[0][2:] == (b"\x00\xff", b"", b"\x01\x02\x03\x04\x05")


def test_the_recorded_init_has_the_addresses_of_the_frontend(tmp_path):
    name = "in-process coordinator"
    through = play_through_proxy(story(name), ZmqTarget(), "0.33.0", tmp_path / "f.jsonl")
    (recorded,) = read_file(through.path).stories
    inits = [f for f in recorded.frames if kind_of_frame(f).name == "init"]
    told = [f for f in through.at_engines if kind_of_frame(f).name == "init"]
    for rank in (0, 1):
        (written,) = [addresses_of(f.frames[0]) for f in inits if f.engine == rank]
        (heard,) = [addresses_of(f.frames[0]) for f in told if f.engine == rank]
        assert not {*written.inputs, *written.outputs} & {*heard.inputs, *heard.outputs}
        assert written.coordinator_input != heard.coordinator_input


def test_engines_are_given_tcp_addresses_where_the_frontend_has_such(tmp_path):
    body = with_addresses(
        b"\x81\xa9addresses\x81\xa4more\x01",
        Addresses(("tcp://127.0.0.1:1",), ("ipc:///x",), "tcp://127.0.0.1:2", "ipc:///y"),
    )
    found = addresses_of(body)
    transport = ZmqTransport()

    async def ask():
        proxy = Proxy(transport, Plan(handshake="tcp://127.0.0.1:9"), None, print)
        ours = proxy._ours(3, found)
        await proxy.stop()
        return ours

    ours = asyncio.run(ask())
    transport.close()
    assert ours.inputs == ("tcp://127.0.0.1:*",)
    assert ours.coordinator_input == "tcp://127.0.0.1:*"
    assert ours.outputs[0].startswith("ipc://")
    assert b"more" in body


def test_an_address_in_use_is_said_when_the_proxy_starts(tmp_path):
    async def main():
        transport = ZmqTransport()
        try:
            holder = await transport.bind(SocketKind.ROUTER, "tcp://127.0.0.1:*")
            sink = Sink(tmp_path / "f.jsonl", ReleaseGuess())
            plan = Plan(handshake="tcp://127.0.0.1:9", listen=holder.endpoint)
            proxy = Proxy(transport, plan, sink, print)
            with pytest.raises(AddressInUseError, match="in use"):
                await proxy.start()
            await proxy.stop()
            sink.close()
        finally:
            transport.close()

    asyncio.run(main())


class Peers:
    """A frontend and one engine, made of bare sockets, with the proxy between them."""

    def __init__(self, path):
        self.path = path

    async def __aenter__(self):
        self.front, self.own, self.back = ZmqTransport(), ZmqTransport(), ZmqTransport()
        linger = SocketOptions(linger_ms=1000)
        self.router = await self.front.bind(SocketKind.ROUTER, "tcp://127.0.0.1:*", linger)
        self.pull = await self.front.bind(SocketKind.PULL, "tcp://127.0.0.1:*")
        self.sink = Sink(self.path, ReleaseGuess())
        down = Addresses((self.own.endpoint("in"),), (self.own.endpoint("out"),))
        up = Addresses((self.router.endpoint,), (self.pull.endpoint,))
        plan = Plan(upstream=up, down=down, ranks=[0])
        self.proxy = Proxy(self.own, plan, self.sink, lambda _line: None)
        await self.proxy.start()
        self.dealer = await self.back.connect(
            SocketKind.DEALER, down.inputs[0], SocketOptions(identity=b"\0\0")
        )
        self.push = await self.back.connect(
            SocketKind.PUSH, down.outputs[0], SocketOptions(linger_ms=1000)
        )
        await self.dealer.send([b"registered"])
        assert await self.router.recv() == [b"\0\0", b"registered"]
        return self

    async def __aexit__(self, *_):
        await self.proxy.stop()
        self.sink.close()
        for transport in (self.front, self.own, self.back):
            transport.close()


def run(path, talk):
    async def main():
        async with Peers(path) as peers:
            await with_deadline(talk(peers), LIMIT_S)

    asyncio.run(main())
    return read_file(path).stories[0].frames


def test_what_an_engine_said_last_still_reaches_the_frontend(tmp_path):
    async def talk(peers):
        for number in range(200):
            await peers.push.send([b"%d" % number, bytes(1000)])
        peers.back.close()
        await peers.proxy.ended()
        assert peers.proxy.reason == ENGINES
        assert [(await peers.pull.recv())[0] for _ in range(200)] == [
            b"%d" % number for number in range(200)
        ]

    assert len(run(tmp_path / "f.jsonl", talk)) == 201


def test_what_a_frontend_said_last_is_recorded_and_reaches_its_engine(tmp_path):
    async def talk(peers):
        for number in range(50):
            await peers.router.send([b"\0\0", b"\x01", b"%d" % number])
        peers.front.close()
        await peers.proxy.ended()
        assert peers.proxy.reason == FRONTEND
        received = [await peers.dealer.recv() for _ in range(50)]
        assert [frames[1] for frames in received] == [b"%d" % number for number in range(50)]

    assert len(run(tmp_path / "f.jsonl", talk)) == 51


async def join(transport, address, identity):
    """Join as an engine: HELLO, INIT, registration; returns the input socket."""
    options = SocketOptions(identity=identity)
    shake = await transport.connect(SocketKind.DEALER, address, options)
    await shake.send([Codec(PROFILE).encode_hello(Hello())])
    (init,) = await shake.recv()
    dealer = await transport.connect(SocketKind.DEALER, addresses_of(init).inputs[0], options)
    await dealer.send([b"registered"])
    return dealer


async def until_unknown(router, identity):
    """Return once the socket itself has forgotten a peer; that it is gone is told before."""
    while True:
        try:
            await router.send([identity, b"\1"])
        except UnknownPeerError:
            return
        await turn()


def test_the_end_of_one_engine_of_two_is_passed_on_and_ends_nothing(tmp_path):
    async def main():
        front, own, engines = ZmqTransport("tcp"), ZmqTransport(), [ZmqTransport(), ZmqTransport()]
        sink = Sink(tmp_path / "f.jsonl", ReleaseGuess())
        router, shakes = [await front.bind(SocketKind.ROUTER, front.endpoint("x")) for _ in "ab"]
        init = Codec(PROFILE).encode_init(Init((router.endpoint,), (front.endpoint("o"),)))
        left = asyncio.Event()
        watch = Watch(router, lambda: left.set() if watch.departed else None)
        lines = []
        proxy = Proxy(own, Plan(handshake=shakes.endpoint), sink, lines.append)
        try:
            await proxy.start()
            listen = lines[0].split()[-1]
            dealers = []
            for rank, transport in enumerate(engines):
                joining = asyncio.ensure_future(join(transport, listen, bytes([rank, 0])))
                assert (await shakes.recv())[0] == bytes([rank, 0])
                await shakes.send([bytes([rank, 0]), init])
                assert await router.recv() == [bytes([rank, 0]), b"registered"]
                dealers.append(await joining)
            engines[1].close()
            await with_deadline(left.wait(), LIMIT_S)
            await with_deadline(until_unknown(router, b"\1\0"), LIMIT_S)
            await router.send([b"\0\0", b"\1", b"still there"])
            assert await dealers[0].recv() == [b"\1", b"still there"]
            assert (proxy.reason, proxy.joined) == ("", (0, 1))
            engines[0].close()
            await with_deadline(proxy.ended(), LIMIT_S)
            assert proxy.reason == ENGINES
        finally:
            watch.stop()
            await proxy.stop()
            sink.close()
            for transport in (front, own, *engines):
                transport.close()

    asyncio.run(main())
