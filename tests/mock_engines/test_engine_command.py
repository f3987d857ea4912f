"""``wavecheck engine``."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys

import pytest
from click.testing import CliRunner

from client.protocol.codec import Codec
from client.protocol.profiles import profile_for
from client.transports.sockets import ZmqTransport
from harness.cli.engine_cmd import Show, load_behaviour
from harness.cli.gate_lines import GateLines
from harness.cli.main import cli
from harness.scenario.problems import ScenarioFileError
from mock_engines import events
from mock_engines.aio import next_turn
from mock_engines.cluster import JoinAddresses
from mock_engines.gates import Gates

LIMIT_S = 60.0
RANKS = range(2)
HANDSHAKE = ("--handshake", "tcp://127.0.0.1:9")


def invoke(*arguments):
    result = CliRunner().invoke(cli, ["engine", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((*HANDSHAKE, "--engines", "2", "--start-rank", "65535"), "two-byte engine identity limit"),
        ((*HANDSHAKE, "--engines", "0"), "0 is not in the range 1<=x<=65536"),
        ((*HANDSHAKE,), "Missing option '--engines'"),
        (("--engines", "1"), "needs a handshake address, or an input and an output"),
        ((*HANDSHAKE, "--engines", "1", "--profile", "0.33"), "unknown release '0.33'"),
        ((*HANDSHAKE, "--engines", "1", "--behaviour", "/nonexistent.yaml"), "no such file"),
        (("--handshake", "nonsense://x", "--engines", "1"), "is no address; expected HOST:PORT"),
        (("--handshake", "29550", "--engines", "1"), "is no address; expected HOST:PORT"),
        (("--output", "ipc://", "--engines", "1"), "'ipc://' is no address"),
        (("--input", "a:65536", "--engines", "1"), "a port is a number from 1 to 65535"),
        (("--handshake", "tcp://*:1", "--engines", "1"), "could not join"),
        (
            (*HANDSHAKE, "--input", "ipc:///tmp/in", "--engines", "1"),
            "--input does not go with --handshake",
        ),
        (
            (*HANDSHAKE, "--coordinator-output", "a:1", "--engines", "1"),
            "--coordinator-output does not go with --handshake",
        ),
        (
            ("--handshake", "ipc:///nonexistent/dir/x", "--engines", "1"),
            "--handshake: there is no folder /nonexistent/dir",
        ),
        (
            ("--input", "ipc:///tmp/i", "--output", "ipc:///nonexistent/o", "--engines", "1"),
            "--output: there is no folder /nonexistent",
        ),
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
        ("", "a list of engines, or a mapping with engines and waves"),
        ("- {engine: 7}\n", "b.yaml:1:12"),
        ("- {engine: 7}\n", "error: engine 7 does not take part\n"),
        ("- {engine: 0}\n- engine: [0, 2]\n", "b.yaml:2:15"),
        (
            "- rules:\n  - {on: utility, method: is_sleepin, do: {drop: true}}\n",
            "did you mean 'is_sleeping'?",
        ),
        ("engines:\n- rules:\n  - {on: add, do: {reply: 1}}\n", "'reply' is for utility"),
        ("- rules:\n  - {on: add, do: {stream: {tokens: many}}}\n", "whole number"),
        ("- rules:\n  - {on: abort, where: {ids: 1}, do: {drop: true}}\n", "has no field 'ids'"),
        ("[", "b.yaml"),
    ],
)
def test_wrong_behaviour_file_is_refused_with_its_reason(tmp_path, content, text):
    path = tmp_path / "b.yaml"
    path.write_text(content)
    code, output = invoke(*HANDSHAKE, "--engines", "1", "--behaviour", str(path))
    assert (code, text in output) == (2, True), output


@pytest.mark.parametrize("method", ["is_sleepin*", "its_own_method", "[sleep, is_sleeping]"])
def test_method_that_a_frontend_may_have_is_not_refused(tmp_path, method):
    path = tmp_path / "b.yaml"
    path.write_text(f"- rules:\n  - {{on: utility, method: {method}, do: {{drop: true}}}}\n")
    assert load_behaviour(path, RANKS).engines


def test_place_of_a_mistake_is_named_in_a_list_file_too(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text("- engine: 0\n- engine: 1\n  process: maybe\n")
    with pytest.raises(ScenarioFileError) as caught:
        load_behaviour(path, RANKS)
    assert caught.value.problems[0].place.line == 3


@pytest.mark.parametrize("head", ["", "waves: auto\nengines:\n"])
def test_place_of_an_action_that_does_not_fit_is_named_in_both_forms(tmp_path, head):
    path = tmp_path / "b.yaml"
    path.write_text(
        f"{head}- engine: 0\n- rules:\n  - on: add\n    do: [{{open: g}}, {{fail: x}}]\n"
    )
    with pytest.raises(ScenarioFileError) as caught:
        load_behaviour(path, RANKS)
    (problem,) = caught.value.problems
    assert problem.title == "'fail' is for utility, not for 'add'"
    assert (problem.place.line, problem.place.column) == (4 + head.count("\n"), 21)


def test_behaviour_file_is_a_list_or_a_mapping(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text("- {engine: 1, rules: [{on: abort, do: {drop: true}}]}\n")
    assert load_behaviour(path, RANKS).engines[0].engine == 1
    path.write_text("waves: script\nengines: [{engine: all}]\n")
    assert load_behaviour(path, RANKS).waves == "script"


def test_joins_are_shown_and_counted(capsys):
    show = Show(range(4, 6), JoinAddresses("tcp://a:1"), verbose=False)
    show(events.EngineJoined(4, b"\4\0", False))
    show(events.OutputSent(4, "a", (1,), None))
    show.still_waiting()
    show(events.EngineJoined(5, b"\5\0", False))
    show.still_waiting()
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "engine 4: joined identity=0400 coordinator=False",
        "engine 5: joined identity=0500 coordinator=False",
        "all engines have joined",
    ]
    assert shown.err.startswith("still waiting at tcp://a:1: no startup yet for rank 5.")
    assert shown.err.count("\n") == 1


@pytest.mark.zmq
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_a_frontend_until_it_is_told_to_end(tmp_path, make_peer, signum):
    behaviour = tmp_path / "b.yaml"
    behaviour.write_text(
        "- engine: 5\n  rules:\n  - {on: utility, do: [{stall: go}, {reply: 9}]}\n"
    )

    async def story():
        transport = ZmqTransport()
        peer = make_peer(transport, Codec(profile_for("0.33.0")))
        await peer.open()
        peer.answer_hellos()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness", "engine", "--engines", "2", "--start-rank", "4"),
            *("--handshake", peer.address("handshake"), "--behaviour", str(behaviour)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            await peer.until(lambda: len(peer.startup) == 4 and len(peer.registrations) == 2)
            await peer.add("a", rank=4)
            await peer.utility("is_sleeping", rank=5)
            await peer.until(lambda: len(peer.rows()) == 3)
            shown = b""
            while (
                b"stalled gate=go" not in shown
            ):  # its message may come behind all rows of the other
                shown += await process.stdout.readline()
            assert peer.replies() == []
            process.stdin.write(b"go\n")
            await peer.until(peer.replies)
            process.send_signal(signum)
            rest, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
            for task in peer.tasks:
                task.cancel()
            transport.close()
        return process.returncode, (shown + rest).decode(), peer.replies()

    async def bounded():
        async with asyncio.timeout(LIMIT_S):
            return await story()

    code, output, replies = asyncio.run(bounded())
    assert code == 0, output
    assert replies == [(1, None, 9)]
    lines = output.splitlines()
    assert "ranks 4 to 5" in lines[0]
    assert "all engines have joined" in lines
    assert "engine 4 <- ADD request_id=a-0123abcd" in output
    assert "engine 5 <- UTILITY" in output
    assert "engine 5: stalled gate=go" in lines
    assert "->" not in output
    assert lines[-1] == "engines stopped"
    assert os.path.exists(behaviour)


async def turns_until(holds):
    while not holds():
        await next_turn()


def gate_lines(*pieces, waited=()):
    """Feed a pipe piece by piece; returns which gates are open, and what was said."""
    gates, said = Gates(), []

    async def main():
        ours, theirs = os.pipe()
        waiting = [asyncio.ensure_future(gates.wait(name)) for name in waited]
        await next_turn()
        lines = GateLines(gates, said.append, ours)
        lines.start()
        try:
            for piece in pieces:
                os.write(theirs, piece)
                await turns_until(lambda: not select.select([ours], [], [], 0)[0])
            os.close(theirs)
            await turns_until(lambda: not lines.reading)
        finally:
            lines.stop()
            os.close(ours)
            for task in waiting:
                task.cancel()

    asyncio.run(main())
    return gates.opened(), said


def test_each_line_opens_the_gate_that_it_names():
    opened, said = gate_lines(b"a\n b \n\nc", b"d\nnot finished", waited=("a", "x"))
    assert opened == ("a", "b", "cd")
    assert said == [
        "gate a is open (1 waited)",
        "gate b is open; nobody waited there (now waited for: x)",
        "gate cd is open; nobody waited there (now waited for: x)",
    ]


def test_input_that_cannot_be_watched_is_left_alone(tmp_path):
    path = tmp_path / "gates"
    path.write_text("a\n")

    async def main():
        with path.open() as file:
            lines = GateLines(gates, lambda _line: None, file.fileno())
            lines.start()
            await next_turn()
            lines.stop()

    gates = Gates()
    asyncio.run(main())
    assert gates.opened() == ()
