"""Adapters do not outlive us, and take no run along when they end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runner import RunOptions
from harness.targets.adapter import process
from harness.targets.base import TargetError
from harness.targets.registry import open_target
from tests.support.adapters import ROOT, builtin, close_all, faulty, judged, no_process_left

pytestmark = [pytest.mark.zmq, pytest.mark.slow]
SAFETY_S = 60.0

OPENS_AND_WAITS = """
import threading
from harness.targets.adapter import idle
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
target = open_target(TargetRequest("adapter", adapter=ADAPTER))
print(*(process.pid for kept in idle._idle.values() for process, _ in kept), flush=True)
threading.Event().wait()
"""
HELD_STORY = """
title: a story that waits
promise: none
refs: [vllm#1]
engines: [{engine: all, rules: [{on: add, do: {hang: for-ever}}]}]
steps: [{call: {id: a}}, {wait: {event: add}}, {wait: {event: died}}, {expect: {op: a, tokens: 0}}]
open_at_end: [for-ever]
"""


def opened(path: str, _flags: int) -> int:
    """Open a pipe for reading, and wait until somebody has written to it."""
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert select.select([pipe], [], [], SAFETY_S)[0], "nobody writes"
    os.set_blocking(pipe, True)
    return pipe


def started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the end of its input must do")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_adapter_ends_with_its_harness_whatever_ends_that(
    number: signal.Signals, tmp_path: Path
) -> None:
    # One that ignores the end of its input, as a thread in it goes on.
    code = f"ADAPTER = {faulty('hello', 'linger')!r}\n{OPENS_AND_WAITS}"
    with started([sys.executable, "-c", code], tmp_path) as harness:
        assert harness.stdout is not None
        adapter = os.pidfd_open(int(harness.stdout.readline()))
        try:
            harness.send_signal(number)
            assert select.select([adapter], [], [], SAFETY_S)[0] == [adapter]
        finally:
            os.close(adapter)
            os.killpg(harness.pid, signal.SIGKILL)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interruption_in_a_run_ends_with_130_and_ends_the_adapter(
    jobs: str, tmp_path: Path
) -> None:
    stories = [tmp_path / f"{n}.yaml" for n in range(2)]
    for story in stories:
        story.write_text(HELD_STORY)
    transcript = tmp_path / "transcript"
    os.mkfifo(transcript)
    words = [sys.executable, "-m", "harness", "run", "--target", "adapter", "--jobs", jobs]
    environment = f"WAVECHECK_ADAPTER_TRANSCRIPT={transcript}"
    with started(["/usr/bin/env", environment, *words, *map(str, stories)], tmp_path) as harness:
        with open(transcript, opener=opened) as lines:
            # Behind the call the story waits for what never happens.
            next(line for line in lines if '"do":"call"' in line)
            harness.send_signal(signal.SIGINT)
            lines.read()  # to the end: every process that had it open is gone
        out, err = harness.communicate(timeout=SAFETY_S)
    assert harness.returncode == 130, out + err
    assert "Traceback" not in err


def test_adapter_that_resists_its_end_is_killed_and_named(
    ours: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "END_S", 0.2)
    adapter = faulty("hello", "linger")
    target = open_target(RunOptions(target="adapter", adapter=adapter).request)
    assert target.kind == "adapter"
    close_all()
    assert len(ours) == 1


def test_wrong_use_of_threads_is_refused() -> None:
    import threading

    said: list[str] = []

    def work() -> None:
        try:
            process.AdapterProcess(("/bin/true",), {}).start()
        except TargetError as error:
            said.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == ["an adapter must be started from the main thread: it ends with its starter"]


def test_run_is_written_down_where_the_environment_says(
    ours: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = tmp_path / "lines"
    monkeypatch.setenv("WAVECHECK_ADAPTER_TRANSCRIPT", str(transcript))
    [loaded] = builtin("requests/stream-to-the-end")
    assert judged(loaded, tmp_path).status == "held"
    lines = transcript.read_text().splitlines()
    assert lines[0].startswith('> {"do":"hello"')
    assert lines[1].startswith('< {"say":"hello"')
    assert {line[:2] for line in lines} == {"> ", "< "}


def test_transcript_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVECHECK_ADAPTER_TRANSCRIPT", str(tmp_path / "no" / "file"))
    with pytest.raises(TargetError, match=r"cannot write .*: No such file or directory"):
        open_target(RunOptions(target="adapter").request)
