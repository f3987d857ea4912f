"""The pipe to a child process: its lines, its commands, and the process behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from mock_engines import spawn as spawning
from mock_engines.aio import next_turn
from mock_engines.commands import Commands
from mock_engines.outlets import ScriptError
from mock_engines.spawn import ChildProcess, is_stopped, open_child_control, open_control, spawn


def run(story):
    async def bounded():
        async with asyncio.timeout(30):
            return await story

    return asyncio.run(bounded())


# --- commands -------------------------------------------------------------------------------


async def asked(commands, *, until_stalled=False):
    number = commands.number()
    task = asyncio.get_running_loop().create_task(
        commands.wait(number, until_stalled=until_stalled)
    )
    await next_turn()
    return number, task


def test_answer_with_an_error_is_raised_by_who_waits():
    async def story():
        commands = Commands()
        number, task = await asked(commands)
        assert commands.answered(number, "no such gate") is None
        with pytest.raises(ScriptError, match="no such gate"):
            await task
        assert not commands.busy

    run(story())


def test_answer_to_no_command_and_a_second_answer_change_nothing():
    async def story():
        commands = Commands()
        assert commands.answered(7, "odd") is None
        number, task = await asked(commands)
        assert commands.answered(number, None) is None
        assert commands.answered(number, "late") is None
        await task
        assert commands.answered(number, "later still") is None

    run(story())


def test_answer_to_a_caller_who_has_just_left_is_nobody_s():
    async def story():
        commands = Commands()
        number, task = await asked(commands)
        task.cancel()
        assert commands.answered(number, "late") is None
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story())


def test_error_of_a_command_that_was_let_go_is_returned():
    async def story():
        commands = Commands()
        number, task = await asked(commands, until_stalled=True)
        commands.stalled()
        await task
        error = commands.answered(number, "too late")
        assert isinstance(error, ScriptError)
        assert str(error) == "too late"

    run(story())


# --- lines ----------------------------------------------------------------------------------


async def pipe():
    """Both ends, and the descriptor on which the parent says that it has taken an event."""
    ours, theirs = socket.socketpair()
    heard, taken = os.pipe()
    return await open_control(ours), await open_child_control(theirs, heard), heard, taken


async def close(parent, child, heard, taken):
    parent.close()
    child.close()
    for each in (parent, child):
        with contextlib.suppress(ConnectionError):
            await each._writer.wait_closed()
    os.close(heard)
    os.close(taken)


def test_line_to_an_end_that_was_closed_is_not_sent(monkeypatch):
    async def story():
        parent, child, *rest = await pipe()
        parent.send({"do": "idle"})
        await parent.flush()
        assert await child.receive() == {"do": "idle"}
        parent.close()
        written = []
        monkeypatch.setattr(parent._writer, "write", written.append)
        parent.send({"do": "stop"})
        assert written == []
        assert await child.receive() is None
        await close(parent, child, *rest)

    run(story())


def test_flush_to_a_peer_that_is_gone_returns():
    async def story():
        parent, child, *rest = await pipe()
        child.close()
        await child._writer.wait_closed()
        for _ in range(20):  # the first lines may still go into the pipe
            parent.send({"do": "x" * 100_000})
            await parent.flush()
        assert await parent.receive() is None
        await close(parent, child, *rest)

    run(story())


def test_line_that_is_larger_than_the_pipe_is_sent_whole_while_its_reader_reads():
    async def story():
        parent, child, *rest = await pipe()
        text = "x" * 8_000_000
        sent = threading.Event()

        def send():
            child.send({"do": "failure", "error": text})
            sent.set()

        sender = threading.Thread(target=send)
        sender.start()
        line = await parent.receive()
        sender.join()
        assert sent.is_set()
        assert line == {"do": "failure", "error": text}
        await close(parent, child, *rest)

    run(story())


def test_half_a_line_of_a_process_that_was_killed_counts_for_nothing():
    async def story():
        parent, child, *rest = await pipe()
        child._pipe.send(json.dumps({"do": "halt"}).encode())
        child.close()
        assert await parent.receive() is None
        await close(parent, child, *rest)

    run(story())


# --- the process ----------------------------------------------------------------------------


class Ended:
    """A process that has ended, and perhaps was not reaped yet."""

    pid = 2**22 + 1  # larger than any

    def __init__(self, returncode):
        self.returncode = returncode
        self.signals = []

    def send_signal(self, signum):
        self.signals.append(signum)
        raise ProcessLookupError

    async def wait(self):
        return self.returncode


class Running(Ended):
    """One that takes every signal."""

    def __init__(self):
        super().__init__(None)

    def send_signal(self, signum):
        self.signals.append(signum)


def test_signal_to_a_process_that_ended_just_now_is_not_counted_as_ours():
    child = ChildProcess(Ended(None), -1)
    child.kill()
    child.halt()
    assert child._process.signals == [signal.SIGKILL, signal.SIGSTOP]
    assert not child.halted
    child._process.returncode = -signal.SIGKILL
    assert child.killed_from_outside  # whoever it was, it was not us


def test_process_that_was_reaped_gets_no_signal_and_no_leave():
    child = ChildProcess(Ended(0), -1)
    for end in (child.kill, child.make_sure, child.halt):
        end()
    child.event_taken()  # its descriptor is closed
    assert child._process.signals == []
    assert not child.killed_from_outside
    assert not child.stands_still


def test_process_that_was_not_halted_is_not_told_to_go_on():
    child = ChildProcess(Running(), -1)
    child.go_on()
    assert child._process.signals == []
    child.halt()
    assert child.halted
    child.go_on()
    child.go_on()
    assert child._process.signals == [signal.SIGSTOP, signal.SIGCONT]
    assert not child.halted


def test_process_of_which_the_system_knows_nothing_does_not_stand_still():
    assert not is_stopped(Ended.pid)
    assert not is_stopped(os.getpid())


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
def test_process_that_cannot_be_started_leaves_no_descriptor(monkeypatch):
    async def story():
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(FileNotFoundError):
            await spawn()
        assert len(os.listdir("/proc/self/fd")) == before

    monkeypatch.setattr(spawning.sys, "executable", "/no/such/python")
    run(story())


def start(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "mock_engines.child_entry", *map(str, arguments)],
        capture_output=True,
        timeout=60,
        cwd=spawning.IMPORT_ROOT,
        check=False,
    )


@pytest.mark.slow
def test_child_whose_parent_is_another_one_ends_at_once():
    ended = start(3, 4, Ended.pid)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


@pytest.mark.slow
def test_child_whose_parent_goes_before_it_says_anything_ends_in_order():
    ours, theirs = socket.socketpair()
    heard, taken = os.pipe()
    passed = [theirs.fileno(), heard]
    command = [sys.executable, "-m", "mock_engines.child_entry", *map(str, (*passed, os.getpid()))]
    with subprocess.Popen(command, pass_fds=passed, cwd=spawning.IMPORT_ROOT) as child:
        for descriptor in (heard, taken):
            os.close(descriptor)
        theirs.close()
        ours.close()
        assert child.wait(60) == 0


def test_line_of_a_child_whose_parent_is_gone_is_lost_and_nothing_else():
    async def story():
        parent, child, *rest = await pipe()
        parent.close()
        await parent._writer.wait_closed()
        child.send({"do": "joined", "init": None})
        child.send({"do": "state", "state": {}})
        assert await child.receive() is None
        await close(parent, child, *rest)

    run(story())
