"""Both worlds: they run a body, say who waits, and release everything, whatever happened."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from client.aio import cancel_and_wait
from client.protocol.transport import SocketKind, TransportError
from client.transports.sockets import ZmqTransport
from harness import worlds
from harness.interruption import heard
from harness.sim.errors import Deadlock
from harness.sim.links import SimTransport
from harness.targets.base import TargetError
from harness.worlds import SimWorld, ZmqWorld
from tests.support.stories import (
    WORLDS,
    Avoid,
    load_unchecked,
    perform,
    sim,
)

ROOT = Path(__file__).parents[2]
IN_BOTH = pytest.mark.parametrize("kind", ["sim", pytest.param("zmq", marks=pytest.mark.zmq)])


class OopsError(Exception):
    pass


@pytest.fixture
def short():
    """An empty folder whose path is short enough for socket files, wherever the tests run."""
    with tempfile.TemporaryDirectory(prefix="wc-") as name:
        yield Path(name)


@pytest.fixture
def folder(short, monkeypatch):
    """Where temporary files of this test go."""
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    return short


def turns(count):
    """Let the loop turn a few times."""

    async def wait():
        loop = asyncio.get_running_loop()
        for _ in range(count):
            moment = loop.create_future()
            loop.call_soon(moment.set_result, None)
            await moment

    return wait()


# --- running --------------------------------------------------------------------------------


@IN_BOTH
def test_world_returns_what_its_body_returns_and_closes_its_transport(kind, folder):
    world = WORLDS[kind]()
    seen = []

    async def main():
        transport = world.transport
        assert world.transport is transport
        socket = await transport.bind(SocketKind.PULL, transport.endpoint("x"))
        seen.extend([transport, socket])
        return 7

    assert world.run(main) == 7
    transport, _ = seen
    assert transport.open_sockets == 0
    with pytest.raises(TransportError):
        sim_or_loop(kind, transport)
    assert list(folder.iterdir()) == []


def sim_or_loop(kind, transport):
    """Try to use a closed transport."""

    async def use():
        await transport.bind(SocketKind.PULL, "ipc:///tmp/never" if kind == "zmq" else "sim://x")

    if kind == "zmq":
        asyncio.run(use())
    else:
        sim()._loop.run(use())


@IN_BOTH
@pytest.mark.parametrize("error", [OopsError, TargetError, asyncio.CancelledError])
def test_world_passes_an_error_on_and_releases_everything(kind, error, folder):
    world = WORLDS[kind]()
    transports, ended = [], []

    async def linger():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    async def main():
        transport = world.transport
        transports.append(transport)
        await transport.bind(SocketKind.PULL, transport.endpoint("x"))
        asyncio.get_running_loop().create_task(linger())
        await turns(2)
        raise error

    with pytest.raises(error):
        world.run(main)
    assert (ended, transports[0].open_sockets, list(folder.iterdir())) == ([True], 0, [])


def test_worlds_have_their_own_transport_and_time():
    assert isinstance(sim().transport, SimTransport)
    assert (SimWorld.virtual, ZmqWorld.virtual) == (True, False)
    world = ZmqWorld("tcp")

    async def main():
        assert isinstance(world.transport, ZmqTransport)
        return world.transport.endpoint("x")

    assert world.run(main).startswith("tcp://127.0.0.1:")


def test_simulated_deadlock_is_raised_with_who_waits():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="main: waits in"):
        sim().run(main)


@IN_BOTH
def test_world_says_who_waits(kind):
    world = WORLDS[kind]()

    async def linger():
        await asyncio.get_running_loop().create_future()

    async def main():
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(linger(), name=name) for name in ("zeta", "alpha")]
        await turns(1)
        assert not any(task.done() for task in tasks)
        return world.waiting()

    found = world.run(main)
    if kind == "zmq":
        assert found == ("alpha", "run", "zeta")
    else:
        assert [line.partition(":")[0] for line in found] == ["main", "zeta", "alpha"]
        assert "linger" in found[1]


@IN_BOTH
def test_settling_lets_what_is_ready_run(kind):
    world, done = WORLDS[kind](), []

    async def work():
        await turns(5)
        done.append(True)

    async def main():
        asyncio.get_running_loop().create_task(work())
        await world.settle()
        return list(done)

    assert world.run(main) == [True]


def test_labels_are_made_only_on_request():
    seen = []

    class Chooser:
        def choose(self, n, labels=None):
            seen.append(None if labels is None else len(tuple(labels())))
            return 0

    async def main():
        asyncio.get_running_loop().create_task(turns(1))
        await turns(1)

    SimWorld(Chooser()).run(main)
    assert seen
    assert set(seen) == {None}
    seen.clear()
    SimWorld(Chooser(), record_labels=True).run(main)
    assert seen
    assert None not in seen
    assert isinstance(sim(Avoid("x")), SimWorld)


# --- interruption ---------------------------------------------------------------------------


ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def interrupt(signum=signal.SIGINT):
    """Send ourselves a signal; the loop takes it in one of its next turns."""
    os.kill(os.getpid(), signum)


async def until_cancelled():
    """Wait for a signal, which makes no turn of its own."""
    await asyncio.get_running_loop().create_future()


@pytest.fixture
def handlers():
    """The signal handlers of the test run, restored afterwards."""
    kept = {s: signal.getsignal(s) for s in ENDING}
    yield
    for signum, handler in kept.items():
        signal.signal(signum, handler)


@pytest.mark.zmq
@pytest.mark.parametrize("signum", ENDING)
def test_signal_cancels_the_body_which_may_clean_up(signum, handlers, folder):
    world, log = ZmqWorld(), []

    async def main():
        transport = world.transport
        await transport.bind(SocketKind.PULL, transport.endpoint("x"))
        log.append(transport)
        interrupt(signum)
        try:
            await until_cancelled()
        finally:
            await turns(3)
            log.append("clean")

    with pytest.raises(KeyboardInterrupt):
        world.run(main)
    assert (log[1:], log[0].open_sockets, list(folder.iterdir())) == (["clean"], 0, [])


@pytest.mark.parametrize("signum", ENDING)
def test_signal_winds_a_simulated_run_up(signum, handlers, capsys):
    before = signal.getsignal(signum)
    log = []

    async def other():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            asyncio.get_running_loop().call_soon(log.append, "clean")

    async def main():
        asyncio.get_running_loop().create_task(other())
        await turns(2)
        interrupt(signum)
        while True:
            log.append("turn")
            await turns(1)

    with pytest.raises(KeyboardInterrupt):
        sim().run(main)
    gc.collect()
    assert log[-1] == "clean"
    assert log.count("turn") < 3
    assert capsys.readouterr() == ("", "")
    assert signal.getsignal(signum) is before


def test_signal_breaks_into_a_simulated_step_that_does_not_end(handlers, monkeypatch):
    monkeypatch.setattr(worlds, "STUCK_S", 0.01)
    closed = []

    async def main():
        try:
            interrupt()  # in here: on a busy machine so short a time is over at once
            while True:
                pass
        finally:
            closed.append(True)

    with pytest.raises(KeyboardInterrupt):
        sim().run(main)
    assert closed == [True]


def test_interrupted_simulation_that_ends_all_the_same_raises(handlers):
    async def main():
        interrupt()
        return 7

    with pytest.raises(KeyboardInterrupt):
        sim().run(main)


@pytest.mark.zmq
def test_interruption_outranks_what_cleaning_up_raises(handlers):
    async def main():
        interrupt()
        try:
            await until_cancelled()
        finally:
            raise OopsError

    with pytest.raises(KeyboardInterrupt) as caught:
        ZmqWorld().run(main)
    assert isinstance(caught.value.__cause__, OopsError)


@pytest.mark.zmq
def test_interruption_outranks_a_body_that_ends_all_the_same(handlers):
    async def main():
        interrupt()
        try:
            await until_cancelled()
        except asyncio.CancelledError:
            return 7

    with pytest.raises(KeyboardInterrupt):
        ZmqWorld().run(main)


@pytest.mark.zmq
def test_cancellation_by_ourselves_is_no_interruption(handlers):
    async def main():
        asyncio.current_task().cancel()
        await until_cancelled()

    with pytest.raises(asyncio.CancelledError):
        ZmqWorld().run(main)


@pytest.mark.zmq
def test_world_in_another_thread_runs_without_signal_handlers():
    found = []

    def work():
        async def main():
            await turns(1)
            return 7

        found.append(ZmqWorld().run(main))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert found == [7]


@pytest.mark.zmq
@pytest.mark.parametrize("signum", ENDING)
def test_finished_run_leaves_the_signal_handlers_as_it_found_them(signum, handlers):
    """What lies between two runs of one command can be interrupted too."""
    came = []
    signal.signal(signum, lambda *_: came.append(True))

    async def main():
        await turns(1)

    ZmqWorld().run(main)
    interrupt(signum)
    assert came == [True]


@pytest.mark.zmq
def test_hang_up_that_is_ignored_on_purpose_ends_nothing(handlers):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def main():
        interrupt(signal.SIGHUP)
        await turns(3)
        return 7

    assert ZmqWorld().run(main) == 7
    assert sim().run(main) == 7


async def answers_nobody(log):
    """Goes on when it is cancelled, and waits for somebody outside."""
    try:
        await until_cancelled()
    finally:
        try:
            await until_cancelled()
        finally:
            log.append("given up")


@pytest.mark.zmq
def test_second_signal_ends_the_waits_of_those_who_were_cancelled_already(handlers):
    log = []

    async def main():
        loop = asyncio.get_running_loop()
        stubborn = loop.create_task(answers_nobody(log))
        bystander = loop.create_task(until_cancelled())
        await turns(1)
        interrupt()
        try:
            await until_cancelled()
        finally:
            loop.call_soon(interrupt)
            try:
                # As everybody who cleans up: it holds a cancellation back until this is over.
                await cancel_and_wait([stubborn])
            finally:
                log.append("bystander cancelled" if bystander.cancelling() else "bystander spared")

    with pytest.raises(KeyboardInterrupt):
        ZmqWorld().run(main)
    assert log == ["given up", "bystander spared"]


@pytest.mark.zmq
def test_one_signal_ends_every_wait_after_a_while(handlers, monkeypatch):
    monkeypatch.setattr(worlds, "PATIENCE_S", 0.01)
    monkeypatch.setattr(worlds, "HASTE_S", 0.01)
    log = []

    async def main():
        tasks = [asyncio.get_running_loop().create_task(answers_nobody(log)) for _ in range(2)]
        await turns(1)
        interrupt()
        try:
            await until_cancelled()
        finally:
            try:
                await cancel_and_wait(tasks[:1])
            finally:
                await cancel_and_wait(tasks[1:])

    with pytest.raises(KeyboardInterrupt):
        ZmqWorld().run(main)
    assert log == ["given up", "given up"]


# --- whole runs -----------------------------------------------------------------------------

STORIES = {
    "finished": "steps:\n  - call: {id: a}\n  - finish: a\n",
    "failed startup": (
        "topology: {config: {ready_timeout_s: 0.05}}\n"
        "engines:\n  - {engine: 1, join: {never: true}}\nsteps:\n  - fence: true\n"
    ),
    "broken operation": load_unchecked(
        "steps:\n  - utility: {id: u, method: no_such}\n  - finish: u\n"
    ).scenario,
    "open operations": (
        "engines:\n  - rules: [{on: add, do: {hang: g}}]\nopen_at_end: [g, a]\n"
        "topology: {coordinator: external, transport: bootstrapped}\n"
        "steps:\n  - call: {id: a}\n  - wait: {event: add}\n"
    ),
    "child process": (
        "engines:\n  - {engine: 1, process: true}\nsteps:\n  - call: {id: a, rank: 1}\n"
        "  - finish: a\n"
    ),
}


def children() -> list[str]:
    """Ids of the child processes of this one, zombies included.

    Another test may have left one for good, such as multiprocessing's resource tracker.
    """
    lists = Path("/proc/self/task").glob("*/children")
    return sorted(pid for one in lists for pid in one.read_text().split())


@pytest.mark.skipif(
    not any(Path("/proc/self/task").glob("*/children")), reason="children are looked for in /proc"
)
@IN_BOTH
@pytest.mark.parametrize("name", STORIES)
def test_run_leaves_no_file_no_socket_and_no_child(kind, name, folder):
    before = children()
    world = WORLDS[kind]()
    transports = []
    real_run = world.run

    def run(main):
        async def spied():
            transports.append(world.transport)
            return await main()

        return real_run(spied)

    world.run = run
    try:
        perform(STORIES[name], world)
    except TargetError:
        assert name in ("failed startup", "broken operation")
    assert transports[0].open_sockets == 0
    assert list(folder.iterdir()) == []
    assert children() == before
    gc.collect()


# --- a person presses Ctrl-C ----------------------------------------------------------------

HANGING = """\
title: Nobody answers
promise: none
refs: [vllm#1]
engines:
  - {engine: 1, process: true}
  - rules: [{on: add, do: {hang: g}}]
open_at_end: [g, a]
steps:
  - call: {id: a, rank: 1}
  - finish: a
"""
LOOK_S = 0.02
"""Between two looks at a process that has no event to offer, seconds."""
SAFETY_S = 60


def processes(mark, program=""):
    """Processes whose environment has this text, and whose command line names a program."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            ours = mark.encode() in (path / "environ").read_bytes()
            if ours and program.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue  # it ended, or is not ours
    return found


class Command:
    """``wavecheck run`` in a process of its own, whose files and children can be found."""

    def __init__(self, folder, short, *words):
        self.folder = short
        self.mark = f"TMPDIR={self.folder}"
        environment = {
            **os.environ, "TMPDIR": str(self.folder), "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *map(str, words)],
            env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def until(self, look):
        """Look again and again until there is something to see."""
        for _ in range(int(SAFETY_S / LOOK_S)):
            if look():
                return
            try:
                self.process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"it ended with {self.process.returncode}: {self.process.communicate()}")
        self.process.kill()
        pytest.fail("it never came so far")

    def end(self, signum):
        """Send a signal; return exit code, output and errors."""
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=SAFETY_S)
        return self.process.returncode, out, err


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="children are looked for in /proc"
)


@needs_proc
@pytest.mark.zmq
@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "jobs"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGINT, 2)]
)
def test_interrupted_run_over_real_sockets_ends_with_130_and_leaves_nothing(
    tmp_path, short, signum, jobs
):
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(HANGING)
    command = Command(
        tmp_path, short, tmp_path / "one.yaml", tmp_path / "two.yaml", "--target", "zmq",
        "--jobs", jobs, "--json", tmp_path / "r.json",
    )  # fmt: skip
    # The child is the last to come up, and the run hangs from then on.
    command.until(lambda: len(processes(command.mark, "mock_engines.child")) == jobs)
    command.until(lambda: len({p.parent for p in short.rglob("*") if p.is_socket()}) == jobs)
    code, _, err = command.end(signum)
    assert (code, "Traceback" in err, "never" in err) == (130, False, False)
    assert processes(command.mark) == []
    assert list(short.iterdir()) == []
    assert (tmp_path / "r.json").exists()


@pytest.mark.slow
def test_interrupted_simulation_ends_with_130_and_without_noise(tmp_path, short):
    """The first file applies to no release that is asked for, so that the second is under way."""
    story = HANGING.replace("open_at_end: [g, a]", "").replace("hang: g", "default: true")
    (tmp_path / "one.yaml").write_text("profiles: '<0.33'\n" + story)
    (tmp_path / "two.yaml").write_text(story)
    command = Command(
        tmp_path, short, tmp_path / "one.yaml", tmp_path / "two.yaml", "--profile", "0.33.0",
        "--schedules", 1_000_000, "--strategy", "random",
    )  # fmt: skip
    assert "1000000 schedules" in command.process.stdout.readline()
    assert command.process.stdout.readline().startswith("not judged ")
    code, out, err = command.end(signal.SIGINT)
    assert (code, err) == (130, "")
    assert "exit 130: interrupted" in out


def test_interruption_while_the_loop_is_made_leaves_no_half_of_one(monkeypatch):
    made = []

    class Interrupted(worlds.AwakeLoop):
        def __init__(self):
            signal.raise_signal(signal.SIGINT)
            super().__init__()
            made.append(self)

    async def never():
        raise AssertionError

    monkeypatch.setattr(worlds, "AwakeLoop", Interrupted)

    def begun():
        with heard(signal.default_int_handler):
            ZmqWorld().run(never)

    with pytest.raises(KeyboardInterrupt):
        begun()
    assert [loop.is_closed() for loop in made] == [True]
