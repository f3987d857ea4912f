"""Callers who race the frontend, against a server of a few lines."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from harness.targets.vllm_rs.http_in_haste import open_abort_line, send_and_hang_up
from harness.targets.vllm_rs.http_wire import ConnectionFailed, Request

pytest.importorskip("h11", reason="the extra `frontend` is not installed")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


class Server:
    """Notes what each connection brought; answers each time that a JSON body is whole."""

    def __init__(self, replies=()):
        self.replies = list(replies)
        self.got = []
        self.open = self.open_most = 0
        self.ended = asyncio.Queue()

    async def handle(self, reader, writer):
        self.open += 1
        self.open_most = max(self.open_most, self.open)
        data = b""
        while more := await reader.read(65536):
            data += more
            if data.endswith(b"}") and self.replies:
                reply = self.replies.pop(0)
                if reply is None:
                    break
                writer.write(reply)
        self.open -= 1
        self.got.append(data)
        writer.close()
        self.ended.put_nowait(None)


def serve(story, replies=()):
    async def main():
        server = Server(replies)
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        try:
            return await story(f"http://127.0.0.1:{port}", server)
        finally:
            listening.close()
            await listening.wait_closed()

    return asyncio.run(main())


def test_each_request_is_sent_whole_on_a_connection_that_closes():
    requests = [Request("POST", f"/{n}", (), b"body") for n in range(7)]

    async def story(address, server):
        await send_and_hang_up(address, requests, 3, 0.001)
        for _ in requests:
            await server.ended.get()
        return server

    server = serve(story)
    assert sorted(data.split()[1] for data in server.got) == [b"/%d" % n for n in range(7)]
    assert all(data.endswith(b"\r\n\r\nbody") for data in server.got)


def test_more_at_once_than_there_are_requests_is_no_harm():
    async def story(address, server):
        await send_and_hang_up(address, [Request("GET", "/")], 50, 0)
        await server.ended.get()
        return server.got

    assert len(serve(story)) == 1


def test_nobody_who_listens_is_said():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectionFailed):
            asyncio.run(send_and_hang_up(address, [Request("GET", "/")], 1, 0))
        with pytest.raises(ConnectionFailed):
            asyncio.run(open_abort_line(address))


def test_abort_line_carries_one_abort_after_the_other():
    async def story(address, server):
        line = await open_abort_line(address)
        for name in ("a", "b"):
            line.send([name])
            await line.answered()
        line.close()
        await server.ended.get()
        return server.got

    (data,) = serve(story, [OK, OK])
    assert data.count(b"POST /abort_requests HTTP/1.1\r\n") == 2
    bodies = [part.partition(b"}")[0] + b"}" for part in data.split(b"\r\n\r\n")[1:]]
    assert [json.loads(body) for body in bodies] == [{"request_ids": ["a"]}, {"request_ids": ["b"]}]


@pytest.mark.parametrize("reply", [REFUSED, None])
def test_abort_that_is_refused_or_not_answered_is_said(reply):
    async def story(address, server):
        line = await open_abort_line(address)
        try:
            line.send(["a"])
            await line.answered()
        finally:
            line.close()
            await server.ended.get()

    with pytest.raises(ConnectionFailed):
        serve(story, [reply])
