"""A short version of ``python -m tests.chaos``, and its own parts: what they must not overlook."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.targets.vllm_rs.fetch import available
from tests.chaos.__main__ import linked, summary
from tests.chaos.ledger import Ledger
from tests.chaos.processes import ADAPTER, CLI, ENGINE, FRONTEND, WORKER, Marked
from tests.chaos.stages import AdapterStage, MatrixStage
from tests.chaos.trial import Kill, Trials

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs proc(5)")

SMALL = ("lifecycle/a-stalled-engine-goes-on", "utility/failing-beside-hanging")
KILL = Kill(1, "matrix", "cli", 3, 0.1, -9, 0.2, 0)
LIMIT_S = 20.0


# --- whole trials ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_disturbed_matrix_leaves_nobody_and_ends_like_an_undisturbed_one(
    tmp_path: Path, number: signal.Signals
) -> None:
    trials = Trials(MatrixStage("reference", SMALL), tmp_path, number=number)
    kills = [trials.trial(trial, seed=2) for trial in range(3)]
    assert [kill.findings for kill in kills] == [[], [], []]
    codes = {kill.code for kill in kills if kill.kind == CLI}
    assert codes <= ({-9} if number == signal.SIGKILL else {130, 0})


@pytest.mark.slow
@pytest.mark.vllm_rs
def test_disturbed_matrix_of_real_frontends_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    release = "0.33.0"
    if available(release) is None:
        pytest.skip(f"no binary of the frontend {release}")
    trials = Trials(MatrixStage(release, SMALL), tmp_path, linked([release], tmp_path / "f"))
    assert [trials.trial(trial, seed=1).findings for trial in range(3)] == [[], [], []]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [WORKER, ENGINE, FRONTEND])
def test_process_that_is_killed_puts_cells_in_error_and_never_in_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Whatever the moment: the kill is chosen by hand here, so that each kind has its turn."""
    monkeypatch.setattr("tests.chaos.trial.KINDS", (kind,))
    trials = Trials(MatrixStage("reference", SMALL), tmp_path)
    kill = trials.trial(1, seed=3)
    assert (kill.kind, kill.findings) == (kind, [])


# --- its parts ------------------------------------------------------------------------------


def test_processes_of_a_run_are_told_by_their_mark_and_orphans_by_their_parents() -> None:
    marked = Marked()
    script = (
        "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True);"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script + "sys.stdin.read()"],
        env={**os.environ, **marked.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        marked.root = parent.pid
        child = int(parent.stdout.readline())
        try:
            kinds: dict[int, str] = {}
            while child not in kinds:  # on its way from one program to the next it has no mark
                kinds = {one.pid: one.kind for one in marked.living()}
            assert kinds.keys() == {parent.pid, child}
            assert kinds[parent.pid] == CLI
            assert marked.orphans() == []
            parent.kill()
            parent.wait()
            assert [one.pid for one in marked.orphans()] == [child]
        finally:
            os.kill(child, signal.SIGKILL)
    assert Marked().living() == []


def test_table_that_differs_or_lacks_a_cell_is_a_finding(tmp_path: Path) -> None:
    trials = Trials(MatrixStage("reference", SMALL), tmp_path)
    cell, other, error = ({"status": word} for word in ("held", "unstable", "error"))
    usual = {("a", "f"): cell, ("b", "f"): cell}
    trials._usual = type("Usual", (), {"table": usual, "code": 0})()  # type: ignore[assignment]
    assert trials._differences(usual, errors_allowed=False) == []
    assert len(trials._differences({("a", "f"): cell}, errors_allowed=False)) == 1
    assert trials._differences({("a", "f"): error}, errors_allowed=True) == []
    assert len(trials._differences({**usual, ("a", "f"): error}, errors_allowed=False)) == 1
    assert len(trials._differences({**usual, ("a", "f"): other}, errors_allowed=True)) == 1


def test_journal_with_a_damaged_line_is_a_finding_unless_it_is_the_last(tmp_path: Path) -> None:
    stage = MatrixStage("reference", SMALL)
    journal = tmp_path / "cells.jsonl"
    journal.write_text('{"key": 1}\n{"ke')
    assert stage.broken(tmp_path) == []
    journal.write_text('{"ke\n{"key": 1}\n')
    assert len(stage.broken(tmp_path)) == 1
    (tmp_path / "matrix.json").write_text("{")
    assert "matrix.json" in stage.broken(tmp_path)


def test_ledger_is_taken_up_but_for_torn_lines_findings_and_other_runs(tmp_path: Path) -> None:
    path = tmp_path / "kills.jsonl"
    ledger = Ledger(path, "seed 1", resume=False)
    ledger.add(KILL)
    ledger.add(dataclasses.replace(KILL, number=2, findings=["an orphan"]))
    with path.open("a") as file:
        file.write('{"number": 3, "st')
    again = Ledger(path, "seed 1", resume=True)
    assert again.left(range(1, 5)) == [2, 3, 4]
    assert again.kills[1] == KILL
    with pytest.raises(ValueError, match="another run"):
        Ledger(path, "seed 2", resume=True)
    assert Ledger(path, "seed 2", resume=False).kills == {}


def test_summary_counts_kinds_and_names_trials_with_findings() -> None:
    bad = dataclasses.replace(KILL, number=7, kind="worker", errors=2, findings=["x"])
    lines = summary([KILL, bad])
    assert lines[-1] == "2 kills, 1 with a finding: 7"
    assert [line.split()[0] for line in lines[2:4]] == ["cli", "worker"]


@pytest.mark.slow
def test_disturbed_run_behind_an_adapter_ends_like_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.chaos.trial.KINDS", (ADAPTER,))
    trials = Trials(AdapterStage(), tmp_path)
    kill = trials.trial(1, seed=5)
    assert (kill.kind, kill.findings) == (ADAPTER, [])


def test_undisturbed_run_that_plays_nothing_is_refused(tmp_path: Path) -> None:
    trials = Trials(AdapterStage(("no/such-scenario",)), tmp_path)
    with pytest.raises(AssertionError, match="undisturbed"):
        assert trials.usual
