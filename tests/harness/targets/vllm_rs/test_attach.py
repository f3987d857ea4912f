"""The word after ``--attach``: what it may say, what it means, what is left to judge."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager

import pytest

from client.aio import turn, with_deadline
from client.protocol.profiles import RELEASES, profile_for
from client.transports.sockets import ZmqTransport
from harness.scenario.model import Topology
from harness.targets.base import TargetError
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
from harness.targets.vllm_rs import attached, listening
from harness.targets.vllm_rs.attach import AttachError, parse_attachment
from harness.targets.vllm_rs.attached import AttachedLife
from harness.targets.vllm_rs.attached_target import AttachedTarget, attached_capabilities
from harness.targets.vllm_rs.capabilities import capabilities
from harness.targets.vllm_rs.http_api import HttpApi
from harness.trace.events import LogLine

OWNER = "http://127.0.0.1:8000,handshake=tcp://127.0.0.1:9000,model=m"
BOOTSTRAPPED = "unix:/run/http,input=ipc:///run/in,output=ipc:///run/out,model=m"
RELEASE = "0.33.0"


def test_a_handshake_owner_is_told_by_its_handshake_address():
    at = parse_attachment(OWNER + ",grpc=127.0.0.1:8001,engines=2,start=0,moe=yes,log=/x")
    assert (at.http, at.transport) == ("http://127.0.0.1:8000", "handshake-owner")
    assert (at.grpc, at.engines, at.moe, at.log) == ("127.0.0.1:8001", 2, True, "/x")


def test_a_bootstrapped_one_is_told_by_input_and_output():
    at = parse_attachment(BOOTSTRAPPED + ",coordinator=ipc:///run/c,start=4")
    assert (at.transport, at.coordinator, at.start) == ("bootstrapped", "ipc:///run/c", 4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1:8000", "http://HOST:PORT or unix:PATH first"),
        ("unix:", "first"),
        (OWNER.replace("8000", "99999"), "a port is a number from 1 to 65535, not 99999"),
        (OWNER.replace("8000", "0"), "a port is a number from 1 to 65535, not 0"),
        ("http://127.0.0.1,model=m", "http://HOST:PORT or unix:PATH first"),
        (OWNER.replace("8000", "8000/v1"), "http://HOST:PORT or unix:PATH first"),
        ("http://h:1,handshake=nonsense,model=m", "handshake=nonsense is no address"),
        ("http://h:1,handshake=tcp://h,model=m", "tcp://HOST:PORT or ipc://PATH"),
        ("http://h:1,handshake=tcp://h:70000,model=m", "not 70000"),
        (BOOTSTRAPPED + ",coordinator=here", "coordinator=here is no address"),
        (OWNER + ",grpc=http://h:1", "grpc=http://h:1 is no address; it wants HOST:PORT"),
        (OWNER + ",grpc=unix:", "grpc=unix: is no address"),
        (OWNER + ",engine=2", "unknown key 'engine'; did you mean 'engines'"),
        (OWNER + ",log=", "log has no value"),
        (OWNER + ",model=n", "model is given twice"),
        (OWNER + ",engines=0", "engines=0 is no number"),
        (OWNER + ",start=x", "start=x is no number"),
        (OWNER + ",start=65536", "start=65536 is no number of a rank (0 to 65,535)"),
        (OWNER + f",start={'1' * 5_000}", "is no number of a rank (0 to 65,535)"),
        (OWNER + f",engines={'1' * 5_000}", "is no number of engines (1 to 65,536)"),
        (OWNER + ",moe=maybe", "neither yes nor no"),
        (OWNER + ",input=ipc:///x", "exclude each other"),
        ("http://h:1,handshake=tcp://h:2", "model= is missing"),
        ("http://h:1,model=m", "handshake= is missing"),
        ("http://h:1,model=m,input=ipc:///x", "output= is missing"),
    ],
)
def test_what_cannot_be_understood_says_what_is_wrong(text, words):
    with pytest.raises(AttachError) as caught:
        parse_attachment(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "topology", "words"),
    [
        (OWNER + ",engines=2", {"engines": 3}, "waits for 2 engines, not 3"),
        (OWNER, {"transport": "bootstrapped"}, "is a handshake-owner"),
        (OWNER, {"start_rank": 2}, "begin at 0"),
        (OWNER, {"coordinator": "in-process"}, "has no coordinator inside"),
        (OWNER + ",moe=yes", {}, "has a coordinator inside"),
        (
            BOOTSTRAPPED,
            {"transport": "bootstrapped", "coordinator": "external"},
            "has no external coordinator",
        ),
        (OWNER, {"config": {"ready_timeout_s": 1}}, "settings of the start"),
    ],
)
def test_a_topology_that_does_not_fit_is_named(text, topology, words):
    assert words in (parse_attachment(text).mismatch(Topology(**topology)) or "")


def test_a_topology_that_fits_is_no_mismatch():
    assert parse_attachment(OWNER + ",engines=2").mismatch(Topology(engines=2)) is None
    moe = parse_attachment(OWNER + ",moe=yes")
    assert moe.mismatch(Topology(coordinator="in-process")) is None


def test_nothing_that_needs_our_own_process_is_left():
    left = attached_capabilities(parse_attachment(OWNER), RELEASE)
    assert left < capabilities(RELEASE)
    gone = capabilities(RELEASE) - left
    assert {"see.process", "fault.signal", "op.shutdown", "see.log", "see.failure"} <= gone
    assert {"surface.grpc", "transport.bootstrapped", "coordinator.in-process"} <= gone


def test_a_log_file_and_a_grpc_address_bring_back_what_they_show():
    at = parse_attachment(BOOTSTRAPPED + ",coordinator=ipc:///c,log=/x,grpc=unix:/g")
    left = attached_capabilities(at, RELEASE)
    assert {"see.log", "see.publishes", "surface.grpc", "coordinator.external"} <= left
    assert not {"coordinator.none", "transport.handshake-owner"} & left


def test_the_release_must_be_said():
    with pytest.raises(AttachError, match="--as-release"):
        open_target(TargetRequest("vllm-rs", attach=OWNER))
    with listener() as port:
        word = OWNER.replace("9000", str(port))
        target = open_target(TargetRequest("vllm-rs", attach=word, profile=RELEASE))
    assert isinstance(target, AttachedTarget)
    assert target.info.version == RELEASE


@contextmanager
def listener():
    """Somebody who takes connections on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_newer_release_than_all_is_judged_as_the_newest_and_both_are_named():
    with listener() as port:
        word = OWNER.replace("9000", str(port))
        target = open_target(TargetRequest("vllm-rs", attach=word, profile="0.99.0"))
    assert target.info.version == RELEASES[-1]
    (note,) = target.info.notes
    assert "--as-release: 0.99.0 is newer" in note
    assert f"the promises of {RELEASES[-1]}" in note


def test_an_address_at_which_nobody_listens_is_named_before_anything_is_played(monkeypatch):
    monkeypatch.setattr(listening, "WAIT_S", 0.2)
    with listener() as port:
        pass
    word = OWNER.replace("9000", str(port))
    with pytest.raises(TargetError) as caught:
        open_target(TargetRequest("vllm-rs", attach=word, profile=RELEASE))
    assert str(caught.value).startswith(
        f"nobody listens at tcp://127.0.0.1:{port}, where engines are to join (handshake= of "
        "--attach): connection refused"
    )


def test_one_that_listens_a_moment_later_is_waited_for(tmp_path):
    path = tmp_path / "in"
    at = parse_attachment(f"http://h:1,input=ipc://{path},output=ipc://{path},model=m")
    server = socket.socket(socket.AF_UNIX)
    timer = threading.Timer(0.2, lambda: (server.bind(str(path)), server.listen()))
    timer.start()
    try:
        listening.check_listening(at)
    finally:
        timer.join()
        server.close()


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("unix:{none},handshake=tcp://h:1,model=m", "the HTTP socket"),
        ("http://h:1,handshake=ipc://{none},model=m", "handshake"),
        ("http://h:1,input=ipc://{none},output=tcp://h:1,model=m", "input"),
        ("http://h:1,handshake=tcp://h:1,model=m,grpc=unix:{none}", "grpc"),
        ("http://h:1,handshake=tcp://h:1,model=m,log={none}", "log"),
    ],
)
def test_a_file_that_is_not_there_is_wrong_use(tmp_path, word, name):
    word = word.format(none=tmp_path / "none")
    with pytest.raises(AttachError, match=f"{name}: there is no file {tmp_path}/none"):
        open_target(TargetRequest("vllm-rs", attach=word, profile=RELEASE))


# --- against a server that is no frontend --------------------------------------------------


class Served:
    """A server on a Unix socket that answers every request with 200, once it may."""

    def __init__(self, path):
        self.path = path
        self.may_answer = asyncio.Event()
        self._server = None

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._answer, self.path)
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _answer(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        await self.may_answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


def life_of(path, transport, emit=lambda _event: None, more=""):
    at = parse_attachment(
        f"unix:{path},input=ipc://{path}-in,output=ipc://{path}-out,model=m{more}"
    )
    topology = Topology(transport="bootstrapped")
    return AttachedLife(
        at, topology=topology, profile=profile_for(RELEASE), emit=emit, transport=transport
    )


def test_a_frontend_that_serves_already_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "FRESH_S", 0.1)

    async def main():
        async with Served(tmp_path / "http") as server:
            server.may_answer.set()
            transport = ZmqTransport()
            try:
                with pytest.raises(TargetError, match="serves already"):
                    await life_of(server.path, transport).prepare()
            finally:
                transport.close()

    asyncio.run(main())


def test_one_that_waits_is_taken_and_start_returns_when_it_serves(tmp_path):
    async def main():
        async with Served(tmp_path / "http") as server:
            transport = ZmqTransport()
            life = life_of(server.path, transport)
            http = HttpApi(life.http, life.model)
            try:
                await life.prepare()
                start = asyncio.get_running_loop().create_task(life.start(http))
                asyncio.get_running_loop().call_later(0.05, server.may_answer.set)
                await with_deadline(start, 10)
            finally:
                await life.stop()
                transport.close()

    asyncio.run(main())


def test_one_that_never_serves_is_an_error_that_names_what_was_expected(tmp_path, monkeypatch):
    monkeypatch.setattr(attached, "READY_S", 0.1)

    async def main():
        transport = ZmqTransport()
        life = life_of(tmp_path / "nobody", transport)
        http = HttpApi(life.http, life.model)
        try:
            await life.prepare()
            with pytest.raises(TargetError, match="for 2 engines from rank 0"):
                await life.start(http)
        finally:
            await life.stop()
            transport.close()

    asyncio.run(main())


def test_a_log_is_read_from_where_it_ends_at_the_start(tmp_path):
    log = tmp_path / "log"
    head = "(RustFrontend pid=7) DEBUG 11-29 18:10:33 [src/a.rs:1] "
    log.write_text(head + "old line\n")
    seen = []

    async def main():
        transport = ZmqTransport()
        arrived = asyncio.get_running_loop().create_future()

        def emit(event):
            seen.append(event)
            if len(seen) == 2 and not arrived.done():
                arrived.set_result(None)

        life = life_of(tmp_path / "nobody", transport, emit, f",log={log}")
        try:
            await life.prepare()
            with log.open("a") as file:
                file.write(head + "engine-core client shut down\n" + head + "half ")
                file.flush()
                file.write("a line\n")
            await with_deadline(arrived, 10)
        finally:
            await life.stop()
            transport.close()

    asyncio.run(main())
    assert [event.pattern for event in seen] == ["client-closed", "other"]
    assert all(isinstance(event, LogLine) for event in seen)
    assert seen[1].text == "half a line"


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_log_is_closed_whenever_the_run_ends(tmp_path, turns):
    psutil = pytest.importorskip("psutil", reason="the extra `frontend` is not installed")
    log = tmp_path / "log"
    log.write_text("")

    async def main():
        transport = ZmqTransport()
        life = life_of(tmp_path / "nobody", transport, more=f",log={log}")
        try:
            before = psutil.Process().open_files()
            await life.prepare()
            for _ in range(turns):
                await turn()
            during = psutil.Process().open_files()
            await life.stop()
            await turn()
            return before, during, psutil.Process().open_files()
        finally:
            transport.close()

    before, during, after = asyncio.run(main())
    assert str(log) in {file.path for file in during}
    assert after == before


def test_a_log_that_cannot_be_read_is_an_error(tmp_path):
    async def main():
        transport = ZmqTransport()
        try:
            life = life_of(tmp_path / "nobody", transport, more=f",log={tmp_path}/none")
            with pytest.raises(TargetError, match="cannot read the log"):
                await life.prepare()
        finally:
            transport.close()

    asyncio.run(main())


def test_nobody_but_its_owner_ends_it(tmp_path):
    async def main():
        transport = ZmqTransport()
        try:
            life = life_of(tmp_path / "nobody", transport)
            for ending in (life.shutdown(0), life.signal("TERM")):
                with pytest.raises(TargetError, match="not ours"):
                    await ending
            return life.use(), await life.exit_code()
        finally:
            transport.close()

    assert asyncio.run(main()) == (None, None)
