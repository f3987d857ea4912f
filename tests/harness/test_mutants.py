"""Each mutant changes one part, has its own id, and names an invariant that exists."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.components import Components
from client.protocol.profiles import RELEASES, profile_for
from harness.cli.main import cli
from harness.failure import read_failure
from harness.invariants import discover as discover_invariants
from harness.mutants import UnknownMutantError, discover, find_mutant

MUTANTS = discover()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_replaces_exactly_one_component_by_a_subclass(mutant):
    base = Components()
    mutated = mutant.components(base)
    changed = [
        field.name
        for field in fields(Components)
        if getattr(base, field.name) is not getattr(mutated, field.name)
    ]
    assert len(changed) == 1
    assert issubclass(getattr(mutated, changed[0]), getattr(base, changed[0]))
    assert mutant.title
    assert mutant.bug
    assert mutant.source


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_names_an_invariant_that_exists(mutant):
    assert mutant.killed_by in {invariant.id for invariant in discover_invariants()}


def test_first_ten_mutants_are_there_sorted_by_id():
    ids = [mutant.id for mutant in MUTANTS]
    assert ids == sorted(ids)
    assert {
        "fail-fast-fan-out", "utility-waiter-leaked-on-cancel",
        "request-leaked-on-cancel-before-send", "stream-dropped-without-abort",
        "coordinator-rewinds", "stale-first-request-leaves-out-target",
        "first-request-leaves-running-false", "first-engine-only-is-sleeping",
        "rank-truncated", "abort-to-every-engine",
    } <= set(ids)  # fmt: skip


def test_unknown_mutant_is_refused_with_the_known_ones():
    assert find_mutant("rank-truncated").id == "rank-truncated"
    with pytest.raises(UnknownMutantError, match="unknown mutant 'nope'; known: abort-to-every"):
        find_mutant("nope")


def run_all(tmp_path, *words):
    """``wavecheck run`` with all scenarios on sim: exit code and report."""
    report = tmp_path / "report.json"
    flags = ["--json", str(report), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["run", *words, *flags])
    return done.exit_code, json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_is_killed_by_its_own_invariant_over_all_scenarios(tmp_path, mutant):
    code, report = run_all(tmp_path, "--mutant", mutant.id)
    assert code == report["summary"]["exit"] == 1
    assert report["summary"]["error"] == 0
    assert {result["mutant"] for result in report["results"]} == {mutant.id}
    killed = [
        result
        for result in report["results"]
        for verdict in result["verdicts"]
        if (verdict["invariant"], verdict["level"], verdict["verdict"])
        == (mutant.killed_by, "must", "violated")
    ]
    assert killed
    for result in killed:
        assert result["status"] == "violated"
        failure = read_failure(Path(result["failure_file"]))
        assert (failure.violated, failure.mutant) == (mutant.killed_by, mutant.id)


@pytest.mark.slow
def test_without_a_mutant_every_scenario_holds(tmp_path):
    code, report = run_all(tmp_path)
    assert code == 0
    assert [r["scenario"] for r in report["results"] if r["status"] in ("violated", "error")] == []
    assert report["summary"]["held"] >= 40
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_what_a_mutant_needs_is_a_flag_that_some_releases_have(mutant):
    if mutant.needs:
        flags = [getattr(profile_for(release), mutant.needs) for release in RELEASES]
        assert set(flags) == {True, False}
    shows = [mutant.unseen_because(profile_for(r), black_box=False) == "" for r in RELEASES]
    assert any(shows)
    assert mutant.needs or all(shows)


def test_run_says_that_a_mutant_cannot_be_seen_in_the_profile():
    words = ["run", "waves/stale-first-request", "--mutant", "coordinator-rewinds"]
    told = CliRunner().invoke(cli, [*words, "--profile", "0.33.0"], prog_name="wavecheck").output
    said = "the mutant coordinator-rewinds cannot be seen here: 0.33.0 makes no use of the part"
    assert said in " ".join(told.split())
    told = CliRunner().invoke(cli, [*words, "--profile", "0.32.0"], prog_name="wavecheck").output
    assert "cannot be seen" not in told
