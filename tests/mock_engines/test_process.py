"""Engines as child processes, on real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from client.protocol.codec import Codec
from client.protocol.profiles import profile_for
from client.transports.sockets import ZmqTransport
from mock_engines import events
from mock_engines.cluster import Cluster
from mock_engines.control import Control
from mock_engines.gates import Gates
from mock_engines.process import ChildError, ChildKilledError, ProcessEngine, ProcessFactory
from mock_engines.spawn import ChildProcess

pytestmark = [pytest.mark.zmq, pytest.mark.slow]

LIMIT_S = 30.0
UNDELIVERED_S = 0.5
"""How long a message that must not arrive is waited for; on an idle machine it takes a millisecond."""


@pytest.fixture
def play_real(make_peer, make_run, spec):
    """Play a story on real sockets; engines run as their specs say."""

    def run(
        story: Callable[[Any], Awaitable[None]],
        *,
        specs: Sequence[dict[str, Any]],
        ranks: Sequence[int] = (0,),
        coordinator: bool = False,
    ) -> Any:
        made = []

        async def main() -> None:
            transport = ZmqTransport()
            try:
                profile = profile_for("0.33.0")
                peer = make_peer(transport, Codec(profile), coordinator)
                await peer.open()
                seen: list[events.MockEvent] = []
                gates = Gates()
                cluster = Cluster(
                    transport,
                    profile,
                    ranks,
                    [spec(**parts) for parts in specs],
                    peer.bootstrapped(),
                    gates=gates,
                    observer=seen.append,
                    process_factory=ProcessFactory(),
                )
                made.append(make_run(peer, cluster, gates, seen, None))
                cluster.start()
                try:
                    if coordinator:
                        await peer.until(lambda: len(peer.subscriptions) == len(ranks))
                        await peer.open_gate()
                    await cluster.joined()
                    await peer.until(lambda: len(peer.registrations) == len(ranks))
                    await story(made[0])
                finally:
                    await cluster.stop()
                    for task in peer.tasks:
                        task.cancel()
            finally:
                transport.close()

        async def bounded() -> None:
            async with asyncio.timeout(LIMIT_S):
                await main()

        asyncio.run(bounded())
        return made[0]

    return run


CHILD = {"engine": 0, "process": True}


def proc_state(process_id: int) -> str | None:
    """State letter of a process (R, S, T = stopped, Z …), ``None`` if there is none."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(process_id: int) -> bool:
    """Whether the process is there; one that only waits to be reaped is not."""
    return proc_state(process_id) not in {None, "Z"}


def handle(run, rank=0):
    return run.cluster._handles[rank]


def test_child_engine_streams_and_answers_like_one_in_process(play_real):
    async def story(run):
        await run.peer.add("a")
        await run.peer.utility("add_lora", ["x", 4, "/p"])
        await run.peer.until(lambda: run.peer.rows("a")[-1:] and run.peer.rows("a")[-1][2])
        await run.peer.until(run.peer.replies)
        await run.cluster.idle()
        assert run.cluster.state(0)["loras"] == [4]
        assert handle(run).process_id != os.getpid()

    run = play_real(story, specs=[CHILD])
    assert run.peer.replies() == [(1, None, True)]
    kinds = [type(event).__name__ for event in run.events]
    assert kinds.count("OutputSent") == 3
    assert kinds.index("UtilityApplied") < kinds.index("UtilityReplySent")


def test_message_of_a_child_leaves_only_once_its_event_is_recorded(play_real, monkeypatch):
    """Whoever it reaches would else be heard first: an answer before its question."""
    met, go_on = asyncio.Event(), asyncio.Event()
    receive = Control.receive

    async def slow(self):
        line = await receive(self)
        if line is not None and "UtilityReplySent" in json.dumps(line):
            met.set()
            await go_on.wait()
        return line

    monkeypatch.setattr(Control, "receive", slow)

    async def story(run):
        await run.peer.utility("add_lora", ["x", 4, "/p"])
        await met.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(UNDELIVERED_S):
                await run.peer.until(run.peer.replies)
        assert not run.seen(events.UtilityReplySent)
        go_on.set()
        await run.peer.until(run.peer.replies)
        assert run.seen(events.UtilityReplySent)

    play_real(story, specs=[CHILD])


def test_child_engine_that_vanishes_is_gone_and_can_return(play_real):
    async def story(run):
        pid = handle(run).process_id
        await run.peer.add("a")
        await run.peer.until(lambda: run.seen(events.EngineDied))
        await run.cluster.idle()
        assert run.cluster.state(0)["alive"] is False
        await run.cluster.rejoin(0)
        assert not alive(pid)
        await run.peer.until(lambda: len(run.peer.registrations) == 2)
        await run.peer.add("b")
        await run.peer.until(lambda: run.peer.rows("b")[-1:] and run.peer.rows("b")[-1][2])

    rules = [
        {
            "on": "add",
            "nth": 1,
            "do": [{"stream": {"tokens": 1, "finish": None}}, {"die": "vanish"}],
        }
    ]
    run = play_real(story, specs=[{"engine": 0, "rules": rules}])
    assert run.seen(events.EngineDied) == [events.EngineDied(0, "vanish")]


def test_kill_by_vanish_ends_the_process_before_it_returns(play_real):
    async def story(run):
        pid = handle(run).process_id
        await run.cluster.kill(0, "vanish")
        assert not alive(pid)
        assert handle(run).process_id is None

    play_real(story, specs=[CHILD])


def test_gates_cross_the_process_border_both_ways(play_real):
    async def story(run):
        await run.peer.utility("is_sleeping")
        await run.peer.until(lambda: run.gates.waiting("g") == 1)
        assert run.peer.replies() == []
        run.gates.open("g")
        await run.peer.until(run.peer.replies)
        await run.cluster.idle()
        assert run.gates.is_open("from-child")
        assert run.gates.waiting("g") == 0

    rule = {"on": "utility", "do": [{"hang": "g"}, {"open": "from-child"}, {"default": True}]}
    play_real(story, specs=[{"engine": 0, "process": True, "rules": [rule]}])


def test_wave_model_of_the_parent_moves_a_child(play_real):
    async def story(run):
        await run.peer.add("a", rank=1)
        await run.peer.until(lambda: len(run.peer.notices) == 1)
        await run.peer.start_wave(0, exclude=1)
        await run.peer.until(lambda: run.seen(events.WaveNoticeSent)[-1].notice == "complete")
        await run.cluster.idle()
        assert run.cluster.state(1)["wave"] == 1

    run = play_real(story, specs=[{"engine": 1, "process": True}], ranks=(0, 1), coordinator=True)
    assert run.seen(events.WaveNoticeSent) == [
        events.WaveNoticeSent(1, "start", 0),
        events.WaveNoticeSent(0, "start", 0),
        events.WaveNoticeSent(0, "complete", 0),
    ]


# --- stalls ---------------------------------------------------------------------------------

STALLING = {
    "engine": 0,
    "rules": [
        {
            "on": "add",
            "do": [
                {"stream": {"tokens": 2, "finish": None}},
                {"stall": "thaw"},
                {"stream": {"tokens": 1}},
            ],
        }
    ],
}


STALL_EVENTS = (events.EngineStalled, events.EngineResumed)


async def halted(run):
    """Wait until the process is stopped."""
    await run.peer.until(lambda: proc_state(handle(run).process_id) == "T")


def test_child_that_stalls_is_stopped_once_its_outputs_left_and_goes_on_later(play_real):
    async def story(run):
        await run.peer.add("a")
        await halted(run)
        await run.peer.until(lambda: len(run.peer.rows("a")) == 2)
        await run.peer.utility("is_sleeping")
        await run.cluster.idle()
        assert run.cluster.state(0)["stalled"] is True
        assert run.seen(events.EngineIdle) == []
        run.gates.open("thaw")
        assert run.cluster.state(0)["stalled"] is False
        await run.peer.until(run.peer.replies)
        await run.peer.until(lambda: len(run.peer.rows("a")) == 3)
        await run.cluster.idle()

    run = play_real(story, specs=[STALLING])
    stalled = run.events.index(events.EngineStalled(0, "thaw"))
    assert run.events[stalled + 1] == events.EngineResumed(0)


def test_everything_that_a_child_sent_before_it_stalled_arrives_while_it_is_stopped(play_real):
    async def story(run):
        await run.peer.add("a")
        await halted(run)
        await run.peer.until(lambda: len(run.peer.rows("a")) == 2000)

    rule = {"on": "add", "do": [{"output": {"tokens": [7], "times": 2000}}, {"stall": "thaw"}]}
    play_real(story, specs=[{"engine": 0, "rules": [rule]}])


def test_stalled_child_holds_neither_steps_nor_notices_nor_an_idle_that_waits(play_real):
    async def story(run):
        await run.cluster.act(0, run.actions({"delay_ms": 1}, {"stall": "thaw"}, {"open": "g"}))
        assert run.cluster.state(0)["stalled"] is True
        await handle(run).notice("complete", 4)
        await run.cluster.act(0, run.actions({"start_wave": 5}), background=True)
        await run.cluster.idle()
        await halted(run)
        assert not run.gates.is_open("g")
        run.gates.open("thaw")
        await run.cluster.idle()
        await run.peer.until(lambda: len(run.seen(events.WaveNoticeSent)) == 2)
        assert run.gates.is_open("g")

    play_real(story, specs=[CHILD], coordinator=True)


def test_gate_that_opens_before_it_is_known_that_a_child_stalled_stops_nothing(
    play_real, monkeypatch
):
    """The event of the stall is under way while the gate opens, and asks to be stopped for nothing."""
    take = ProcessEngine._event
    stopped = []

    def opened_first(self, dumped):
        if dumped["kind"] == "EngineStalled":
            self.setup.gates.open(dumped["gate"])
        take(self, dumped)

    async def story(run):
        monkeypatch.setattr(ProcessEngine, "_event", opened_first)
        monkeypatch.setattr(ChildProcess, "halt", stopped.append)
        await run.cluster.act(0, run.actions({"stall": "thaw"}, {"open": "behind"}))
        assert run.cluster.state(0)["stalled"] is False
        await run.cluster.idle()
        assert run.gates.is_open("behind")

    run = play_real(story, specs=[CHILD])
    assert [type(event) for event in run.events if isinstance(event, STALL_EVENTS)] == [
        events.EngineStalled,
        events.EngineResumed,
    ]
    assert stopped == []


def test_error_of_a_child_behind_a_stall_is_not_lost(play_real):
    async def story(run):
        await run.cluster.act(0, run.actions({"stall": "thaw"}, {"wave_complete": 1}))
        run.gates.open("thaw")
        await run.peer.until(lambda: run.cluster.failures)
        with pytest.raises(ChildError, match="no coordinator"):
            await run.cluster.idle()

    play_real(story, specs=[CHILD])


@pytest.mark.parametrize("at_once", [True, False])
def test_stalled_child_can_vanish_and_return(play_real, at_once):
    """``at_once``: while it still says what became of it, before it is stopped."""

    async def story(run):
        await run.cluster.act(0, run.actions({"stall": "thaw"}))
        if not at_once:
            await halted(run)
        pid = handle(run).process_id
        await run.cluster.act(0, run.actions({"die": "vanish"}))
        assert not alive(pid)
        await run.cluster.rejoin(0)
        await run.peer.until(lambda: len(run.peer.registrations) == 2)
        await run.peer.utility("is_sleeping")
        await run.peer.until(run.peer.replies)

    run = play_real(story, specs=[CHILD])
    assert run.seen(events.EngineDied) == [events.EngineDied(0, "vanish")]


def test_child_that_is_still_stopped_at_the_end_is_killed_at_once(play_real, monkeypatch):
    monkeypatch.setattr("mock_engines.process.STOP_S_MAX", 10 * LIMIT_S)
    pids = []

    async def story(run):
        await run.peer.add("a")
        await halted(run)
        pids.append(handle(run).process_id)

    play_real(story, specs=[STALLING])
    assert not alive(pids[0])


def test_child_that_is_killed_from_outside_is_reported_as_a_fault(play_real):
    async def story(run):
        os.kill(handle(run).process_id, signal.SIGKILL)
        await run.peer.until(lambda: run.cluster.failures)
        with pytest.raises(ChildKilledError, match=r"killed .SIGKILL., and not by us"):
            await run.cluster.idle()

    play_real(story, specs=[CHILD])


@pytest.mark.parametrize("stopped", [False, True])
def test_no_child_outlives_a_parent_that_is_killed(tmp_path, stopped):
    """The parent is a process of its own that gets SIGKILL; its child must follow."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, os\n"
        "from client.protocol.profiles import profile_for\n"
        "from client.transports.sockets import ZmqTransport\n"
        "from mock_engines.behaviours.model import Action, EngineSpec\n"
        "from mock_engines.cluster import Cluster, JoinAddresses\n"
        "from mock_engines.process import ProcessFactory\n"
        "async def main():\n"
        "    t = ZmqTransport()\n"
        "    a = JoinAddresses(input=t.endpoint('i'), output=t.endpoint('o'))\n"
        "    c = Cluster(t, profile_for('0.33.0'), [0], [EngineSpec(process=True)], a,\n"
        "                process_factory=ProcessFactory())\n"
        "    c.start()\n"
        "    await c.joined()\n"
        f"    if {stopped}:\n"
        "        await c.act(0, [Action(stall='never')])\n"
        "        child, flags = c._handles[0].process_id, os.WSTOPPED | os.WNOWAIT\n"
        "        await asyncio.to_thread(os.waitid, os.P_PID, child, flags)\n"
        "    print(c._handles[0].process_id, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        # What a killed process cannot remove goes with the test's own folder.
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        assert (proc_state(child) == "T") is stopped
        watch = os.pidfd_open(child)
        parent.send_signal(signal.SIGKILL)
        ready, _, _ = select.select([watch], [], [], LIMIT_S)
        os.close(watch)
        assert ready == [watch]


def test_child_ends_by_itself_when_its_pipe_ends():
    """What keeps orphans away where the kernel does not: no signal is involved here."""
    ours, theirs = socket.socketpair()
    heard, taken = os.pipe()
    passed = [theirs.fileno(), heard]
    command = [sys.executable, "-m", "mock_engines.child_entry", *map(str, (*passed, os.getpid()))]
    with subprocess.Popen(command, pass_fds=passed) as child:
        theirs.close()
        os.close(heard)
        config = {
            "rank": 0, "release": "0.33.0", "join": {}, "rules": [], "met": [],
            "addresses": {"input": "ipc:///nonexistent/i", "output": "ipc:///nonexistent/o"},
            "data_parallel_size": 1, "real_peer": False, "gates": [], "waves": False,
            "transport": "client.transports.sockets:ZmqTransport", "rejoin": None,
        }  # fmt: skip
        ours.sendall(json.dumps(config).encode() + b"\n")
        assert b"EngineJoined" in ours.recv(65536)
        ours.close()
        os.close(taken)
        assert child.wait(LIMIT_S) == 0
