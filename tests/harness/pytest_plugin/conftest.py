"""Runs of pytest inside a test, with scenarios whose results are known."""

from __future__ import annotations

import os

import pytest

from harness.pytest_plugin import playing
from harness.results import ExpectationResult, ScenarioResult, VerdictResult

TEXT = """\
title: {title}
promise: what {title} promises
refs: [vllm#1]
steps:
  - fence: true
  - expect: {{count: {{event: add, equals: 0}}}}
"""


@pytest.fixture(autouse=True)
def _no_terminal_settings(monkeypatch):
    """What the caller's terminal or CI asks for must not decide what a test sees."""
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTEST_ADDOPTS", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def write(pytester):
    """Write scenarios into ``own/``; what the fake runner makes of one is its last word."""

    def make(*names, text=TEXT):
        folder = pytester.path / "own"
        for name in names:
            path = folder / f"{name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(title=f"title of {name}"), encoding="utf-8")
        return folder

    return make


@pytest.fixture
def run(pytester):
    """Run pytest here, in this process: ``run(words…)``."""

    def call(*words):
        return pytester.runpytest_inprocess(
            "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *map(str, words)
        )

    return call


def fake_result(loaded, options):
    """Stands for ``harness.runner``: the status is the last word of the id."""
    word = loaded.id.rpartition("-")[2]
    if word == "raises":
        msg = "the runner broke"
        raise RuntimeError(msg)
    violated = word in {"violated", "known", "unstable"}
    status = {"known": "violated", "blind": "held", "nothing": "not_judged"}.get(word, word)
    if word == "nostart":
        status = "error"
    verdict = VerdictResult(
        "wave.never-rewinds",
        "should" if word == "should" else "must",
        "violated" if violated or word == "should" else "held",
        exercised=1,
        message="went back",
        expected="wave >= 2",
        seen="wave == 1",
        witness=(1,),
    )
    return ScenarioResult(
        scenario=loaded.id,
        title=loaded.scenario.title,
        refs=("vllm#1",),
        profile=options.profile or "0.33.0",
        mutant=options.mutant,
        status="held" if word == "should" else status,
        known=("wave.never-rewinds",) if word in {"known", "blind"} else (),
        error="no binary" if status == "error" else None,
        reason={"not_judged": "target lacks op.rank", "unstable": "repeats differ"}.get(status),
        expectations=(ExpectationResult(0, "held", "x", "x"),),
        verdicts=(verdict,),
        schedules=options.schedules,
        digest="00",
        failure_file="out/f.json" if violated else None,
        start_failure="it ended" if word == "nostart" else None,
        witness_lines=("#1 t=0.000s coordinator: first-request engine=1",) if violated else (),
    )


@pytest.fixture
def runner(monkeypatch):
    """Play nothing: results as above."""
    calls = []

    def play(loaded, options):
        calls.append((loaded.id, options))
        return fake_result(loaded, options)

    monkeypatch.setattr(playing, "run_scenario", play)
    return calls


@pytest.fixture
def away(monkeypatch, pytester):
    """Words for a pytest in a process of its own, which must find this tree."""
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    )
    return pytester
