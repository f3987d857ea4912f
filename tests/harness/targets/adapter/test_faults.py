"""Adapters that break: one clear error each, nothing left behind, and the next run is sound."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.results import ScenarioResult
from harness.runner import RunOptions, cached_target
from harness.targets.adapter import conversation, frontend, greeting, idle, process
from harness.targets.base import TargetError
from harness.targets.registry import open_target
from tests.support.adapters import builtin, faulty, judged, no_process_left, python
from tests.support.stories import load

pytestmark = [pytest.mark.zmq, pytest.mark.slow]
PLAIN = "requests/stream-to-the-end"
STORY = load("steps: [{call: {id: a}}, {finish: a}, {fence: true}, {expect: {op: a, tokens: 3}}]")
SHORT_S = 0.5


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real limits are for slow machines; these adapters never answer."""
    for module in (conversation, frontend):
        monkeypatch.setattr(module, "ANSWER_S", SHORT_S)
    monkeypatch.setattr(conversation, "SILENCE_S", SHORT_S)
    monkeypatch.setattr(frontend, "STOP_S", SHORT_S)
    monkeypatch.setattr(process, "END_S", SHORT_S)


def run(do: str, fault: str, out: Path, name: str = PLAIN) -> ScenarioResult:
    [loaded] = builtin(name)
    result = judged(loaded, out, faulty(do, fault))
    assert result.status == "error"
    assert result.error is not None
    assert "tests.support.faulty_adapter" in result.error
    return result


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("exit:3", r"the adapter ended unasked \(exit code 3\)"),
        ("kill", r"ended unasked \(killed by SIGKILL\)"),
        ("close", "closed its standard output"),
        ("raise:oops", r"ended unasked \(exit code 1\)"),
        ("say:Hello!", "wrote a line that is none of the protocol's: it is not JSON"),
        ('say:{"say":"hello","version":9,"name":"x","capabilities":[]}', r"version 9 .* none of those that were offered \(1\)"),
        ('say:{"say":"hello","version":1,"name":"","capabilities":[]}', "key 'name': String should have at least 1 character"),
        ('say:{"say":"reply","id":1}', "wrote a Reply before its run began; its first line is 'hello'"),
        ('say:{"say":"broken","message":"no engine"}', "says that it is broken: no engine"),
        ("long", r"wrote a line of more than \d+ bytes"),
        ("half:{\"say\":", r"ended unasked \(exit code 0\)"),
    ],
)  # fmt: skip
def test_fault_at_the_hello_is_named_when_the_target_is_opened(fault: str, message: str) -> None:
    with pytest.raises(TargetError, match=message) as failed:
        open_target(RunOptions(target="adapter", adapter=faulty("hello", fault)).request)
    assert "  command: /usr/bin/env PYTHONPATH=" in str(failed.value)


def test_adapter_that_never_says_hello_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "HELLO_S", SHORT_S)
    with pytest.raises(TargetError, match=r"did not say hello within 0.5 s of its start"):
        open_target(RunOptions(target="adapter", adapter=faulty("hello", "ignore")).request)


def test_last_words_on_standard_error_are_shown() -> None:
    with pytest.raises(TargetError) as failed:
        open_target(RunOptions(target="adapter", adapter=faulty("hello", "exit:3")).request)
    assert str(failed.value).endswith("standard error:\n    about to go")


@pytest.mark.parametrize(
    ("do", "fault", "message"),
    [
        ("start", "exit:3", r"ended unasked \(exit code 3\)"),
        ("connect", "kill", r"ended unasked \(killed by SIGKILL\)"),
        ("call", "close", "closed its standard output"),
        ("fence", "exit:3", r"ended unasked \(exit code 3\)"),
        ("start", "say:what?", "none of the protocol's.*\n.*\n  line:    what\\?"),
        ("call", "say:what?", "none of the protocol's.*\n.*\n  line:    what\\?"),
        ("fence", "flood", "wrote more than 50000 lines in one run"),
    ],
)
def test_fault_in_a_run_is_an_error_whenever_it_comes(
    do: str, fault: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LINES_MAX", 50_000)
    result = run(do, fault, tmp_path)
    assert re.search(message, str(result.error))


@pytest.mark.parametrize(
    ("do", "fault", "message"),
    [
        ("call", 'say:{"say":"output","op":"nobody","tokens":[1]}', "about an operation that was never begun, 'nobody'"),
        ("call", 'say:{"say":"ended","op":"nobody","outcome":"finished"}', "about an operation that was never begun, 'nobody'"),
        ("fence", 'say:{"say":"ended","op":"a","outcome":"finished"}', "a second end of 'a'"),
        ("fence", 'say:{"say":"output","op":"a","tokens":[1]}', "an output of 'a', which had ended"),
        ("call", 'instead:{"say":"ended","op":"a","outcome":"cancelled"}', "'a' was cancelled, by nobody"),
        ("call", 'say:{"say":"reply","id":999999}', "an answer to command 999999, which nobody asked"),
        ("call", 'say:{"say":"hello","version":1,"name":"x","capabilities":[]}', "a second 'hello'"),
        ("snapshot", 'say:{"say":"reply","id":ID,"result":{"in_flight":[1]}}', r"answered 'snapshot' with an invalid result: key 'in_flight.0'"),
        ("health", 'say:{"say":"reply","id":ID,"error":{"name":"No"}}', "refuses 'health': No"),
        ("start", 'say:{"say":"reply","id":ID,"error":{"name":"Busy","message":"later"}}', "could not begin a run: Busy: later"),
        ("start", 'say:{"say":"reply","id":ID,"result":{"addresses":{"input":"x"}}}', "reports where engines join, but an engine needs"),
        ("fence", 'say:{"say":"reply","id":ID,"error":{"name":"No"}}', "the fence failed: No"),
        ("stop", 'say:{"say":"reply","id":ID,"error":{"name":"No"}}', "could not end its run: No"),
        ("health", 'say:{"say":"reply","id":ID,"result":{},"error":{"name":"No"}}', "a reply with a result and an error"),
        ("stop", "exit:0", r"ended unasked \(exit code 0\)"),
    ],
)  # fmt: skip
def test_line_out_of_turn_is_an_error_that_names_it(
    do: str, fault: str, message: str, tmp_path: Path
) -> None:
    result = judged(STORY, tmp_path, faulty(do, fault))
    assert result.status == "error"
    assert re.search(message, str(result.error)), result.error


@pytest.mark.parametrize("do", ["start", "connect", "call", "snapshot", "stop"])
def test_adapter_that_hangs_is_given_up_and_its_last_words_are_shown(
    do: str, tmp_path: Path, impatient: None
) -> None:
    result = run(do, "hang", tmp_path)
    assert re.search(r"did not answer '(start|ping|snapshot|stop)' within 0.5 s", str(result.error))
    assert str(result.error).endswith("not listening any more")


def test_operation_that_never_ends_is_no_fault_of_the_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever still answers pings may well stand for a client that lost a request."""
    monkeypatch.setattr("harness.worlds.ZmqWorld.step_limit_s", 1.0)
    monkeypatch.setattr(conversation, "SILENCE_S", 0.1)
    [loaded] = builtin(PLAIN)
    result = judged(loaded, tmp_path, faulty("call", "forget"))
    assert result.status == "violated"
    assert any(
        e.status == "violated" and "comes to its end" in e.expected for e in result.expectations
    )


def test_fault_ends_the_step_in_play_whatever_that_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that waits for the wire would notice nothing, and be taken for a hang."""
    monkeypatch.setattr("harness.worlds.ZmqWorld.step_limit_s", 5.0)
    story = load("steps: [{call: {id: a}}, {wait: {event: died}}, {expect: {op: a, tokens: 0}}]")
    result = judged(story, tmp_path, faulty("call", "exit:3"))
    # Where it is gone before that step begins, there is no step to name.
    said = r"(step 1 \(wait for .*\) broke: )?the adapter ended unasked \(exit code 3\)"
    assert (result.status, bool(re.match(said, str(result.error)))) == ("error", True)


def test_run_after_a_crash_is_sound(tmp_path: Path, started: list[int]) -> None:
    adapter = faulty("fence", "exit:3")
    [loaded] = builtin(PLAIN)
    first, second = judged(loaded, tmp_path, adapter), judged(loaded, tmp_path, adapter)
    assert (first.status, second.status) == ("error", "error")
    assert len(started) == 2  # the second run had a process of its own, which broke by itself


def test_chatter_on_both_outputs_of_a_python_adapter_harms_nobody(tmp_path: Path) -> None:
    [loaded] = builtin(PLAIN)
    for fault in ("chatter", "print:hello from deep inside"):
        assert judged(loaded, tmp_path, faulty("call", fault)).status == "held"


def test_words_behind_the_answer_to_stop_are_an_error_of_that_run(tmp_path: Path) -> None:
    result = run("stop", "late", tmp_path)
    assert "line:    late" in str(result.error)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGUSR1, "wrote between two runs(.|\n)*line:    out of turn"),
        (signal.SIGKILL, "ended between two runs"),
    ],
)
def test_fault_between_two_runs_is_an_error_of_the_next_and_only_of_that(
    number: signal.Signals, message: str, tmp_path: Path, started: list[int]
) -> None:
    [loaded] = builtin(PLAIN)
    adapter = faulty("stop", "signal")
    assert judged(loaded, tmp_path, adapter).status == "held"
    [[(waiting, _greeting)]] = idle._idle.values()
    os.kill(started[0], number)
    select.select([waiting._stdout], [], [])
    second, third = judged(loaded, tmp_path, adapter), judged(loaded, tmp_path, adapter)
    assert re.search(message, str(second.error)), second.error
    assert (second.status, third.status) == ("error", "held")
    assert len(started) == 2


def test_hello_that_changes_is_an_error(tmp_path: Path) -> None:
    """Capabilities are asked for once; they must still be true when a run begins."""
    [loaded] = builtin(PLAIN)
    code = (
        "import os, sys\n"
        "from harness.adapters import python_client\n"
        f"mark = {str(tmp_path / 'mark')!r}\n"
        "version = 'new' if os.path.exists(mark) else 'old'\n"
        "python_client.tool_version = lambda: version\n"
        "open(mark, 'a').close()\n"
        "sys.exit(python_client.main())\n"
    )
    adapter = python("-c", code)
    cached_target(RunOptions(target="adapter", adapter=adapter).request)
    idle.close_idle()
    result = judged(loaded, tmp_path, adapter)
    assert "says another hello than before" in str(result.error)
