"""Adapters that do not come to an end: nobody waits for them for ever, and no verdict is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import worlds
from harness.targets.adapter import conversation, frontend, process
from tests.support.adapters import ROOT, faulty, judged, no_process_left
from tests.support.stories import load

pytestmark = [pytest.mark.zmq, pytest.mark.slow]
SAFETY_S = 60.0
SHORT_S = 0.5
ENGINES = "engines: [{engine: all, rules: [{on: add, do: {hang: for-ever}}]}]\n"
OPEN = "open_at_end: [for-ever, a]\n"
"""A call that nobody ends, which the harness cancels when the run is over."""
HELD = "steps: [{call: {id: a}}, {wait: {event: add}}, {expect: {op: a, tokens: 0}}]\n"
VIOLATED = "steps: [{call: {id: a}}, {wait: {event: add}}, {expect: {op: a, tokens: 9}}]\n"
STORY = "title: a story\npromise: none\nrefs: [vllm#1]\n"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    with no_process_left(monkeypatch) as pids:
        yield pids


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real limits are for slow machines; these adapters never answer."""
    monkeypatch.setattr(conversation, "ANSWER_S", SHORT_S)
    for name in ("ANSWER_S", "STOP_S", "LEAVE_S"):
        monkeypatch.setattr(frontend, name, SHORT_S)
    monkeypatch.setattr(process, "END_S", SHORT_S)


def test_end_that_is_never_said_is_an_error_that_names_what_is_missing(
    tmp_path: Path, impatient: None, started: list[int]
) -> None:
    result = judged(load(ENGINES + OPEN + HELD), tmp_path, faulty("cancel", "never"))
    assert result.status == "error"
    assert "the adapter did not say 'ended' of 'a' within 0.5 s of 'cancel'" in str(result.error)
    assert "tests.support.faulty_adapter cancel never" in str(result.error)


def test_end_that_is_never_said_leaves_a_violation_what_it_is(
    tmp_path: Path, impatient: None, started: list[int]
) -> None:
    result = judged(load(ENGINES + OPEN + VIOLATED), tmp_path, faulty("cancel", "never"))
    assert [e.status for e in result.expectations] == ["violated"]
    assert result.status == "violated"
    assert "did not say 'ended' of 'a'" in str(result.error)
    assert result.failure_file is not None


def test_adapter_that_does_not_answer_stop_leaves_a_violation_what_it_is(
    tmp_path: Path, impatient: None, started: list[int]
) -> None:
    result = judged(load(ENGINES + OPEN + VIOLATED), tmp_path, faulty("stop", "never"))
    assert result.status == "violated"
    assert "did not answer 'stop' within 0.5 s" in str(result.error)


def test_run_that_breaks_off_judges_only_what_was_seen_by_then(
    tmp_path: Path, impatient: None, started: list[int]
) -> None:
    steps = VIOLATED.replace("]\n", ", {fence: true}]\n")
    result = judged(load(ENGINES + OPEN + steps), tmp_path, faulty("fence", "exit:3"))
    assert result.status == "violated"
    assert "ended unasked (exit code 3)" in str(result.error)
    reasons = {v.reason for v in result.verdicts if v.verdict == "not_judged"}
    assert "the run broke off" in reasons
    assert {v.verdict for v in result.verdicts} == {"not_judged"}


def test_client_that_hangs_when_its_caller_leaves_is_violated_and_its_process_not_used_again(
    tmp_path: Path, impatient: None, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worlds.ZmqWorld, "step_limit_s", 0.3)
    steps = (
        "steps: [{call: {id: a}}, {wait: {event: add}}, {cancel: a}, {expect: {op: a, tokens: 0}}]"
    )
    stories = [load(f"{ENGINES}open_at_end: [for-ever]\n{steps}")] * 2
    adapter = faulty("cancel", "never")
    results = [judged(story, tmp_path, adapter) for story in stories]
    assert [result.status for result in results] == ["violated", "violated"]
    for result in results:
        [step] = [e for e in result.expectations if e.status == "violated"]
        assert "comes to its end" in step.expected
    assert len(started) == 2


@contextmanager
def running(folder: Path, adapter: str, *stories: str, more: tuple[str, ...] = ()):
    """``wavecheck run`` on one adapter, with the lines that it and the adapter exchange."""
    files = [folder / f"{number}.yaml" for number in range(len(stories))]
    for file, story in zip(files, stories, strict=True):
        file.write_text(STORY + story)
    transcript = folder / "transcript"
    os.mkfifo(transcript)
    words = [sys.executable, "-m", "harness", "run", "--target", "adapter", "--adapter", adapter]
    with subprocess.Popen(
        [*words, *more, *map(str, files)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "WAVECHECK_ADAPTER_TRANSCRIPT": str(transcript),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as harness:
        try:
            with open(transcript, encoding="utf-8") as lines:
                yield harness, lines
                lines.read()  # to the end: every process that had it open is gone
        finally:
            if harness.poll() is None:
                os.killpg(harness.pid, signal.SIGKILL)


WAITS = (
    f"{ENGINES}open_at_end: [for-ever]\n"
    + "steps: [{call: {id: a}}, {wait: {event: died}}, {expect: {op: a, tokens: 0}}]\n"
)


def test_one_signal_ends_a_run_whose_adapter_never_says_ended(tmp_path: Path) -> None:
    with running(tmp_path, faulty("cancel", "never"), WAITS, WAITS) as (harness, lines):
        next(line for line in lines if '"do":"call"' in line)
        harness.send_signal(signal.SIGTERM)
        out, err = harness.communicate(timeout=SAFETY_S)
        assert harness.returncode == 130, out + err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("do", "how", "number"),
    [
        ("cancel", "never", signal.SIGINT),
        ("stop", "never", signal.SIGTERM),
        ("cancel", "shut", signal.SIGHUP),
        ("call", "shut", signal.SIGINT),
    ],
)
def test_two_signals_end_a_run_at_once_whatever_its_adapter_leaves_undone(
    do: str, how: str, number: signal.Signals, tmp_path: Path
) -> None:
    with running(tmp_path, faulty(do, how), WAITS) as (harness, lines):
        next(line for line in lines if '"do":"call"' in line)
        harness.send_signal(number)
        next(line for line in lines if '"do":"cancel"' in line)
        harness.send_signal(number)
        # Less than the patience with which one signal is answered.
        out, err = harness.communicate(timeout=worlds.PATIENCE_S - 1)
        assert harness.returncode == 130, out + err
        assert "Traceback" not in err


def test_time_limit_ends_a_run_whose_adapter_never_says_ended(tmp_path: Path) -> None:
    with running(tmp_path, faulty("cancel", "never"), WAITS, more=("--timeout", "1")) as (
        harness,
        _lines,
    ):
        out, err = harness.communicate(timeout=SAFETY_S)
        assert harness.returncode == 3, out + err
        assert "stopped after the time limit of 1 s" in out
