"""Starting and ending a process, with a script in the place of the binary."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from client.aio import with_deadline
from harness.targets.base import TargetError
from harness.targets.vllm_rs import starter
from harness.targets.vllm_rs.bounded import pause
from harness.targets.vllm_rs.command import ServeOptions, process_environment, serve_command
from harness.targets.vllm_rs.ports import PortLease
from harness.targets.vllm_rs.process import FrontendProcess
from harness.targets.vllm_rs.starving import LAST, OneCpu
from harness.trace.events import LogLine, ProcessExited

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the frontend runs on Linux")

OBEDIENT = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("(RustFrontend pid=1) INFO 11-29 18:10:34 [src/a.rs:1] engines connected engine_count=2")
sys.stderr.write("without end of line"); sys.stderr.flush()
print("ready", flush=True)
while True: signal.pause()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: signal.pause()
"""
TIMEOUT_S = 20.0


class Running:
    """A process and what it told."""

    def __init__(self):
        self.events = []
        self.ready = asyncio.get_running_loop().create_future()
        self.process = FrontendProcess(self.events.append, self._line)

    def _line(self, line: LogLine):
        if line.text == "ready" and not self.ready.done():
            self.ready.set_result(None)

    async def start(self, script):
        await self.process.start([sys.executable, "-S", "-c", script], dict(os.environ))
        await with_deadline(self.ready, TIMEOUT_S)


def test_lines_of_both_streams_become_events_and_the_exit_is_the_last():
    async def main():
        running = Running()
        await running.start(OBEDIENT)
        assert running.process.running
        assert os.getsid(running.process.pid) == running.process.pid
        assert await running.process.terminate() == 0
        return running

    running = asyncio.run(main())
    assert running.events[-1] == ProcessExited(0)
    lines = {event.text: event.pattern for event in running.events[:-1]}
    assert lines == {
        "engines connected engine_count=2": "engines-connected",
        "ready": "other",
        "without end of line": "other",
    }
    assert len(running.process.tail) == 3


def test_a_process_that_ignores_sigterm_is_killed():
    async def main():
        running = Running()
        await running.start(STUBBORN)
        return await running.process.terminate(0.05), running.process.running

    assert asyncio.run(main()) == (-signal.SIGKILL, False)


def test_ending_twice_or_before_the_start_is_harmless():
    async def main():
        running = Running()
        assert await running.process.terminate() is None
        await running.start(OBEDIENT)
        await running.process.terminate()
        running.process.kill()
        return await running.process.terminate()

    assert asyncio.run(main()) is not None


def test_the_process_dies_with_its_starter_even_by_sigkill(tmp_path):
    """A child starts it, tells its pid, and is killed."""
    starter = tmp_path / "starter.py"
    starter.write_text(
        "import asyncio, os, sys\n"
        "from harness.targets.vllm_rs.process import FrontendProcess\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    up = loop.create_future()\n"
        "    p = FrontendProcess(lambda e: None, lambda l: up.done() or up.set_result(None))\n"
        f"    await p.start([sys.executable, '-S', '-c', {STUBBORN!r}], dict(os.environ))\n"
        "    await up\n"
        "    print(p.pid, flush=True)\n"
        "    await loop.create_future()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, str(starter)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        handle = os.pidfd_open(pid)
        child.kill()
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(TIMEOUT_S * 1000), "the process outlived its killed starter"
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


WRAPPER = """
"$0" -S -c 'import signal
if {stubborn}: signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True: signal.pause()' {output} &
echo pid $!
echo ready
wait
"""


@pytest.mark.parametrize("output", ["", ">/dev/null 2>&1"])
@pytest.mark.parametrize("stubborn", [0, 1])
@pytest.mark.parametrize("leader_dies_first", [False, True])
def test_what_a_wrapper_without_exec_started_ends_with_it(output, stubborn, leader_dies_first):
    async def main():
        running = Running()
        script = WRAPPER.format(stubborn=stubborn, output=output)
        wrapper = ["/bin/sh", "-c", script, sys.executable]
        await running.process.start(wrapper, dict(os.environ))
        await with_deadline(running.ready, TIMEOUT_S)
        pid = int(running.process.tail[-2].split()[1])
        assert pid != running.process.pid
        handle = os.pidfd_open(pid)
        try:
            if leader_dies_first:
                os.kill(running.process.pid, signal.SIGKILL)
                while running.process._process.returncode is None:
                    await pause(0.001)
            await running.process.terminate(0.05)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            assert poll.poll(1000), "the wrapped program outlived its wrapper"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)

    asyncio.run(main())


LEAVES_A_CHILD = """
"$0" -S -c 'import os, signal
if {session}: os.setsid()
if not {pipes}: os.close(1); os.close(2)
open("{told}", "w").write(str(os.getpid()) + chr(10))
while True: signal.pause()' &
read pid < {told}
echo gone
exit 5
"""


@pytest.mark.parametrize("session", [0, 1])
@pytest.mark.parametrize("pipes", [0, 1])
def test_who_ends_has_ended_whatever_it_left_behind_which_ends_too(tmp_path, session, pipes):
    """The child keeps the outputs open, is in a session of its own, or both."""
    told = tmp_path / "pid"
    os.mkfifo(told)
    # Both ends: neither the child nor the shell waits for the other to come.
    fifo = os.open(told, os.O_RDWR)
    seen = tmp_path / "seen"

    async def main():
        running = Running()
        script = LEAVES_A_CHILD.format(session=session, pipes=pipes, told=told)
        script = script.replace("echo gone", f"echo $pid > {seen}\necho gone")
        command = ["/bin/sh", "-c", script, sys.executable]
        await running.process.start(command, dict(os.environ))
        try:
            return await with_deadline(running.process.exited(), TIMEOUT_S), running
        finally:
            await running.process.terminate()

    try:
        code, running = asyncio.run(main())
    finally:
        os.close(fifo)
    assert code == 5
    assert running.events[-1] == ProcessExited(5)
    assert running.process.tail == ("gone",)
    with pytest.raises(ProcessLookupError):
        os.kill(int(seen.read_text()), 0)


def test_output_without_an_end_of_line_is_not_kept_for_ever():
    async def main():
        running = Running()
        script = "import sys; sys.stdout.write('x' * (3 << 20))"
        await running.process.start([sys.executable, "-S", "-c", script], dict(os.environ))
        await with_deadline(running.process.exited(), TIMEOUT_S)
        return running

    assert len(asyncio.run(main()).process.tail) >= 2


def test_what_is_no_program_is_named_by_the_starter_and_not_by_a_traceback(tmp_path):
    (tmp_path / "junk").write_text("no program")
    (tmp_path / "junk").chmod(0o755)

    async def main():
        running = Running()
        await running.process.start([str(tmp_path / "junk")], dict(os.environ))
        return await with_deadline(running.process.exited(), TIMEOUT_S), running.process.tail

    code, (line,) = asyncio.run(main())
    assert (code, line) == (126, f"cannot execute {tmp_path}/junk: Exec format error")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 1.2; exit 3", starter.Said("1.2\n", 3)),
        ("echo 1.2; sleep 100 &", starter.Said("1.2\n", 0)),
        ("echo 1.2; setsid sleep 100 &", starter.Said("1.2\n", 0)),
        ("kill -9 $$", starter.Said("", -9)),
        ("exec sleep 100", starter.Said("", None)),
    ],
)
def test_a_short_command_is_bounded_in_time_and_waits_for_nobody_it_left(script, said):
    assert starter.output_of(["/bin/sh", "-c", script], 1.0) == said


def test_a_short_command_that_writes_for_ever_is_cut():
    assert starter.output_of(["/bin/sh", "-c", "yes"], TIMEOUT_S, 5_000) == starter.Said(
        "y\n" * 2_500, None
    )


def test_what_cannot_be_started_is_a_target_error(monkeypatch):
    async def main():
        running = Running()
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        await running.process.start(["/nowhere/binary"], {})

    with pytest.raises(TargetError, match="cannot start"):
        asyncio.run(main())


def test_leased_ports_are_below_the_ephemeral_range_and_differ():
    first, second = PortLease(3), PortLease(3)
    try:
        ports = [*first.ports, *second.ports]
        assert len(set(ports)) == 6
        assert all(1024 < port < 32_768 for port in ports)
    finally:
        first.release()
        second.release()


def test_a_leased_port_is_not_leased_again_until_it_is_released(monkeypatch):
    held = PortLease(1)
    monkeypatch.setattr("harness.targets.vllm_rs.ports._candidates", lambda: iter(held.ports))
    with pytest.raises(TargetError, match="no 1 free TCP ports"):
        PortLease(1)
    held.release()
    again = PortLease(1)
    assert again.ports == held.ports
    again.release()


def test_a_stopped_process_ends_on_sigterm_and_not_by_sigkill():
    async def main():
        running = Running()
        await running.start(OBEDIENT)
        running.process.signal(signal.SIGSTOP)
        return await running.process.terminate()

    assert asyncio.run(main()) == 0


def test_an_inherited_descriptor_keeps_its_number_and_no_other_is_passed_on():
    async def main():
        mine, theirs = socket.socketpair()
        kept, other = socket.socketpair()
        script = (
            "import os, socket, sys\n"
            f"socket.socket(fileno={theirs.fileno()}).send(b'here')\n"
            f"try: os.fstat({other.fileno()})\n"
            "except OSError: print('not inherited', flush=True)\n"
        )
        with mine, theirs, kept, other:
            running = Running()
            command = [sys.executable, "-S", "-c", script]
            await running.process.start(command, dict(os.environ), [theirs.fileno()])
            await with_deadline(running.process.exited(), TIMEOUT_S)
            return mine.recv(8), running.process.tail

    assert asyncio.run(main()) == (b"here", ("not inherited",))


def test_the_command_and_environment_follow_the_options(tmp_path):
    options = ServeOptions(tmp_path, 3, 1, 2, 3, ready_timeout_s=0.5, shutdown_timeout_s=1.2)
    command = serve_command(tmp_path / "vllm-rs", "0.24.0", options)
    assert command[1:3] == ["serve", str(tmp_path)]
    pairs = dict(zip(command[3::2], command[4::2], strict=True))
    assert pairs["--data-parallel-size"] == "3"
    assert pairs["--data-parallel-size-local"] == "0"
    assert pairs["--engine-ready-timeout-secs"] == "1"
    assert pairs["--shutdown-timeout"] == "2"
    assert "--profiler-config" not in pairs
    assert "--profiler-config" in serve_command(tmp_path / "vllm-rs", "0.25.0", options)
    inherited = {"PATH": "/bin", "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION": "1", "RUST_LOG": "off"}
    environment = process_environment(options.model, inherited)
    assert environment["PATH"] == "/bin"
    assert "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION" not in environment
    assert environment["RUST_LOG"].startswith("debug,")
    assert environment["HF_HUB_OFFLINE"] == "1"


def test_process_can_be_started_with_a_lower_priority():
    command = [sys.executable, "-I", "-S", "-c", "import os; print(os.nice(0), os.getpid())"]
    before = os.nice(0)
    plain = starter.output_of(starter.dying_with_us(command), TIMEOUT_S)
    last = starter.output_of(starter.dying_with_us(command, nice=LAST), TIMEOUT_S)
    assert [plain.text.split()[0], last.text.split()[0]] == [str(before), str(LAST)]


def test_everybody_keeps_to_one_cpu_and_children_inherit_it_until_it_is_over():
    before = os.sched_getaffinity(0)
    one_cpu = OneCpu()
    one_cpu.begin()
    try:
        assert os.sched_getaffinity(0) == {min(before)}
        script = "import os; print(sorted(os.sched_getaffinity(0)))"
        command = [sys.executable, "-I", "-S", "-c", script]
        told = starter.output_of(starter.dying_with_us(command), TIMEOUT_S)
    finally:
        one_cpu.end()
    assert told == starter.Said(f"[{min(before)}]\n", 0)
    assert os.sched_getaffinity(0) == before
    one_cpu.end()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_the_process_heeds_signals_that_we_ignore_or_block(number):
    before = signal.signal(number, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        command = ["/bin/cat", "/proc/self/status"]
        told = starter.output_of(starter.dying_with_us(command), TIMEOUT_S).text
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(number, before)
    masks = dict(line.split(":\t") for line in told.splitlines() if line.startswith("Sig"))
    # Two are the C library's own; nobody else may say anything of them.
    ours = sum(1 << (each - 1) for each in signal.valid_signals())
    assert int(masks["SigIgn"], 16) & ours == 0
    assert int(masks["SigBlk"], 16) & ours == 0
