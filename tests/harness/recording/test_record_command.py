"""``wavecheck record``: as a process, with our client as the frontend."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from client.aio import with_deadline
from client.config import Bootstrapped, ClientConfig, HandshakeOwner, InProcessCoordinator
from client.engine_client import EngineClient
from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreRequest
from client.protocol.profiles import profile_for
from client.protocol.transport import SocketKind
from client.transports.sockets import ZmqTransport
from harness.capture.file import read_file
from harness.capture.vectors import load as load_vectors
from harness.cli.main import cli
from harness.scenario.model import Topology
from harness.scenario.positions import parse_yaml

LIMIT_S = 60.0
HANDSHAKE = ("--handshake", "tcp://127.0.0.1:9")


def invoke(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    return result.exit_code, result.output


@contextlib.contextmanager
def recorder(*words, more=()):
    """Start commands of ours; each is ended whatever happens."""
    with contextlib.ExitStack() as stack:
        found = []
        for command in (("record", *words), *more):
            process = subprocess.Popen(
                [sys.executable, "-m", "harness.cli", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.stdout.close)
            stack.callback(process.kill)
            found.append(process)
        yield found[0] if len(found) == 1 else found


class Frontend:
    """Our client, as the frontend that somebody else runs."""

    def __init__(self, folder, engines=2, release="0.33.0", coordinator=True):
        self.handshake = f"ipc://{folder}/hs"
        self.engines, self.release, self.coordinator = engines, release, coordinator

    async def serve(self, talk):
        transport = ZmqTransport()
        waves = InProcessCoordinator(transport.endpoint("ci"), transport.endpoint("co"))
        mode = HandshakeOwner(
            self.handshake,
            transport.endpoint("in"),
            transport.endpoint("out"),
            self.engines,
            self.engines,
            waves if self.coordinator else None,
        )
        try:
            config = ClientConfig(profile_for(self.release), mode)
            client = await with_deadline(EngineClient.connect(config, transport), LIMIT_S)
            try:
                await with_deadline(talk(client), LIMIT_S)
            finally:
                await client.shutdown()
        finally:
            transport.close()

    def run(self, talk):
        asyncio.run(self.serve(talk))


async def one_request_and_a_call(client):
    request = EngineCoreRequest(
        request_id=RequestId("mine"),
        external_req_id="mine",
        prompt_token_ids=(1, 2, 3),
        sampling_params={"max_tokens": 4},
        data_parallel_rank=1,
    )
    async with await client.call(request) as stream:
        assert sum([len(row.new_token_ids) async for row in stream]) == 4
    assert await client.is_sleeping() is False


def result_of(process, code=0):
    text, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, text
    return text


def check_folder(folder, *, engines=2, coordinator="in-process"):
    """Everything in it can be read, and the scenario holds."""
    (story,) = read_file(folder / "frames.jsonl").stories
    assert {f.engine for f in story.frames} == set(range(engines))
    kinds = {vector.kind for vector in load_vectors(folder / "golden")}
    assert kinds >= {"hello", "init", "registration", "ready", "add", "outputs", "utility"}
    text = (folder / "scenario.yaml").read_text()
    assert f"coordinator: {coordinator}" in text
    assert "call: {id: mine, rank: 1, prompt: [1, 2, 3], max_tokens: 4}" in text
    assert invoke("validate", folder / "scenario.yaml")[0] == 0
    code, output = invoke("run", folder / "scenario.yaml")
    assert (code, "1 held" in output) == (0, True), output
    assert invoke("decode", folder / "frames.jsonl")[0] == 0
    return story


# --- sessions -------------------------------------------------------------------------------


@pytest.mark.zmq
@pytest.mark.slow
def test_mock_engines_record_until_the_frontend_leaves(tmp_path):
    frontend, out = Frontend(tmp_path), tmp_path / "out"
    report = tmp_path / "r.json"
    words = ("--handshake", frontend.handshake, "--engines", 2, "-o", out, "--json", report)
    with recorder(*words) as process:
        frontend.run(one_request_and_a_call)
        text = result_of(process)
    assert "the frontend left" in text
    assert "all engines have joined" in text
    check_folder(out)
    told = json.loads(report.read_text())
    assert (told["ended"], told["joined"], told["engines"]) == ("the frontend left", [0, 1], [0, 1])
    assert told["messages"] == sum(told["kinds"].values()) > 10
    assert (told["release"]["is"], told["exit"], told["proxy"]) == ("0.33.0", 0, False)


@pytest.mark.zmq
@pytest.mark.slow
@pytest.mark.parametrize("redact", [(), ("--redact",)])
def test_the_proxy_records_mock_engines_in_another_process(tmp_path, redact):
    frontend, out = Frontend(tmp_path, release="0.28.0"), tmp_path / "out"
    listen = f"ipc://{tmp_path}/engines"
    words = ("--proxy", "--handshake", frontend.handshake, "--listen", listen, "-o", out, *redact)
    engines = ("engine", "--handshake", listen, "--engines", 2, "--profile", "0.28.0")
    with recorder(*words, more=[engines]) as (process, other):
        frontend.run(one_request_and_a_call)
        text = result_of(process)
        other.send_signal(signal.SIGINT)
        result_of(other)
    assert "release 0.28.0 (as the engines say)" in text
    if redact:
        assert "mine" not in (out / "scenario.yaml").read_text()
        sources = {vector.source for vector in load_vectors(out / "golden")}
        assert sources == {"recorded 0.28.0 (redacted), record/session"}
        assert invoke("run", out / "scenario.yaml")[0] == 0
    else:
        check_folder(out)
    assert sorted(os.listdir(tmp_path)) == ["hs", "out"]  # the first is the frontend's


@pytest.mark.zmq
@pytest.mark.slow
def test_a_bootstrapped_frontend_has_a_proxy_at_addresses_in_a_row(tmp_path):
    there = {name: f"ipc://{tmp_path}/{name}" for name in ("in", "out")}
    up = ("--input", there["in"], "--output", there["out"])
    ours = ("--input", f"ipc://{tmp_path}/e-input", "--output", f"ipc://{tmp_path}/e-output")
    out = tmp_path / "rec"
    words = ("--proxy", *up, "--engines", 2, "--listen", f"ipc://{tmp_path}/e", "-o", out)
    with recorder(*words, more=[("engine", *ours, "--engines", 2)]) as (process, other):

        async def main():
            transport = ZmqTransport()
            mode = Bootstrapped(there["in"], there["out"], 0, 2, 2)
            try:
                config = ClientConfig(profile_for("0.33.0"), mode)
                client = await with_deadline(EngineClient.connect(config, transport), LIMIT_S)
                await with_deadline(one_request_and_a_call(client), LIMIT_S)
                await client.shutdown()
            finally:
                transport.close()

        asyncio.run(main())
        assert f"engines: {' '.join(ours)}" in result_of(process)
        other.kill()
    text = (out / "scenario.yaml").read_text()
    assert "topology: {engines: 2, transport: bootstrapped}" in text
    assert invoke("run", out / "scenario.yaml")[0] == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith("e-")]


@pytest.mark.zmq
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_record_and_keeps_what_there_is(tmp_path, signum):
    frontend, out = Frontend(tmp_path, coordinator=False), tmp_path / "out"
    words = ("--handshake", frontend.handshake, "--engines", 2, "-o", out)
    with recorder(*words) as process:

        async def talk(client):
            await one_request_and_a_call(client)
            process.send_signal(signum)
            await asyncio.get_running_loop().run_in_executor(None, result_of, process)

        frontend.run(talk)
    assert read_file(out / "frames.jsonl").notes == ()
    assert "mine" in (out / "scenario.yaml").read_text()


@pytest.mark.zmq
@pytest.mark.slow
def test_a_recorder_that_is_killed_leaves_what_can_be_made_a_scenario(tmp_path):
    frontend, out = Frontend(tmp_path), tmp_path / "out"
    words = ("--handshake", frontend.handshake, "--engines", 2, "-o", out)
    with recorder(*words) as process:

        async def talk(client):
            await one_request_and_a_call(client)
            process.kill()
            process.communicate()

        frontend.run(talk)
    assert os.listdir(out) == ["frames.jsonl"]
    code, output = invoke("record", "--from", out / "frames.jsonl", "-o", tmp_path / "again")
    assert code == 0, output
    assert sorted(os.listdir(tmp_path / "again")) == [
        "frames.jsonl", "golden", "scenario.yaml", "schema.json",
    ]  # fmt: skip
    assert "it has no end" in (tmp_path / "again" / "scenario.yaml").read_text()
    assert invoke("run", tmp_path / "again" / "scenario.yaml")[0] == 0


@pytest.mark.zmq
def test_a_record_in_which_nobody_spoke_ends_with_4_and_leaves_no_folder(tmp_path):
    out = tmp_path / "out"
    code, output = invoke(
        "record", "--proxy", *HANDSHAKE, "--for", "50ms", "-o", out, "--listen", f"ipc://{tmp_path}/e"
    )  # fmt: skip
    assert (code, "nothing was recorded (the time was over)" in output) == (4, True), output
    assert os.listdir(tmp_path) == []


@pytest.mark.zmq
def test_engines_that_nobody_answered_are_no_record(tmp_path):
    out = tmp_path / "out"
    code, output = invoke(
        "record", "--handshake", f"ipc://{tmp_path}/nobody", "--engines", "2", "--for", "300ms",
        "-o", out, "--json", tmp_path / "said.json",
    )  # fmt: skip
    assert (code, "nothing was recorded (the time was over)" in output) == (4, True), output
    assert not out.exists()
    assert json.loads((tmp_path / "said.json").read_text())["joined"] == []


@pytest.mark.zmq
@pytest.mark.slow
def test_an_engine_that_fails_ends_the_record_with_3_and_keeps_it(tmp_path):
    address, out = f"ipc://{tmp_path}/hs", tmp_path / "out"
    with recorder("--handshake", address, "--engines", 1, "-o", out) as process:

        async def main():
            transport = ZmqTransport()
            try:
                router = await transport.bind(SocketKind.ROUTER, address)
                identity, _hello = await with_deadline(router.recv(), LIMIT_S)
                await router.send([identity, b"\xc1"])
                return await asyncio.get_running_loop().run_in_executor(None, result_of, process, 3)
            finally:
                transport.close()

        text = asyncio.run(main())
    assert "an engine or a socket failed: DecodeError" in text
    assert [f.frames for f in read_file(out / "frames.jsonl").stories[0].frames][1:] == [(b"\xc1",)]
    assert (out / "scenario.yaml").exists()


@pytest.mark.zmq
def test_an_address_in_use_is_one_clear_message(tmp_path):
    async def main():
        transport = ZmqTransport()
        try:
            held = await transport.bind(SocketKind.ROUTER, "tcp://127.0.0.1:*")
            words = (
                "record",
                "--proxy",
                *HANDSHAKE,
                "--listen",
                held.endpoint,
                "-o",
                tmp_path / "o",
            )
            return await asyncio.get_running_loop().run_in_executor(
                None, lambda: subprocess.run(
                    [sys.executable, "-m", "harness.cli", *map(str, words)],
                    capture_output=True, text=True, timeout=LIMIT_S, check=False,
                )
            )  # fmt: skip
        finally:
            transport.close()

    done = asyncio.run(main())
    assert done.returncode == 2, done.stderr
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


# --- wrong use ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "--handshake is missing, or --input and --output"),
        (("--input", "ipc:///tmp/i", "--engines", 1), "--handshake is missing"),
        (HANDSHAKE, "--engines is missing"),
        ((*HANDSHAKE, "--input", "ipc:///tmp/i"), "--input does not go with --handshake"),
        (("--proxy", "--input", "a:1", "--output", "a:2"), "--engines is missing"),
        (("--proxy", *HANDSHAKE, "--behaviour", "x"), "--behaviour does not go with --proxy"),
        ((*HANDSHAKE, "--engines", 1, "--listen", "a:1"), "--listen goes with --proxy only"),
        (("--proxy", *HANDSHAKE, "--listen", "0.0.0.0:9"), "--listen names no host"),
        (("--proxy", *HANDSHAKE, "--listen", "127.0.0.1:9"), "--listen is the address of"),
        ((*HANDSHAKE, "--engines", 1, "--for", "soon"), "'soon' is no duration; expected such as"),
        ((*HANDSHAKE, "--engines", 1, "--for", "0s"), "'0s' is no duration"),
        ((*HANDSHAKE, "--engines", 1, "--profile", "0.33"), "unknown release '0.33'"),
        ((*HANDSHAKE, "--engines", 1, "--behaviour", "/no/file"), "no such file"),
        (("--from", "/no/file", *HANDSHAKE), "--from records nothing"),
        (("--from", "/no/file"), "cannot read /no/file"),
        (("--input", "a:1", "--output", "a:2", "--coordinator-input", "a:3", "--engines", 1),
         "--coordinator-input and --coordinator-output go together"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_clear_message_and_exit_code_2(tmp_path, words, text):
    code, output = invoke("record", *words, "-o", tmp_path / "out")
    assert (code, text in output) == (2, True), output
    assert "Traceback" not in output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["record", "engine"])
@pytest.mark.parametrize("address", ["\x1b:1", "127.0.0.1:" + "1" * 5_000, "no_host!:1"])
def test_an_address_that_no_socket_takes_is_wrong_use(tmp_path, monkeypatch, command, address):
    monkeypatch.chdir(tmp_path)
    code, output = invoke(command, "--handshake", address, "--engines", 1)
    assert (code, os.listdir(tmp_path)) == (2, []), output
    assert "\x1b" not in output
    assert len(output) < 1_000


@pytest.mark.parametrize("command", ["record", "engine"])
@pytest.mark.parametrize("words", [("--engines", 10**11), ("--engines", 1, "--start-rank", 65_536)])
def test_ranks_that_no_engine_has_are_refused_before_anything_is_made(command, words, tmp_path):
    code, output = invoke(command, *HANDSHAKE, *words)
    assert (code, "is not in the range" in output) == (2, True), output


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "mine").write_text("x")
    code, output = invoke("record", *HANDSHAKE, "--engines", 1, "-o", tmp_path)
    assert (code, "is not empty" in output) == (2, True), output
    assert os.listdir(tmp_path) == ["mine"]


def test_a_scenario_is_made_of_an_older_capture(tmp_path):
    file = tmp_path / "one.capture"
    assert invoke("capture", "--target", "sim", "capture/12-waves", "-o", file)[0] == 0
    code, output = invoke("record", "--from", file, "-o", tmp_path / "out")
    assert code == 0, output
    assert invoke("run", tmp_path / "out" / "scenario.yaml")[0] == 0


@pytest.fixture
def capture_file(tmp_path):
    """Write a capture of one short story, with its lines changed: ``capture_file(change)``."""
    source = tmp_path / "source.capture"
    assert invoke("capture", "--target", "sim", "capture/03-leave", "-o", source)[0] == 0
    lines = [json.loads(line) for line in source.read_text("utf-8").splitlines()]

    def make(change):
        path = tmp_path / "hostile.capture"
        path.write_text("".join(json.dumps(line) + "\n" for line in change(lines)), "utf-8")
        return path

    return make


def test_texts_of_a_capture_add_no_line_to_the_scenario(capture_file, tmp_path):
    texts = ["x\ny: 1", "\u2028z: 1", "\x85q: 1", "\x1b[31m\u202e", "\ud800"]
    plain = capture_file(lambda lines: lines).rename(tmp_path / "plain.capture")
    file = capture_file(lambda lines: [{**lines[0], "tool": texts[0], "notes": texts}, *lines[1:]])
    for source in (plain, file):
        code, output = invoke("record", "--from", source, "-o", tmp_path / source.stem)
        assert code == 0, output
    made = [tmp_path / source.stem / "scenario.yaml" for source in (plain, file)]
    as_data = [parse_yaml(path.read_text("utf-8"))[0] for path in made]
    assert as_data[0] == as_data[1]
    assert all(line.isprintable() for line in made[1].read_text("utf-8").split("\n"))


def engines(count):
    """Greetings of so many engines, in one story."""

    def change(lines):
        hello = next(line for line in lines if line.get("socket"))
        many = [{**hello, "n": rank, "engine": rank} for rank in range(count)]
        end = {"end": lines[1]["story"], "frames": count, "events": 0}
        return [*lines[:2], *many, end, {"complete": True, "stories": 1}]

    return change


def test_a_capture_that_makes_no_scenario_is_bad_input_and_leaves_nothing(capture_file, tmp_path):
    out = tmp_path / "out"
    most = next(
        each.le for each in Topology.model_fields["engines"].metadata if hasattr(each, "le")
    )
    file = capture_file(engines(most + 1))
    code, output = invoke("record", "--from", file, "-o", out)
    assert code == 2, output
    assert f"--> {file}" in output
    assert "cannot be told as a scenario" in output
    assert not out.exists()
    assert invoke("record", "--from", capture_file(engines(most)), "-o", out)[0] == 0
