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
from mock_engines.parts import EngineParts

MUTANTS = discover()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_replaces_one_component_by_a_subclass_or_a_rank_with_its_scheduler(mutant):
    changed = {
        field.name: (getattr(base, field.name), getattr(mutated, field.name))
        for base, mutated in (
            (Components(), mutant.components(Components())),
            (EngineParts(), mutant.engine_parts(EngineParts())),
        )
        for field in fields(base)
        if getattr(base, field.name) is not getattr(mutated, field.name)
    }
    # A rank asks its scheduler whether it steps: a fault in that answer is one fault in two classes.
    assert len(changed) == 1 or set(changed) == {"rank", "scheduler"}
    for right, wrong in changed.values():
        assert issubclass(wrong, right)
    assert mutant.title
    assert mutant.bug
    assert mutant.source


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_mutant_names_an_invariant_that_exists(mutant):
    assert mutant.killed_by in {invariant.id for invariant in discover_invariants()}


def test_ids_are_given_once_and_sorted():
    ids = [mutant.id for mutant in MUTANTS]
    assert ids == sorted(ids)
    assert {
        "fail-fast-fan-out", "utility-waiter-leaked-on-cancel",
        "request-leaked-on-cancel-before-send", "stream-dropped-without-abort",
        "coordinator-rewinds", "stale-first-request-leaves-out-target",
        "first-request-leaves-running-false", "first-engine-only-is-sleeping",
        "rank-truncated", "abort-to-every-engine",
    } <= set(ids)  # fmt: skip


def test_unknown_mutant_is_refused_with_those_that_are_spelt_alike():
    assert find_mutant("rank-truncated").id == "rank-truncated"
    with pytest.raises(UnknownMutantError, match="did you mean rank-truncated"):
        find_mutant("rank-trunkated")
    with pytest.raises(UnknownMutantError, match=r"'nope' \(wavecheck list mutants"):
        find_mutant("nope")


def run_all(tmp_path, *words):
    """``wavecheck run`` on sim: exit code and report."""
    report = tmp_path / "report.json"
    flags = ["--json", str(report), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, ["run", *words, *flags])
    return done.exit_code, json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("mutant", "scenario"),
    [
        ("coordinator-rewinds", "waves/stale-first-request"),
        ("engine-starts-in-silence", "waves/wave-lasts-as-long-as-its-work"),
        ("external-coordinator-rewinds", "waves/external-stale-first-request"),
    ],
)
def test_run_with_a_mutant_writes_a_failure_of_its_own_invariant(tmp_path, mutant, scenario):
    code, report = run_all(tmp_path, scenario, "--mutant", mutant)
    assert code == report["summary"]["exit"] == 1
    (result,) = report["results"]
    assert (result["status"], result["mutant"]) == ("violated", mutant)
    failure = read_failure(Path(result["failure_file"]))
    assert (failure.violated, failure.mutant) == (find_mutant(mutant).killed_by, mutant)


@pytest.mark.slow
def test_without_a_mutant_every_scenario_holds_or_is_known_by_the_rules_of_its_release(tmp_path):
    code, report = run_all(tmp_path)
    assert code == 0
    bad = [r for r in report["results"] if r["status"] in ("violated", "error")]
    assert [r["scenario"] for r in bad if not r["known"] or r["status"] == "error"] == []
    assert {r["scenario"].partition("/")[0] for r in bad} <= {"lockstep", "skew"}
    assert report["summary"]["held"] >= 40
    written = sorted((tmp_path / "out").glob("*.json"))
    assert sorted(Path(r["failure_file"]) for r in bad) == written


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.id for mutant in MUTANTS])
def test_what_a_mutant_needs_is_a_flag_that_some_releases_have(mutant):
    if mutant.needs:
        flags = [bool(getattr(profile_for(release), mutant.needs)) for release in RELEASES]
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
