"""An end of the frontend that nobody asked for comes first, whatever follows from it."""

from __future__ import annotations

import asyncio
import json
import sys
import sysconfig
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.aio import DeadlineExceeded, with_deadline
from harness.cli.main import cli
from harness.frontend_end import EndWatch, ends_frontend, is_about_an_end
from harness.results import RUNS_ON, ExpectationResult
from harness.scenario.model import Scenario, Step
from harness.targets.base import TargetError
from harness.targets.vllm_rs.reference import PROGRAM
from harness.trace.events import ConnectEnded, LogLine, ProcessExited, StepBegan
from harness.trace.recorder import Recorder

HEAD = {"title": "t", "promise": "p", "refs": ["vllm#1"]}


def scenario(*steps, **more):
    return Scenario.model_validate({**HEAD, "steps": [*steps, {"fence": True}], **more})


@pytest.mark.parametrize(
    ("step", "ends"),
    [
        ({"signal": "TERM"}, True),
        ({"signal": "KILL"}, True),
        ({"signal": "STOP"}, False),
        ({"shutdown": {"timeout_s": 1}}, True),
        ({"grpc": {"id": "a", "method": "Control/Shutdown"}}, True),
        ({"grpc": {"id": "a", "method": "Control/Abort"}}, False),
        ({"fence": True}, False),
    ],
)
def test_a_step_that_ends_the_frontend_is_told_from_others(step, ends):
    assert ends_frontend(Step.model_validate(step)) is ends


def test_a_scenario_is_about_an_end_if_startup_fails_or_an_exit_code_comes_by_itself():
    exits = {"expect": {"exit_code": 1}}
    assert is_about_an_end(scenario(exits))
    assert is_about_an_end(scenario(connect_fails=True))
    assert not is_about_an_end(scenario({"signal": "TERM"}, exits))
    assert not is_about_an_end(scenario())


class Watched:
    """A watch, and the trace that it follows."""

    def __init__(self, *steps, **more):
        self.trace = Recorder(clock=lambda: 0.0)
        self.watch = EndWatch(scenario(*steps, **more), self.trace)

    def see(self, *events):
        for event in events:
            self.trace.emit(event)
        return self.watch.seen


SERVES = ConnectEnded(None, "")
KILLED = ProcessExited(-9)


def test_an_end_is_seen_behind_readiness_unless_a_step_asked_for_it():
    assert Watched().see(KILLED) is None
    assert Watched().see(SERVES, KILLED).event == KILLED
    ended = {"signal": "KILL"}
    assert Watched({"fence": True}, ended).see(SERVES, StepBegan(0, "fence"), KILLED) is not None
    assert Watched({"fence": True}, ended).see(SERVES, StepBegan(1, "signal"), KILLED) is None
    assert Watched(connect_fails=True).see(SERVES, KILLED) is None


def test_the_outcome_has_the_signal_the_place_and_the_last_lines():
    watched = Watched()
    lines = [LogLine("INFO", "other", (), f"line {n}") for n in range(20)]
    watched.see(SERVES, *lines, KILLED)
    outcome = watched.watch.outcome("at step 7 (fence)")
    first, *last = outcome.seen.splitlines()
    assert first == "it ended by SIGKILL at step 7 (fence); its last log lines:"
    assert last == [f"INFO line {n}" for n in range(12, 20)]
    assert outcome.expected == RUNS_ON
    told = ExpectationResult(7, outcome.status, outcome.expected, outcome.seen)
    assert told.title == "the frontend ended by SIGKILL at step 7 (fence)"


def test_an_end_without_a_word_says_so():
    watched = Watched()
    watched.see(SERVES, ProcessExited(3))
    seen = watched.watch.outcome("at step 0 (fence)").seen
    assert seen == "it ended with exit code 3 at step 0 (fence); it logged nothing"


def test_a_step_that_waits_is_given_up_when_the_frontend_ends():
    async def main():
        watched = Watched()
        watched.see(SERVES)
        loop = asyncio.get_running_loop()

        async def for_ever():
            loop.call_soon(watched.see, KILLED)
            await loop.create_future()

        with pytest.raises(TargetError, match="the frontend ended"):
            await watched.watch.within(for_ever(), 20)
        with pytest.raises(TargetError, match="the frontend ended"):
            await watched.watch.within(for_ever(), 20)

    asyncio.run(main())


class Turns:
    """Counts the turns of the running loop."""

    def __init__(self):
        self.count = -1
        self._turn()

    def _turn(self):
        self.count += 1
        asyncio.get_running_loop().call_soon(self._turn)


def test_a_step_takes_as_many_turns_as_without_a_watch():
    """Who leaves at once must not leave later: that alone decides races of real frontends."""

    async def main(watched):
        within = with_deadline if watched is None else watched.watch.within
        turns = Turns()

        async def work():
            return turns.count

        return await within(work(), 20), turns.count

    assert asyncio.run(main(Watched())) == asyncio.run(main(None))


def test_a_step_may_take_no_longer_than_it_may_with_a_watch_either():
    async def main():
        await Watched().watch.within(asyncio.Event().wait(), 0.01)

    with pytest.raises(DeadlineExceeded):
        asyncio.run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="the target runs on Linux")
@pytest.mark.parametrize("connect_fails", ["true", "false"])
def test_a_frontend_that_says_nothing_of_the_kind_is_an_error_at_a_connect_step_too(
    tmp_path, connect_fails
):
    """Wherever startup is waited for, and whatever the scenario expects of it."""
    script = tmp_path / "silent"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    for name in "abcd":
        (tmp_path / f"{name}.yaml").write_text(CONNECTS.format(connect_fails))
    words = ["run", *(tmp_path / f"{name}.yaml" for name in "abcd"), "--target", "vllm-rs"]
    words += ["--frontend", script, "--as-release", "0.33.0", "--json", tmp_path / "json"]
    ran = CliRunner().invoke(cli, [str(word) for word in words])
    assert ran.exit_code == 3, ran.output
    title = "error: the frontend ended with exit code 3 before it was ready; it said nothing\n"
    assert ran.stdout.count(title) == 1
    assert f"    command: {script} serve " in ran.stdout
    document = json.loads((tmp_path / "json").read_text())
    assert [one["status"] for one in document["results"]] == ["error"] * 3
    assert len(document["not_run"]) == 1


# --- a whole run ----------------------------------------------------------------------------

DIES = """#!{python}
import os, signal, subprocess, sys
child = subprocess.Popen([{program!r}, *sys.argv[1:]], stderr=subprocess.PIPE)
for line in child.stderr:
    sys.stderr.buffer.write(line)
    sys.stderr.flush()
    if b"registered request" in line:
        child.kill()
        child.wait()
        os.kill(os.getpid(), signal.{signal})
sys.exit(child.wait())
"""
CONNECTS = """
title: Startup
promise: p
refs: [vllm#1]
connect_fails: {}
steps:
  - connect: true
  - expect: {{connect: failed}}
"""
STORY = """
title: A request is answered
promise: p
refs: [vllm#1]
engines:
  - {engine: all, rules: [{on: add, do: {hang: go}}]}
steps:
  - call: {id: a}
  - wait: {event: call-output, request: a}
  - open: go
"""


@pytest.fixture
def dying(tmp_path):
    """Return a function that makes a frontend which ends by a signal at its first request."""
    program = Path(sysconfig.get_path("scripts"), PROGRAM)
    if not program.is_file():
        pytest.skip(f"{program} is not installed")
    (tmp_path / "story.yaml").write_text(STORY)

    def make(name):
        path = tmp_path / "dying"
        path.write_text(DIES.format(python=sys.executable, program=str(program), signal=name))
        path.chmod(0o755)
        return path

    return make


@pytest.mark.skipif(sys.platform != "linux", reason="the target runs on Linux")
def test_a_frontend_that_somebody_else_kills_is_not_judged(dying, tmp_path):
    words = ["run", tmp_path / "story.yaml", "--target", "vllm-rs", "--frontend", dying("SIGKILL")]
    words += ["--as-release", "0.33.0", "--out", tmp_path / "out", "--json", tmp_path / "json"]
    ran = CliRunner().invoke(cli, [str(word) for word in words])
    assert ran.exit_code == 3, ran.output
    (result,) = json.loads((tmp_path / "json").read_text())["results"]
    assert result["status"] == "error"
    assert "the frontend's process was killed (SIGKILL), and not by this run" in result["error"]
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("waves-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="the target runs on Linux")
def test_a_frontend_that_dies_at_a_step_is_named_before_what_follows(dying, tmp_path):
    words = ["run", tmp_path / "story.yaml", "--target", "vllm-rs", "--frontend", dying("SIGSEGV")]
    words += ["--as-release", "0.33.0", "--out", tmp_path / "out", "--json", tmp_path / "json"]
    ran = CliRunner().invoke(cli, [str(word) for word in words])
    assert ran.exit_code == 1, ran.output
    title = "the frontend ended by SIGSEGV at step 1 (wait for 1 × call-output of a)"
    told = [line for line in ran.stdout.splitlines() if line.startswith("violated[")]
    assert told == [f"violated[expectation]: {title}"]
    assert "registered request" in ran.stdout
    (result,) = json.loads((tmp_path / "json").read_text())["results"]
    (ended,) = [one for one in result["expectations"] if one["status"] == "violated"]
    assert (ended["step"], ended["expected"]) == (1, RUNS_ON)
    assert ended["seen"].startswith("it ended by SIGSEGV at step 1")
