"""One HTTP request on a connection of its own, against a server of a few lines."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from client.aio import turn
from harness.scenario.model import CallStep, HttpStep
from harness.targets.vllm_rs.http_api import HttpApi
from harness.targets.vllm_rs.http_wire import ConnectionFailed, Exchange, Request, place
from harness.targets.vllm_rs.open_requests import OpenRequests
from mock_engines.gates import Gates

pytest.importorskip("h11", reason="the extra `frontend` is not installed")
TURNS = 200
"""Enough for all that can move between two ends in one loop."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Server:
    """Answers each connection with fixed bytes, and then closes it, or waits for its end."""

    def __init__(self, reply, *, close=True):
        self.reply, self.close = reply, close
        self.got = []
        self.over = []

    async def handle(self, reader, writer):
        over = asyncio.get_running_loop().create_future()
        self.over.append(over)
        try:
            self.got.append(await reader.read(65536))
            writer.write(self.reply)
            if not self.close:
                await reader.read()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            over.set_result(None)

    async def all_over(self):
        """Return once every connection is closed."""
        for over in self.over:
            await over


def serve(story, reply=OK, **kwargs):
    """Run ``await story(address, server)`` with a server."""

    async def main():
        server = Server(reply, **kwargs)
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        try:
            return await story(f"http://127.0.0.1:{port}", server)
        finally:
            listening.close()
            await server.all_over()

    return asyncio.run(main())


def test_a_request_and_its_answer_are_whole():
    async def story(address, server):
        request = Request("POST", "/x?a=1", (("X-Y", "z"),), b"body")
        async with Exchange(address, request) as exchange:
            return await exchange.status(), await exchange.text(), server.got

    status, text, (got,) = serve(story)
    assert (status, text) == (200, "hi")
    assert got.startswith(b"POST /x?a=1 HTTP/1.1\r\n")
    assert b"X-Y: z\r\n" in got
    assert got.endswith(b"Content-Length: 4\r\n\r\nbody")


@pytest.mark.parametrize(("send", "tail"), [("half", b"\r\n\r\nab"), ("head", b"\r\n\r\n")])
def test_a_request_that_is_not_whole_promises_more_than_it_sends(send, tail):
    async def story(address, server):
        async with Exchange(address, Request("POST", "/x", (), b"abcd", send)) as exchange:
            await exchange.status()
        return server.got

    (got,) = serve(story)
    assert b"Content-Length: 4" in got
    assert got.endswith(tail)


def test_bytes_behind_a_request_are_sent_with_it():
    async def story(address, server):
        request = Request("POST", "/x", (), b"body", behind=b"\r\n")
        async with Exchange(address, request) as exchange:
            return await exchange.status(), server.got

    status, (got,) = serve(story)
    assert (status, got[-8:]) == (200, b"\r\nbody\r\n")


def test_who_leaves_closes_the_connection():
    async def story(address, server):
        async with Exchange(address, Request("GET", "/x")):
            while not server.over:
                await turn()
        await server.all_over()

    serve(story, reply=b"", close=False)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        b"no http\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_off_is_a_lost_connection(reply):
    async def story(address, _server):
        async with Exchange(address, Request("GET", "/x")) as exchange:
            await exchange.status()
            await exchange.text()

    with pytest.raises(ConnectionFailed) as caught:
        serve(story, reply=reply)
    assert caught.value.name == "ConnectionLost"


@pytest.mark.parametrize(
    ("verb", "headers", "reply"),
    [
        ("GET", (("Upgrade", "h2c"), ("Connection", "upgrade")), b"HTTP/1.1 101 Yes\r\n\r\n"),
        ("CONNECT", (), b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
)
def test_a_change_of_protocol_is_no_answer_and_no_endless_wait(verb, headers, reply):
    async def story(address, _server):
        async with Exchange(address, Request(verb, "/", headers)) as exchange:
            await exchange.status()
            return await exchange.text()

    with pytest.raises(ConnectionFailed, match="another protocol"):
        serve(story, reply)


def test_a_port_where_nobody_listens_refuses():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"

        async def main():
            async with Exchange(address, Request("GET", "/x")):
                pass

        with pytest.raises(ConnectionFailed) as caught:
            asyncio.run(main())
    assert caught.value.name == "ConnectionRefused"


def test_a_caller_who_does_not_read_stops_the_sender_until_the_gate_opens():
    size = 250_000  # more than fits between the two, less than a reader would take of itself

    async def main():
        loop = asyncio.get_running_loop()
        kept, over, gate = loop.create_future(), loop.create_future(), asyncio.Event()

        async def handle(reader, writer):
            await reader.read(65536)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            kept.set_result(writer.transport)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            over.set_result(None)

        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            async with Exchange(address, Request("GET", "/x"), gate.wait) as exchange:
                transport = await kept
                for _ in range(TURNS):
                    await turn()
                left = transport.get_write_buffer_size()
                gate.set()
                return left, await exchange.status(), len(await exchange.text())
        finally:
            listening.close()
            await over

    left, status, length = asyncio.run(main())
    assert left > 0
    assert (status, length) == (200, size)


def test_a_unix_socket_is_an_address_too(tmp_path):
    async def main():
        path = tmp_path / "s"
        server = Server(OK)
        listening = await asyncio.start_unix_server(server.handle, path)
        try:
            async with Exchange(f"unix:{path}", Request("GET", "/x")) as exchange:
                return await exchange.status()
        finally:
            listening.close()
            await server.all_over()

    assert asyncio.run(main()) == 200


def test_address_of_version_six_is_reached():
    async def main():
        server = Server(OK)
        try:
            listening = await asyncio.start_server(server.handle, "::1", 0)
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
        port = listening.sockets[0].getsockname()[1]
        try:
            async with Exchange(f"http://[::1]:{port}", Request("GET", "/x")) as exchange:
                return await exchange.status()
        finally:
            listening.close()
            await server.all_over()

    assert place("http://[::1]:80") == (socket.AF_INET6, ("::1", 80))
    assert asyncio.run(main()) == 200


def test_any_request_is_finished_whatever_its_status_and_failed_without_an_answer():
    async def story(address, server):
        api = HttpApi(address, "m")
        step = HttpStep(id="a", verb="POST", path="/a b", query={"t": ["1", "2"]}, body={"k": 1})
        found = await api.http(step)
        server.reply = b""
        return found, await api.http(HttpStep(id="b", path="/x")), server.got[0]

    found, lost, got = serve(story, reply=b'HTTP/1.1 418 No\r\nContent-Length: 7\r\n\r\n{"a":1}')
    assert (found.outcome, found.status, found.body, found.text) == (
        "finished",
        418,
        {"a": 1},
        '{"a":1}',
    )
    assert got.startswith(b"POST /a%20b?t=1&t=2 HTTP/1.1\r\n")
    assert b"Content-Type: application/json" in got
    assert (lost.outcome, lost.error, lost.status) == ("failed", "ConnectionLost", None)


def test_request_of_an_admin_has_its_query_and_body_and_whatever_comes_is_its_answer():
    async def story(address, server):
        api = HttpApi(address, "m")
        asked = await api.request("POST", "/pause", query=[("mode", "wait a"), ("tags", "é")])
        server.reply = b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nno!"
        told = await api.request("POST", "/abort_requests", body={"request_ids": ["a"]})
        server.reply = b""
        return asked, told, await api.request("GET", "/health"), server.got

    asked, told, lost, got = serve(story)
    assert (asked.status, asked.body, asked.lost) == (200, "hi", None)
    assert (told.status, told.body, told.lost) == (500, "no!", None)
    assert (lost.status, lost.lost) == (0, "ConnectionLost")
    assert got[0].startswith(b"POST /pause?mode=wait+a&tags=%C3%A9 HTTP/1.1\r\n")
    assert b"Content-" not in got[0]
    assert b"Content-Type: application/json\r\n" in got[1]
    assert got[1].endswith(b'\r\n\r\n{"request_ids": ["a"]}')


def test_request_that_nobody_takes_or_answers_says_so():
    async def story(address, _server):
        return await HttpApi(address, "m").request("GET", "/x", timeout_s=0.05)

    slow = serve(story, reply=b"HTTP/1.1 200 OK\r\n", close=False)
    assert (slow.status, slow.lost, slow.body) == (0, "Timeout", "no answer within 0.05 s")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        api = HttpApi(f"http://127.0.0.1:{unused.getsockname()[1]}", "m")
        refused = asyncio.run(api.probe("/health"))
    assert (refused.status, refused.lost) == (0, "ConnectionRefused")


CHUNK = b'data: {"choices":[{"text":"a","token_ids":[97],"finish_reason":%s}]}\n\n'


@pytest.mark.parametrize(
    ("body", "outcome", "error", "finish"),
    [
        (CHUNK % b'"length"' + b"data: [DONE]\n\n", "finished", None, "length"),
        (CHUNK % b'"length"', "failed", "StreamCut", "length"),
        (CHUNK % b"null" + b"data: [DONE]\n\n", "failed", "StreamCut", None),
        (
            b'data: {"error":{"message":"Internal server error","code":500}}\n\ndata: [DONE]\n\n',
            "finished",
            "HttpError500",
            "error",
        ),
        (
            CHUNK % b'"stop"' + b"data: [DONE]\n\n" + CHUNK % b"null",
            "failed",
            "StreamOverrun",
            "stop",
        ),
    ],
)
def test_a_stream_is_a_success_only_with_finish_reason_and_end(body, outcome, error, finish):
    async def story(address, _server):
        return await HttpApi(address, "m").generate(
            CallStep(id="a"), "http-stream", lambda *_: None
        )

    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    result = serve(story, reply=reply)
    assert (result.outcome, result.error, result.finish) == (outcome, error, finish)
    assert result.status == 200


def test_an_answer_without_a_finish_reason_is_no_success():
    async def story(address, _server):
        return await HttpApi(address, "m").generate(CallStep(id="a"), "http", lambda *_: None)

    assert serve(story).outcome == "failed"


def test_open_requests_are_counted_while_they_are_open_and_as_unread_at_their_gate():
    async def main():
        gates, server = Gates(), Server(OK, close=False)
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        api = HttpApi(f"http://127.0.0.1:{port}", "m", gates.wait)
        step = HttpStep(id="a", path="/v1/completions?x=1", read="g")
        task = asyncio.get_running_loop().create_task(api.http(step))
        try:
            while not gates.waiting("g"):
                await turn()
            before = (api.open_calls.open, api.open_calls.unread)
            gates.open("g")
            await task
            return before, (api.open_calls.open, api.open_calls.unread)
        finally:
            listening.close()
            await server.all_over()

    assert asyncio.run(main()) == ((1, 1), (0, 0))


@pytest.mark.parametrize(
    ("load", "agrees"), [(0, False), (1, True), (2, True), (3, False), (None, False)]
)
def test_the_frontend_may_be_done_with_what_is_not_read(load, agrees):
    book = OpenRequests()
    with (
        book.request("/v1/chat/completions"),
        book.request("/v1/completions?x"),
        book.request("/health"),
        book.not_reading(),
    ):
        assert book.agrees(load) is agrees
    assert book.agrees(0)
