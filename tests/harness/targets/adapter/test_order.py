"""Events of the adapter and of our engines stand in the trace in an order that could have been."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.events import FirstRequestQueued, RequestRegistered, RequestReleased
from client.protocol.profiles import profile_for
from harness.play import Played, play
from harness.runner import RunOptions, make_spec
from harness.targets.adapter.lines import Line, Waiting
from harness.targets.adapter.process import AdapterProcess
from harness.targets.base import TargetError
from harness.targets.registry import open_target
from harness.trace.events import CallEnded, CallOutput, CallStarted
from mock_engines.events import AddSeen, OutputSent
from tests.support.adapters import no_process_left
from tests.support.stories import load

pytestmark = pytest.mark.zmq

WRITES_AND_SAYS_SO = """
import os, sys
line = b'{"say":"waiting","gate":"g%d","change":1}\\n'
os.write(1, line % 1 + line % 2 + b'{"say":"wai')
os.close(os.open(sys.argv[1], os.O_WRONLY))
sys.stdin.read()
"""
CROWD = """
steps:
  - load: {clients: 8, requests: 10}
  - fence: true
  - expect: {in_flight: 0}
"""


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


def test_what_was_written_until_now_is_taken_at_once_and_without_the_loop(tmp_path: Path) -> None:
    mark = tmp_path / "written"
    os.mkfifo(mark)
    taken: list[Line] = []

    async def main() -> None:
        command = (sys.executable, "-c", WRITES_AND_SAYS_SO, str(mark))
        process = AdapterProcess(command, os.environ)
        process.start()
        try:
            process.attach(lambda line: bool(taken.append(line)), _raise)
            until_written(mark)
            assert taken == []
            process.catch_up()
            process.catch_up()
        finally:
            process.close()

    asyncio.run(main())
    assert taken == [Waiting(say="waiting", gate=f"g{n}", change=1) for n in (1, 2)]


def until_written(mark: Path) -> None:
    """Block the loop until the lines are in the pipe."""
    mark.read_text()


def _raise(error: TargetError) -> None:
    raise error


def test_line_behind_an_answer_waits_until_who_was_answered_ran(tmp_path: Path) -> None:
    mark = tmp_path / "written"
    os.mkfifo(mark)
    seen: list[str] = []

    async def main() -> None:
        command = (sys.executable, "-c", WRITES_AND_SAYS_SO, str(mark))
        process = AdapterProcess(command, os.environ)
        process.start()
        loop = asyncio.get_running_loop()
        both: asyncio.Future[None] = loop.create_future()

        def take(line: Line) -> bool:
            assert isinstance(line, Waiting)
            seen.append(line.gate)
            if line.gate == "g1":
                loop.call_soon(seen.append, "answered")
            else:
                both.set_result(None)
            return line.gate == "g1"

        try:
            process.attach(take, _raise)
            until_written(mark)
            await both
        finally:
            process.close()

    asyncio.run(main())
    assert seen == ["g1", "answered", "g2"]


def played(story: str) -> Played:
    target = open_target(RunOptions(target="adapter").request)
    spec = make_spec(load(story).scenario, target, profile_for("0.32.0"), None)
    return play(spec, target.world(None))


def places(run: Played, cls: type, name: str) -> dict[str, int]:
    """First place in the trace of each request or op, for one class of events."""
    found: dict[str, int] = {}
    for record in run.records:
        if type(record.event) is cls:
            found.setdefault(getattr(record.event, name), record.seq)
    return found


def test_causes_stand_before_their_effects_both_ways() -> None:
    run = played(f"topology: {{coordinator: in-process}}\n{CROWD}")
    begun = places(run, CallStarted, "op")
    registered = places(run, RequestRegistered, "request_id")
    added = places(run, AddSeen, "request_id")
    sent = places(run, OutputSent, "request_id")
    released = places(run, RequestReleased, "request_id")
    received = places(run, CallOutput, "op")
    ended = places(run, CallEnded, "op")
    assert len(begun) == 80
    for op in begun:
        order = [stage[op] for stage in (begun, registered, added, sent, received, ended)]
        assert order == sorted(order)
        assert sent[op] < released[op]
    assert any(type(record.event) is FirstRequestQueued for record in run.records)
