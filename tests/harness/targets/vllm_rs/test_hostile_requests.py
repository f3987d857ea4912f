"""What hostile callers need: bodies without end, silent connections, odd bytes and methods."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from pydantic import ValidationError

from client.aio import cancel_and_wait, turn
from harness.scenario.model import GrpcStep, HttpStep
from harness.targets.vllm_rs.http_api import HttpApi
from harness.targets.vllm_rs.http_wire import Exchange, Request

pytest.importorskip("h11", reason="the extra `frontend` is not installed")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"


def serve(story):
    """Run ``await story(address, got)``; ``got`` is what each connection has sent so far."""

    async def main():
        got: list[bytes] = []
        over: list[asyncio.Future[None]] = []

        async def handle(reader, writer):
            number = len(got)
            got.append(b"")
            over.append(asyncio.get_running_loop().create_future())
            with suppress(OSError):
                while data := await reader.read(65536):
                    got[number] += data
                    if got[number].startswith(b"GET") or got[number].endswith(b"!"):
                        writer.write(OK)
            writer.close()
            over[number].set_result(None)

        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        try:
            return await story(f"http://127.0.0.1:{port}", got)
        finally:
            listening.close()
            for each in over:
                await each

    return asyncio.run(main())


def test_text_is_sent_as_often_as_told():
    async def story(address, got):
        step = HttpStep(id="a", verb="PROPFIND", path="/x", text="ab!", repeat=3)
        return await HttpApi(address, "m").http(step), got

    result, (got,) = serve(story)
    assert (result.outcome, result.status) == ("finished", 200)
    assert got.startswith(b"PROPFIND /x HTTP/1.1\r\n")
    assert got.endswith(b"Content-Length: 9\r\n\r\nab!ab!ab!")


@pytest.mark.parametrize(("send", "counted"), [("nothing", 0), ("half", 3)])
def test_connections_alike_stay_open_until_their_caller_leaves(send, counted):
    async def story(address, got):
        api = HttpApi(address, "m")
        step = HttpStep(
            id="a", verb="POST", path="/v1/completions", body=[1], send=send, connections=3
        )
        task = asyncio.get_running_loop().create_task(api.http(step))
        try:
            while len(got) < 3 or (send == "half" and not all(got)):
                await turn()
            during = api.open_calls.open
        finally:
            await cancel_and_wait([task])
        return during, api.open_calls.open, got

    during, after, got = serve(story)
    assert (during, after) == (counted, 0)
    assert all(sent == b"" for sent in got) == (send == "nothing")


REFUSED = b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n%s\r\nno"
SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize(
    ("announced", "goes_on", "found"),
    [
        (b"", True, ("finished", 200)),
        (b"", False, ("failed", None)),
        (b"Connection: close\r\n", False, ("finished", 404)),
    ],
)
def test_second_request_on_a_connection_is_answered_or_was_told_not_to_come(
    announced, goes_on, found
):
    async def main():
        got, asked_beside = [], []

        async def handle(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /health "):
                # In between, on a connection of its own: by then a server has decided.
                asked_beside.append(len(got))
                writer.write(SECOND)
                return writer.close()
            got.append(head)
            writer.write(REFUSED % announced)
            if goes_on:
                got.append(await reader.readuntil(b"body"))
                got.append(await reader.readuntil(b"body"))
                writer.write(SECOND)
            return writer.close()

        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        api = HttpApi(f"http://127.0.0.1:{port}", "m")
        step = HttpStep(id="a", verb="POST", path="/x", text="body", send="head", again=True)
        try:
            return await api.http(step), got, asked_beside
        finally:
            listening.close()

    result, got, asked_beside = asyncio.run(main())
    assert (result.outcome, result.status) == found
    assert asked_beside == [1]
    assert got[0].startswith(b"POST /x HTTP/1.1")
    if goes_on:
        assert got[1] == b"body"
        assert got[2].startswith(b"POST /x HTTP/1.1")


def test_header_value_beyond_ascii_is_sent_as_its_bytes():
    async def story(address, got):
        request = Request("GET", "/x", (("X-Request-Id", "é"),))
        async with Exchange(address, request) as exchange:
            await exchange.status()
        return got

    (got,) = serve(story)
    assert b"X-Request-Id: \xc3\xa9\r\n" in got


@pytest.mark.parametrize("verb", ["get", "A B", "", "A\r\nB"])
def test_verb_that_would_break_the_request_line_is_refused(verb):
    with pytest.raises(ValidationError):
        HttpStep(id="a", path="/", verb=verb)


@pytest.mark.parametrize("wire", ["0", "xy", "0a f"])
def test_wire_that_is_no_hexadecimal_text_is_refused(wire):
    with pytest.raises(ValidationError):
        GrpcStep(id="a", method="Inference/Generate", wire=wire)


def test_wire_is_what_the_server_receives():
    grpc = pytest.importorskip("grpc", reason="the extra `frontend` is not installed")
    from harness.targets.vllm_rs.grpc_api import GrpcApi

    async def main():
        got = []

        async def answer(request, _context):
            got.append(request)
            return b""

        handler = grpc.unary_unary_rpc_method_handler(answer)
        methods = {"Generate": handler}
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("vllm.Inference", methods),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        api = GrpcApi(f"127.0.0.1:{port}", "0.33.0", "m")
        try:
            step = GrpcStep(id="a", method="Inference/Generate", wire="0aff")
            return await api.call(step), got
        finally:
            await api.close()
            await server.stop(None)

    result, got = asyncio.run(main())
    assert (result.outcome, result.status) == ("finished", "OK")
    assert got == [b"\x0a\xff"]
