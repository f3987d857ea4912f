"""The parent's side of an engine in a process of its own, without a process."""

from __future__ import annotations

import asyncio

import pytest

from client.protocol.profiles import profile_for
from mock_engines import events, process
from mock_engines.aio import next_turn
from mock_engines.behaviours.model import Action, Join
from mock_engines.event_json import event_to_json
from mock_engines.gates import Gates
from mock_engines.handle import EngineSetup
from mock_engines.join import JoinAddresses
from mock_engines.outlets import ScriptError
from mock_engines.process import ChildError, ChildKilledError, ProcessFactory
from mock_engines.specs import EngineScript

INIT = {
    "inputs": ["i"], "outputs": ["o"], "coordinator_input": None, "coordinator_output": None,
}  # fmt: skip
END = object()


class FakeProcess:
    """Notes what is done to it; its pipe ends with it."""

    pid = 77
    stands_still = False
    killed_from_outside = False

    def __init__(self, control):
        self.control, self.done = control, []
        self.exit_code = None
        self.halted = False

    def kill(self):
        self.done.append("kill")
        self.exit_code = -9
        self.control.lines.put_nowait(END)

    def make_sure(self):
        self.done.append("make sure")
        self.exit_code = -9

    def halt(self):
        self.done.append("halt")

    def go_on(self):
        self.done.append("go on")

    def event_taken(self):
        self.done.append("taken")

    async def wait(self):
        self.exit_code = 0 if self.exit_code is None else self.exit_code
        return self.exit_code


class FakeControl:
    """A pipe whose other end is the test."""

    def __init__(self):
        self.sent, self.lines = [], asyncio.Queue()
        self.closed = False

    def send(self, line):
        self.sent.append(line)
        if line["do"] == "stop":
            self.lines.put_nowait(END)

    async def receive(self):
        line = await self.lines.get()
        if isinstance(line, Exception):
            raise line
        return None if line is END else line

    def close(self):
        self.closed = True


class FakeWaves:
    """A wave model that only notes its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda rank, **arguments: self.calls.append((name, arguments))


class Lab:
    """One engine, its process and its pipe."""

    def __init__(self, monkeypatch, *, waves=None):
        self.control = FakeControl()
        self.process = FakeProcess(self.control)
        self.spawned = asyncio.Event()
        self.spawned.set()
        self.opens = None
        self.seen, self.failures, self.waves = [], [], waves
        monkeypatch.setattr(process, "spawn", self.spawn)
        monkeypatch.setattr(process, "open_control", self.open_control)
        self.gates = Gates()
        setup = EngineSetup(
            rank=0,
            profile=profile_for("0.33.0"),
            script=EngineScript(join=Join(), rules=(), process=True),
            addresses=JoinAddresses(input="i", output="o"),
            data_parallel_size=1,
            real_peer=False,
            gates=self.gates,
            observer=self.seen.append,
            waves=waves,
            on_failure=self.failures.append,
        )
        self.engine = ProcessFactory()(setup)

    async def spawn(self):
        await self.spawned.wait()
        return self.process, None

    async def open_control(self, _pipe):
        if self.opens is not None:
            raise self.opens
        return self.control

    def asked(self, what):
        return [line for line in self.control.sent if line["do"] == what]

    async def says(self, *lines):
        for line in lines:
            self.control.lines.put_nowait(line)
        await self.turns()

    async def turns(self, count=8):
        for _ in range(count):
            await next_turn()

    def spawn_task(self, work):
        return asyncio.get_running_loop().create_task(work)

    async def up(self):
        self.engine.start()
        await self.says({"do": "joined", "init": INIT, "state": state()})
        await self.engine.joined()

    async def stalled_at(self, gate):
        await self.says({"do": "event", "event": event_to_json(events.EngineStalled(0, gate))})


def state(**parts):
    return {"alive": True, "joined": True, "request_ids": [], **parts}


def actions(*each):
    return [Action.model_validate(one) for one in each]


@pytest.fixture
def play(monkeypatch):
    def run(story, **parts):
        async def main():
            async with asyncio.timeout(30):
                lab = Lab(monkeypatch, **parts)
                await story(lab)
                await lab.engine.stop()
                return lab

        return asyncio.run(main())

    return run


def test_failure_of_a_child_is_raised_by_joined_and_reported_once(play):
    async def story(lab):
        lab.engine.start()
        await lab.says({"do": "failure", "error": "ValueError: no hex"})
        await lab.says({"do": "failure", "error": "ValueError: no hex"})
        with pytest.raises(ChildError, match="no hex"):
            await lab.engine.joined()
        assert not lab.engine.has_joined

    lab = play(story)
    assert [str(error) for error in lab.failures] == ["ValueError: no hex"]


def test_engine_whose_process_is_gone_neither_acts_nor_dies_nor_is_asked(play):
    async def story(lab):
        await lab.up()
        await lab.says({"do": "state", "state": state(alive=False)}, END)
        with pytest.raises(ScriptError, match="engine 0 is dead and cannot act"):
            await lab.engine.act(actions({"open": "g"}))
        await lab.engine.die("close")
        await lab.engine.notice("complete", 1)
        await lab.engine.idle()
        assert [line["do"] for line in lab.control.sent] == ["config"]

    assert play(story).failures == []


def test_process_that_ends_by_itself_is_a_fault(play):
    async def story(lab):
        await lab.up()
        await lab.says(END)
        assert not lab.engine.has_joined

    (error,) = play(story).failures
    assert str(error) == "process of engine 0 ended by itself (0)"


def test_engine_that_vanishes_before_it_can_answer_is_gone(play):
    async def story(lab):
        await lab.up()
        dying = lab.spawn_task(lab.engine.die("vanish"))
        await lab.turns()
        assert len(lab.asked("die")) == 1
        died = event_to_json(events.EngineDied(0, "vanish"))
        await lab.says({"do": "event", "event": died, "state": state(alive=False)}, END)
        await dying
        assert lab.engine.process_id is None

    lab = play(story)
    assert lab.failures == []
    assert lab.seen == [events.EngineDied(0, "vanish")]


def test_engine_in_a_process_takes_no_part_in_a_change_of_their_number(play):
    async def story(lab):
        with pytest.raises(ScriptError, match="sends no RECONFIGURE_FINISHED"):
            await lab.engine.elastic_notice("RECONFIGURE_FINISHED")
        with pytest.raises(ScriptError, match="cannot be removed"):
            await lab.engine.remove()

    play(story)


def test_engine_that_lives_reconnects_in_its_own_process(play):
    async def story(lab):
        await lab.up()
        returning = lab.spawn_task(lab.engine.rejoin())
        await lab.turns()
        (line,) = lab.asked("rejoin")
        await lab.says({"do": "done", "id": line["id"], "error": None})
        await returning
        assert len(lab.asked("config")) == 1

    play(story)


def test_engine_that_never_joined_cannot_come_back(play):
    async def story(lab):
        lab.engine.start()
        await lab.says({"do": "state", "state": state(alive=False)}, END)
        with pytest.raises(ScriptError, match="engine 0 never learnt where to connect"):
            await lab.engine.rejoin()

    play(story)


def test_process_that_is_stopped_before_it_is_connected_is_told_so_then(play):
    async def story(lab):
        lab.spawned.clear()
        lab.engine.start()
        await lab.turns()
        stopping = lab.spawn_task(lab.engine.stop())
        await lab.turns()
        assert lab.control.sent == []
        lab.spawned.set()
        await stopping
        assert [line["do"] for line in lab.control.sent] == ["config", "stop"]

    assert play(story).failures == []


def test_stop_that_is_cancelled_kills_the_process(play):
    async def story(lab):
        await lab.up()
        lab.control.send = lambda line: None  # it does not listen
        stopping = lab.spawn_task(lab.engine.stop())
        await lab.turns()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert lab.process.done == ["kill"]

    play(story)


def test_stop_that_is_cancelled_before_there_is_a_process_kills_none(play):
    async def story(lab):
        lab.spawned.clear()
        lab.engine.start()
        await lab.turns()
        stopping = lab.spawn_task(lab.engine.stop())
        await lab.turns()
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert lab.process.done == []
        lab.spawned.set()

    play(story)


def test_pipe_that_breaks_is_a_fault_and_its_process_is_ended_for_sure(play):
    async def story(lab):
        await lab.up()
        await lab.says(ConnectionResetError("gone"))
        assert lab.process.done == ["make sure"]
        assert lab.control.closed

    (error,) = play(story).failures
    assert isinstance(error, ConnectionResetError)


def test_line_that_means_nothing_ends_the_process(play):
    async def story(lab):
        await lab.up()
        await lab.says({"no": "verb"})
        assert lab.process.done == ["kill"]

    (error,) = play(story).failures
    assert isinstance(error, KeyError)


def test_process_whose_pipe_cannot_be_opened_is_killed_and_nobody_waits_for_it(play):
    async def story(lab):
        lab.opens = OSError("no descriptor left")
        lab.engine.start()
        acting = lab.spawn_task(lab.engine.act(actions({"open": "g"})))
        await lab.turns()
        await acting  # a process that is gone has nothing to do
        assert lab.process.done == ["kill"]
        with pytest.raises(OSError, match="no descriptor left"):
            await lab.engine.joined()

    assert len(play(story).failures) == 1


def test_child_whose_gate_opened_meanwhile_is_not_halted(play):
    async def story(lab):
        await lab.up()
        await lab.stalled_at("thaw")
        await lab.says({"do": "halt", "gate": "another"})
        assert lab.process.done == ["taken"]
        await lab.says({"do": "halt", "gate": "thaw"})
        assert lab.process.done == ["taken", "halt"]
        lab.gates.open("thaw")
        assert lab.process.done == ["taken", "halt", "go on"]
        await lab.says({"do": "halt", "gate": "thaw"})
        assert lab.process.done == ["taken", "halt", "go on"]

    play(story)


def test_child_whose_gate_opened_before_its_stall_was_told_of_does_not_stand_still(play):
    async def story(lab):
        await lab.up()
        lab.gates.open("thaw")
        await lab.stalled_at("thaw")
        assert not lab.engine.stalled
        await lab.says({"do": "halt", "gate": "thaw"})
        assert lab.process.done == ["taken"]

    play(story)


def test_error_of_a_command_behind_a_stall_is_a_fault(play):
    async def story(lab):
        await lab.up()
        await lab.stalled_at("thaw")
        await lab.engine.notice("complete", 1)  # not waited for
        (line,) = lab.asked("notice")
        await lab.says({"do": "done", "id": line["id"], "error": "ScriptError: no coordinator"})

    (error,) = play(story).failures
    assert str(error) == "ScriptError: no coordinator"


def test_waves_of_a_child_reach_the_model_while_it_takes_part(play):
    def told(call, **arguments):
        return {"do": "waves", "call": call, "arguments": arguments}

    async def story(lab):
        await lab.up()
        await lab.says(told("work", unfinished=True))
        assert lab.waves.calls == []
        await lab.says(told("enter"), told("work", unfinished=True), told("leave"))
        await lab.says(told("work", unfinished=False), told("leave"))

    lab = play(story, waves=FakeWaves())
    assert lab.waves.calls == [("enter", {}), ("work", {"unfinished": True}), ("leave", {})]


def test_waves_of_a_child_are_nobody_s_where_notices_are_scripted(play):
    async def story(lab):
        await lab.up()
        await lab.says({"do": "waves", "call": "enter", "arguments": {}})
        assert lab.engine.has_joined

    assert play(story).failures == []


def test_what_was_in_the_pipe_when_the_process_was_killed_changes_nothing(play):
    async def story(lab):
        await lab.up()
        await lab.stalled_at("thaw")
        idle = event_to_json(events.EngineIdle(0, ("a",)))
        lab.control.lines.put_nowait({"do": "event", "event": idle, "state": state()})
        await lab.engine.die("vanish")
        assert lab.process.done == ["taken", "kill"]
        assert not lab.engine.has_joined

    lab = play(story)
    assert lab.seen == [events.EngineStalled(0, "thaw"), events.EngineDied(0, "vanish")]
    assert lab.failures == []


def test_engine_that_vanishes_returns_in_a_new_process_once_the_old_one_is_gone(play):
    async def story(lab):
        await lab.up()
        died = event_to_json(events.EngineDied(0, "vanish"))
        await lab.says({"do": "event", "event": died, "state": state(alive=False)})
        returning = lab.spawn_task(lab.engine.rejoin())
        await lab.turns()
        assert len(lab.asked("config")) == 1  # it is there still
        await lab.says(END)
        first, second = lab.asked("config")
        assert (first["rejoin"], second["rejoin"]) == (None, INIT)
        await lab.says({"do": "joined", "init": INIT, "state": state()})
        await returning
        assert lab.engine.has_joined

    assert play(story).failures == []


def test_process_that_somebody_else_killed_is_a_fault_of_its_own(play):
    async def story(lab):
        await lab.up()
        lab.process.killed_from_outside = True
        await lab.says(END)

    (error,) = play(story).failures
    assert isinstance(error, ChildKilledError)
    assert error.rank == 0


def test_idle_of_a_child_waits_for_its_answer_and_not_for_one_that_stalls(play):
    async def story(lab):
        await lab.up()
        idle = lab.spawn_task(lab.engine.idle())
        await lab.turns()
        assert lab.engine.busy
        (line,) = lab.asked("idle")
        await lab.says({"do": "done", "id": line["id"], "error": None})
        await idle
        idle = lab.spawn_task(lab.engine.idle())
        await lab.turns()
        await lab.stalled_at("thaw")
        await idle
        await lab.engine.idle()
        assert len(lab.asked("idle")) == 2

    play(story)


def test_halted_process_is_killed_at_the_end(play):
    async def story(lab):
        await lab.up()
        lab.process.halted = True
        await lab.engine.stop()
        assert lab.process.done == ["kill"]

    play(story)
