"""The child's side of a stall, without a process."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal

import msgspec
import pytest

from client.aio import Mailbox
from client.protocol.codec import Codec
from client.protocol.profiles import profile_for
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from mock_engines.aio import next_turn
from mock_engines.behaviours.model import Action
from mock_engines.child import Child


class SlowSockets:
    """A transport whose messages arrive when ``arrive`` is set; it is also all its sockets."""

    arrive: asyncio.Event
    endpoint = "here"

    async def bind(self, kind, endpoint):
        return self

    connect = bind

    async def send(self, frames):
        pass

    async def recv(self):
        await self.arrive.wait()

    def close(self):
        pass


class Lines:
    """What a child tells its parent."""

    def __init__(self):
        self.told = []

    def send(self, line):
        self.told.append(line["do"])

    send_event = send


CONFIG = {
    "rank": 0, "release": "0.33.0", "join": {}, "rules": [], "met": [],
    "addresses": {"input": "i", "output": "o"}, "data_parallel_size": 1, "real_peer": False,
    "gates": [], "waves": False, "rejoin": None, "transport": f"{__name__}:SlowSockets",
}  # fmt: skip


async def turns(count=5):
    for _ in range(count):
        await next_turn()


def stall(opens_meanwhile):
    """Stall a child; returns what it told before and after its sockets were flushed."""

    async def main():
        SlowSockets.arrive = asyncio.Event()
        lines = Lines()
        child = Child(lines, CONFIG)
        await child.endpoint.act([Action(stall="thaw")])
        await turns()
        before = tuple(lines.told)
        if opens_meanwhile:
            child._gates.open_here("thaw")
            await turns()
        SlowSockets.arrive.set()
        await turns()
        child._gates.open_here("thaw")
        await child.endpoint.idle()
        await child.endpoint.stop()
        return before, lines.told

    return asyncio.run(main())


def test_child_asks_to_be_stopped_only_once_its_sockets_are_flushed():
    before, told = stall(opens_meanwhile=False)
    assert "event" in before
    assert "halt" not in before
    assert "halt" in told


def test_child_that_goes_on_before_does_not_ask_to_be_stopped():
    _, told = stall(opens_meanwhile=True)
    assert "halt" not in told


# --- its commands -------------------------------------------------------------------------------


class Parent:
    """The pipe, seen from its other end: what the child says, and what it is told."""

    def __init__(self):
        self.lines, self.orders = [], Mailbox()

    def send(self, line):
        self.lines.append(line)

    send_event = send

    async def receive(self):
        return await self.orders.get()

    async def flush(self):
        """Nothing is ever left in the pipe."""

    def said(self, what):
        return [line for line in self.lines if line["do"] == what]

    def done(self):
        return {line["id"]: line["error"] for line in self.said("done")}

    def waves(self):
        return [(line["call"], line["arguments"]) for line in self.said("waves")]


HERE = []


def here():
    """The transport of the story that is played."""
    return HERE[-1]


@pytest.fixture
def play_child(make_peer):
    """Play a story with a child that is no process, on the simulated loop."""

    def run(story, *, coordinator=False, rejoin=False, **parts):
        loop = SimLoop(make_strategy("fifo", 0, 0))
        transport = SimTransport(loop)
        HERE.append(transport)
        parent = Parent()

        async def main():
            peer = make_peer(transport, Codec(profile_for("0.33.0")), coordinator)
            await peer.open()
            addresses = dataclasses.asdict(peer.bootstrapped())
            config = {**CONFIG, "addresses": addresses, "transport": f"{__name__}:here", **parts}
            if rejoin:
                config["rejoin"] = msgspec.structs.asdict(peer.bootstrapped().as_init())
            child = Child(parent, config)
            running = loop.create_task(child.run())
            await loop.settled()
            if coordinator:
                await peer.open_gate()
                await loop.settled()

            async def order(**line):
                parent.orders.put(line)
                await loop.settled()

            await story(child, order, peer)
            for task in peer.tasks:
                task.cancel()
            await order(do="stop")
            await running

        try:
            loop.run(main())
        finally:
            HERE.pop()
        return parent

    return run


def test_child_answers_each_command_and_says_what_it_cannot_do(play_child):
    async def story(child, order, peer):
        await order(do="idle", id=1)
        await order(do="act", id=2, actions=[{"open": "g"}], background=False)
        await order(do="die", id=3, how="close")
        assert child.endpoint.state()["alive"] is False
        await order(do="rejoin", id=4)
        assert child.endpoint.state()["alive"] is True
        await order(do="dance", id=5)
        await order(do="act", id=6, actions=[{"wave_complete": 1}], background=False)

    parent = play_child(story)
    errors = parent.done()
    assert [errors[number] for number in range(1, 5)] == [None] * 4
    assert errors[5] == "ValueError: no such command: 'dance'"
    assert errors[6].startswith("ScriptError: ")
    assert [line["gate"] for line in parent.said("opened")] == ["g"]
    assert parent.said("failure") == []


def test_gate_that_was_open_before_lets_pass_and_is_not_told_of(play_child):
    async def story(child, order, peer):
        await order(do="act", id=1, actions=[{"hang": "g"}, {"open": "g"}], background=False)
        await child._gates.wait("g")

    parent = play_child(story, gates=["g"])
    assert parent.done() == {1: None}
    assert parent.said("opened") == parent.said("waiting") == []


def test_wave_of_a_child_is_what_its_parent_said_last(play_child):
    async def story(child, order, peer):
        await order(do="wave", wave=7)
        await order(do="act", id=1, actions=[{"wave_complete": {}}], background=False)
        await order(do="die", id=2, how="close")

    parent = play_child(story, coordinator=True, waves=True)
    assert parent.done() == {1: None, 2: None}
    told = [line["event"] for line in parent.said("event")]
    assert [event["wave"] for event in told if "notice" in event] == [7]
    assert [call for call, _ in parent.waves() if call != "work"] == ["enter", "leave"]


def test_wave_is_nothing_to_a_child_whose_notices_are_scripted(play_child):
    async def story(child, order, peer):
        await order(do="wave", wave=7)
        assert child.endpoint.state()["wave"] == 0

    parent = play_child(story, coordinator=True)
    assert parent.waves() == []


def test_startup_that_fails_is_told_with_its_cause(play_child):
    async def story(child, order, peer):
        assert peer.registrations == []

    parent = play_child(story, join={"ready_raw": "no hex"})
    causes = {line["error"] for line in parent.said("failure")}
    assert len(causes) == 1
    assert causes.pop().startswith("ValueError: ")
    assert parent.said("joined") == []


@pytest.mark.parametrize("body", [None, "no hex"])
def test_return_of_a_child_is_told_and_so_is_one_that_fails(play_child, body):
    async def story(child, order, peer):
        assert len(peer.registrations) == (body is None)

    parent = play_child(story, join={"ready_raw": body}, rejoin=True)
    assert len(parent.said("joined")) == (body is None)
    causes = [line["error"].partition(":")[0] for line in parent.said("failure")]
    assert causes == ([] if body is None else ["ValueError"])


def test_child_that_vanishes_says_what_happened_before_and_kills_itself(play_child, monkeypatch):
    killed = []
    monkeypatch.setattr(os, "kill", lambda *words: killed.append(words))

    async def story(child, order, peer):
        await order(do="act", id=1, actions=[{"die": "vanish"}], background=False)
        assert killed == [(os.getpid(), signal.SIGKILL)]

    parent = play_child(story)
    state = parent.said("state")[-1]["state"]
    assert state["alive"] is False
    assert any("EngineDied" in str(line["event"]) for line in parent.said("event"))
