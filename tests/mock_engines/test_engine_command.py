"""``wavecheck engine``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest
from click.testing import CliRunner

from client.protocol.codec import Codec
from client.protocol.profiles import profile_for
from client.transports.sockets import ZmqTransport
from harness.cli.engine_cmd import describe, load_behaviour
from harness.cli.main import cli
from harness.scenario.problems import ScenarioFileError
from mock_engines import events

LIMIT_S = 60.0
HANDSHAKE = ("--handshake", "tcp://127.0.0.1:9")


def invoke(*arguments):
    result = CliRunner().invoke(cli, ["engine", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((*HANDSHAKE, "--engines", "2", "--start-rank", "65535"), "two-byte engine identity limit"),
        ((*HANDSHAKE, "--engines", "0"), "0 is not in the range x>=1"),
        ((*HANDSHAKE,), "Missing option '--engines'"),
        (("--engines", "1"), "needs a handshake address, or an input and an output"),
        ((*HANDSHAKE, "--engines", "1", "--profile", "0.33"), "unknown release '0.33'"),
        ((*HANDSHAKE, "--engines", "1", "--behaviour", "/nonexistent.yaml"), "no such file"),
        (("--handshake", "nonsense://x", "--engines", "1"), "could not join"),
    ],
)
def test_wrong_use_is_one_clear_message_and_exit_code_2(arguments, text):
    code, output = invoke(*arguments)
    assert (code, text in output) == (2, True), output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "empty"),
        ("- engine: 0\n  ruels: []\n", "unknown key 'ruels'"),
        ("- {engine: 7}\n", "engine 7, which does not take part"),
        ("engines:\n- rules:\n  - {on: add, do: {reply: 1}}\n", "'reply' is for utility"),
        ("- rules:\n  - {on: add, do: {stream: {tokens: many}}}\n", "whole number"),
        ("[", "b.yaml"),
    ],
)
def test_wrong_behaviour_file_is_refused_with_its_reason(tmp_path, content, text):
    path = tmp_path / "b.yaml"
    path.write_text(content)
    code, output = invoke(*HANDSHAKE, "--engines", "1", "--behaviour", str(path))
    assert (code, text in output) == (2, True), output


def test_place_of_a_mistake_is_named_in_a_list_file_too(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text("- engine: 0\n- engine: 1\n  process: maybe\n")
    with pytest.raises(ScenarioFileError) as caught:
        load_behaviour(path)
    assert caught.value.problems[0].place.line == 3


def test_behaviour_file_is_a_list_or_a_mapping(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text("- {engine: 1, rules: [{on: abort, do: {drop: true}}]}\n")
    assert load_behaviour(path).engines[0].engine == 1
    path.write_text("waves: script\nengines: [{engine: all}]\n")
    assert load_behaviour(path).waves == "script"


def test_event_is_described_in_one_line():
    event = events.UtilitySeen(3, 7, "sleep", "[1]", 0)
    assert describe(event) == (
        "engine 3: UtilitySeen call_id=7 method='sleep' args='[1]' client_index=0"
    )


@pytest.mark.zmq
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_a_frontend_until_it_is_told_to_end(tmp_path, make_peer, signum):
    behaviour = tmp_path / "b.yaml"
    behaviour.write_text(
        "- engine: 5\n  process: true\n  rules:\n  - {on: utility, do: {reply: 9}}\n"
    )

    async def story():
        transport = ZmqTransport()
        peer = make_peer(transport, Codec(profile_for("0.33.0")))
        await peer.open()
        peer.answer_hellos()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness", "engine", "--engines", "2", "--start-rank", "4"),
            *("--handshake", peer.address("handshake"), "--behaviour", str(behaviour)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            await peer.until(lambda: len(peer.startup) == 4 and len(peer.registrations) == 2)
            await peer.add("a", rank=4)
            await peer.utility("is_sleeping", rank=5)
            await peer.until(lambda: len(peer.rows()) == 3 and peer.replies())
            process.send_signal(signum)
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
            for task in peer.tasks:
                task.cancel()
            transport.close()
        return process.returncode, output.decode(), peer.replies()

    async def bounded():
        async with asyncio.timeout(LIMIT_S):
            return await story()

    code, output, replies = asyncio.run(bounded())
    assert code == 0, output
    assert replies == [(1, None, 9)]
    lines = output.splitlines()
    assert "ranks 4 to 5" in lines[0]
    assert "engine 4: AddSeen request_id='a-0123abcd'" in output
    assert "engine 5: UtilitySeen" in output
    assert "OutputSent" not in output
    assert lines[-1] == "engines stopped"
    assert os.path.exists(behaviour)
