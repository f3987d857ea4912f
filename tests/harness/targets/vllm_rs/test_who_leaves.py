"""HTTP callers who leave at each moment of their connection: nothing of it stays with us."""

from __future__ import annotations

import asyncio
import select
import socket
from contextlib import ExitStack, suppress

import pytest

from client.aio import cancel_and_wait, turn, with_deadline
from harness.scenario.model import CallStep, HttpStep
from harness.targets.vllm_rs.http_api import HttpApi
from harness.targets.vllm_rs.http_in_haste import open_abort_line, send_and_hang_up
from harness.targets.vllm_rs.http_wire import Request
from harness.targets.vllm_rs.listening import _connect
from mock_engines.gates import Gates

pytest.importorskip("h11", reason="the extra `frontend` is not installed")
psutil = pytest.importorskip("psutil", reason="the extra `frontend` is not installed")
MOMENTS = 40
"""Turns of the loop after which a caller leaves: more than he needs until his request is off."""
TURNS = 10
"""Enough for a connection that was cut to be closed."""
WAITING = 512
"""Connections that the kernel keeps for a server that does not accept them."""
LIMIT_S = 10.0
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"server_load":0'


async def abort(address):
    line = await open_abort_line(address)
    try:
        line.send(["a"])
        await line.answered()
    finally:
        line.close()


CALLS = {
    "request": lambda at: HttpApi(at, "m").request("POST", "/pause", body={"a": 1}),
    "request with a limit": lambda at: HttpApi(at, "m").probe("/health"),
    "generation": lambda at: HttpApi(at, "m").generate(
        CallStep(id="a"), "http-stream", lambda *_: None
    ),
    "any request": lambda at: HttpApi(at, "m").http(HttpStep(id="a", path="/x", connections=2)),
    "who does not read": lambda at: HttpApi(at, "m", Gates().wait).http(
        HttpStep(id="a", path="/x", read="never")
    ),
    "in haste": lambda at: send_and_hang_up(at, [Request("GET", "/x")] * 4, 2, 60.0),
    "abort line": abort,
}
WITHOUT_END = {"who does not read", "in haste"}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def descriptors() -> int:
    return psutil.Process().num_fds()


async def leave_after(turns, work):
    """Let a caller run for so many turns, then cancel him. Returns whether he was still there."""
    task = asyncio.get_running_loop().create_task(work)
    for _ in range(turns):
        await turn()
    there = not task.done()
    await cancel_and_wait([task])
    for _ in range(TURNS):
        await turn()
    return there


@pytest.fixture(params=["tcp", "unix"])
def silent(request, tmp_path):
    """A server that listens and accepts nothing, and its address."""
    family = socket.AF_INET if request.param == "tcp" else socket.AF_UNIX
    with socket.socket(family) as server:
        server.bind(("127.0.0.1", 0) if request.param == "tcp" else str(tmp_path / "s"))
        server.listen(WAITING)
        server.setblocking(False)
        name = server.getsockname()
        yield server, f"http://127.0.0.1:{name[1]}" if request.param == "tcp" else f"unix:{name}"


def accepted(server):
    """Accept late: what each connection carried, and whether its caller closed it."""
    found = []
    with suppress(BlockingIOError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.setblocking(False)
                found.append(_read(connection))
    return found


def _read(connection):
    data = b""
    try:
        while block := connection.recv(65536):
            data += block
    except ConnectionResetError:
        return data, True
    except BlockingIOError:
        return data, False
    return data, True


@every_call
def test_caller_who_leaves_while_he_connects_or_waits_leaves_no_descriptor(silent, call):
    server, address = silent

    async def sweep():
        before = descriptors()
        for moment in range(MOMENTS):
            assert await leave_after(moment, call(address)), "nobody answered him"
            assert descriptors() == before, f"left after {moment} turns"

    asyncio.run(sweep())
    found = accepted(server)
    assert all(closed for _, closed in found)
    # The moments lie on both sides of where the request goes off: on a Unix socket, where nobody
    # waits for a connection, nothing may lie between that and the first step of the caller.
    assert any(data for data, _ in found)
    assert server.family == socket.AF_UNIX or not all(data for data, _ in found)


@every_call
def test_caller_who_leaves_before_he_is_let_in_leaves_no_descriptor(call):
    with socket.socket() as server, ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        _fill(address, stack)

        async def sweep():
            before = descriptors()
            for moment in range(TURNS):
                work = call(f"http://127.0.0.1:{address[1]}")
                assert await leave_after(moment, work), "he was let in"
                assert descriptors() == before, f"left after {moment} turns"

        asyncio.run(sweep())


def _fill(address, stack):
    """Connect until the kernel takes no more: then whoever connects waits."""
    while True:
        connection = stack.enter_context(socket.socket())
        connection.setblocking(False)
        connection.connect_ex(address)
        if not select.select([], [connection], [], 0)[1]:
            return


@pytest.mark.parametrize(("name", "call"), CALLS.items(), ids=CALLS)
def test_caller_who_leaves_while_he_reads_leaves_no_descriptor(name, call):
    overs = []

    async def handle(reader, writer):
        over = asyncio.get_running_loop().create_future()
        overs.append(over)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
                await turn()
                writer.write(b"}")
                await reader.read()
        finally:
            writer.transport.abort()
            over.set_result(None)

    async def sweep():
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        there, before = [], descriptors()
        try:
            for moment in range(MOMENTS):
                there.append(await leave_after(moment, call(address)))
                while overs:
                    await with_deadline(overs.pop(), LIMIT_S)
                for _ in range(TURNS):
                    await turn()
                assert descriptors() == before, f"left after {moment} turns"
        finally:
            server.close()
        return there

    there = asyncio.run(sweep())
    # The first left, the last had his answer long before: the moments between lie on both sides.
    assert (there[0], there[-1]) == (True, name in WITHOUT_END)


def test_look_whether_somebody_listens_that_is_cut_short_leaves_no_descriptor(silent):
    server, address = silent
    engines = address.replace("http://", "tcp://").replace("unix:", "ipc://")

    async def sweep():
        before = descriptors()
        for moment in range(MOMENTS):
            await leave_after(moment, _connect(engines))
            assert descriptors() == before, f"left after {moment} turns"

    asyncio.run(sweep())
    assert all(closed for _, closed in accepted(server))
