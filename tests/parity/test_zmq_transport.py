"""What only the real transport has: addresses, files, ports, and its own queue."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket as os_socket
import sys
import tempfile
from pathlib import Path

import pytest

from client.protocol.transport import (
    AddressInUseError,
    SocketClosedError,
    SocketKind,
    SocketOptions,
    TransportError,
)
from client.transports import sockets
from client.transports.sockets import ZmqTransport

PUSH, PULL = SocketKind.PUSH, SocketKind.PULL
pytestmark = pytest.mark.zmq


def play(body, scheme="ipc"):
    async def main():
        transport = ZmqTransport(scheme)
        try:
            async with asyncio.timeout(20):
                return await body(transport)
        finally:
            transport.close()

    return asyncio.run(main())


async def passes(transport, pull, address):
    push = await transport.connect(PUSH, address)
    await push.send([b"x"])
    assert await pull.recv() == [b"x"]


def test_folder_of_socket_files_is_private_and_gone_after_close():
    async def story(transport):
        address = transport.endpoint("client/output")
        folder = Path(address.removeprefix("ipc://")).parent
        assert folder.stat().st_mode & 0o077 == 0
        await passes(transport, await transport.bind(PULL, address), address)
        assert [path.name for path in folder.iterdir()] == ["1-client.output"]
        return folder

    assert not play(story).exists()


def test_long_names_make_addresses_that_a_system_takes():
    async def story(transport):
        address = transport.endpoint("n" * 300)
        assert len(address.encode()) < 110
        await passes(transport, await transport.bind(PULL, address), address)

    play(story)


def test_port_zero_is_resolved_by_the_socket():
    async def story(transport):
        pull = await transport.bind(PULL, "tcp://127.0.0.1:0")
        assert int(pull.endpoint.rpartition(":")[2]) > 0
        await passes(transport, pull, pull.endpoint)

    play(story)


def test_made_ports_are_taken_by_nobody_else():
    async def story(transport):
        made = [transport.endpoint(name) for name in "ab"]
        port = int(made[0].rpartition(":")[2])
        with os_socket.socket() as rival, pytest.raises(OSError):
            rival.bind(("127.0.0.1", port))
        assert len(set(made)) == 2
        await passes(transport, await transport.bind(PULL, made[0]), made[0])

    play(story, "tcp")


def test_given_path_is_bound_and_a_stale_file_there_is_no_hindrance(tmp_path):
    path = tmp_path / "given"
    with os_socket.socket(os_socket.AF_UNIX) as stale:
        stale.bind(str(path))

    async def story(transport):
        address = f"ipc://{path}"
        await passes(transport, await transport.bind(PULL, address), address)

    play(story)


def test_used_tcp_port_is_refused_as_such():
    async def story(transport):
        with os_socket.socket() as rival:
            rival.bind(("127.0.0.1", 0))
            rival.listen()
            address = f"tcp://127.0.0.1:{rival.getsockname()[1]}"
            with pytest.raises(AddressInUseError, match=f"cannot bind PULL to {address}"):
                await transport.bind(PULL, address)

    play(story)


@pytest.mark.parametrize("address", ["nonsense", "ipc:///no/such/folder/x", "tcp://127.0.0.1"])
def test_address_that_libzmq_does_not_take_is_named(address):
    async def story(transport):
        with pytest.raises(TransportError, match=f"cannot bind PULL to {address}: "):
            await transport.bind(PULL, address)
        with pytest.raises(TransportError, match="cannot connect PUSH to nonsense: "):
            await transport.connect(PUSH, "nonsense")
        assert transport.open_sockets == 0

    play(story)


def test_message_of_a_reader_cancelled_as_it_woke_goes_to_the_next_reader():
    async def story(transport):
        pull = await transport.bind(PULL, transport.endpoint("output"))
        loop = asyncio.get_running_loop()
        first, second = (loop.create_task(pull.recv()) for _ in range(2))
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn
        pull._unread.append([b"x"])
        pull._wake_reader()
        first.cancel()
        assert await second == [b"x"]

    play(story)


def test_close_does_not_wait_longer_than_the_bound_for_a_peer_that_never_comes():
    async def story(transport):
        options = SocketOptions(linger_ms=60_000)
        push = await transport.connect(PUSH, transport.endpoint("nobody"), options)
        await push.send([b"x"])
        push.close()
        return asyncio.get_running_loop().time()

    begun = play(story)

    async def now():
        return asyncio.get_running_loop().time()

    assert asyncio.run(now()) - begun < 2.0


def test_error_of_libzmq_while_receiving_is_raised_by_recv():
    async def story(transport):
        pull = await transport.bind(PULL, transport.endpoint("output"))
        waiting = asyncio.get_running_loop().create_task(pull.recv())
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        pull._reading.set_exception(sockets.zmq.ZMQError(sockets.zmq.ETERM))
        with pytest.raises(SocketClosedError, match="receive on ipc"):
            await waiting

    play(story)


def test_long_path_of_temporary_files_falls_back_to_a_short_one(tmp_path, monkeypatch):
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    transport = ZmqTransport()
    try:
        path = transport.endpoint("input").removeprefix("ipc://")
        assert len(path.encode()) <= 100
        assert list(deep.iterdir()) == []
    finally:
        transport.close()
    assert not Path(path).parent.exists()


def test_socket_says_what_it_is_and_whether_something_is_unread():
    async def story(transport):
        address = transport.endpoint("output")
        pull = await transport.bind(PULL, address)
        assert (pull.kind, repr(pull)) == (PULL, f"<ZmqSocket PULL {address}>")
        assert not pull.has_unread
        push = await transport.connect(PUSH, address)
        for _ in range(2):
            await push.send([b"x"])
        assert await pull.recv() == [b"x"]
        await push.send([b"last"])
        assert await pull.recv() == [b"x"]
        assert await pull.recv() == [b"last"]
        assert not pull.has_unread
        pull._unread.append([b"kept"])
        assert pull.has_unread
        pull.close()
        assert not pull.has_unread

    play(story)


def test_socket_that_is_watched_tells_of_connections_and_a_closed_one_cannot_be():
    async def story(transport):
        address = transport.endpoint("output")
        pull = await transport.bind(PULL, address)
        monitor = pull.watch(sockets.zmq.Event.ACCEPTED)
        await transport.connect(PUSH, address)
        header, _peer = await monitor.recv_multipart()
        assert int.from_bytes(header[:2], sys.byteorder) == sockets.zmq.Event.ACCEPTED
        pull.close()
        with pytest.raises(SocketClosedError):
            pull.watch(sockets.zmq.Event.ALL)

    play(story)


async def stuck_send(transport):
    """A send that nobody takes, and the future on which it waits."""
    push = await transport.bind(PUSH, transport.endpoint("output"))
    sending = asyncio.get_running_loop().create_task(push.send([b"x"]))
    while not push._sending:
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
    (future,) = push._sending
    return push, sending, future


def test_send_that_was_taken_in_the_moment_of_the_close_has_been_sent():
    async def story(transport):
        push, sending, future = await stuck_send(transport)
        future.set_result(None)
        push.close()
        assert await sending is None

    play(story)


def test_sender_who_leaves_in_the_moment_of_the_close_is_cancelled_and_nothing_is_lost_unseen():
    unseen = []

    async def story(transport):
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unseen.append(told))
        push, sending, future = await stuck_send(transport)
        push.close()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert future.done()

    play(story)
    gc.collect()  # a future whose error nobody has seen says so when it goes
    assert unseen == []


def test_bind_that_is_cancelled_while_it_waits_for_its_address_leaves_no_socket():
    async def story(transport):
        address = transport.endpoint("output")
        first = await transport.bind(PULL, address)
        before = transport.open_sockets
        binding = asyncio.get_running_loop().create_task(transport.bind(PULL, address))
        holder = transport._bound[address] = Closed()
        await holder.asked
        binding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await binding
        assert transport.open_sockets == before
        await passes(transport, first, address)

    play(story)


class Closed:
    """Whoever held an address before; it is taken all the same."""

    def __init__(self):
        self.asked = asyncio.get_running_loop().create_future()

    @property
    def closed(self):
        self.asked.set_result(None)
        return True

    def close(self):
        """Nothing to close."""


def test_system_without_a_free_port_is_told_and_nothing_is_kept(monkeypatch):
    kept = []

    class Full(os_socket.socket):
        def bind(self, address):
            kept.append(self)
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    monkeypatch.setattr(sockets.os_socket, "socket", Full)
    transport = ZmqTransport("tcp")
    try:
        with pytest.raises(TransportError, match=r"no free port on 127\.0\.0\.1: Address already"):
            transport.endpoint("x")
        assert [each.fileno() for each in kept] == [-1]
    finally:
        transport.close()
