"""``wavecheck mutants``: the matrix, its exit codes, its JSON, and an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.protocol.profiles import RELEASES
from harness.cli import hunting, mutants_cmd
from harness.cli.main import cli
from harness.failure import read_failure
from harness.hunting.hunt import hunt
from harness.mutants import discover
from harness.mutants.base import Mutant
from harness.targets.base import TargetError


def run(*words):
    return CliRunner().invoke(cli, ["mutants", *map(str, words)], prog_name="wavecheck")


def document(tmp_path, *words):
    where = tmp_path / "kills.json"
    done = run(*words, "--json", where)
    return done, json.loads(where.read_text(encoding="utf-8"))


class Harmless(Mutant):
    """Changes nothing that anybody can see."""

    id = "harmless"
    family = "health"
    title = "nothing"
    bug = "None."
    source = "a test"
    killed_by = "health.sticky-first"


def only(monkeypatch, *mutants):
    monkeypatch.setattr(mutants_cmd, "discover", lambda: mutants)
    # The hunt asks for its mutant by id.
    found = {mutant.id: mutant for mutant in (*discover(), *mutants)}
    for module in ("harness.hunting.hunt", "harness.runner"):
        monkeypatch.setattr(f"{module}.find_mutant", found.__getitem__)


def few(monkeypatch, *names):
    """Play these scenarios alone."""
    every = mutants_cmd.chosen
    monkeypatch.setattr(mutants_cmd, "chosen", lambda _names, part: every(names, part))


@pytest.mark.slow
def test_family_is_killed_and_reported(tmp_path):
    done, found = document(tmp_path, "waiters")
    assert done.exit_code == 0, done.output
    ids = sorted(mutant.id for mutant in discover() if mutant.family == "waiters")
    assert sorted(mutant["id"] for mutant in found["mutants"]) == ids
    assert {mutant["status"] for mutant in found["mutants"]} == {"killed"}
    assert {mutant["killer"]["without_mutant"] for mutant in found["mutants"]} == {"held"}
    for mutant in found["mutants"]:
        assert mutant["killed_by"] in mutant["killer"]["violated"]
        assert mutant["killer"]["profile"] in RELEASES
        assert mutant["id"] in done.output
    assert found["summary"]["killed"] == len(ids)
    assert "killed by FIFO alone" in done.output
    # Part of the mutants says nothing about the invariants.
    assert "invariants that killed no mutant" not in done.output


def test_mutant_that_fifo_does_not_kill_is_listed_apart_with_its_schedules(tmp_path, monkeypatch):
    few(monkeypatch, "requests/aborted-then-left", "requests/stream-to-the-end")
    done, found = document(tmp_path, "request-that-is-over-aborted", "--schedules", 20)
    assert done.exit_code == 0, done.output
    (mutant,) = found["mutants"]
    assert not mutant["by_fifo"]
    assert 1 < mutant["killer"]["schedules"] <= 20
    assert "killed by a search (1), schedules to the first kill:" in done.output
    assert f"requests/aborted-then-left ({mutant['killer']['schedules']})" in done.output


def test_mutant_that_fifo_does_not_kill_survives_fifo_alone(monkeypatch):
    few(monkeypatch, "requests/aborted-then-left")
    done = run("request-that-is-over-aborted", "--schedules", 1)
    assert done.exit_code == 1
    assert "survived (1)" in done.output


def test_mutant_that_survives_ends_with_1_and_is_named(tmp_path, monkeypatch):
    only(monkeypatch, Harmless)
    few(monkeypatch, "lifecycle/first-error-sticks", "utility/is-sleeping-agrees")
    done, found = document(tmp_path, "--schedules", 3)
    assert done.exit_code == 1
    assert found["mutants"][0]["status"] == "survived"
    assert found["summary"]["survived"] == found["summary"]["exit"] == 1
    assert "harmless: health.sticky-first is not violated in " in done.output
    assert "invariants that killed no mutant of theirs" in done.output


def crash(_loaded, _options):
    msg = "the target fell over"
    raise TargetError(msg)


def test_mutant_that_falls_by_a_crash_only_ends_with_1_and_says_so(tmp_path, monkeypatch):
    few(monkeypatch, "routing/explicit-rank")
    monkeypatch.setattr(hunting.Hunt.__init__, "__defaults__", (lambda *_: None, crash))
    done, found = document(tmp_path, "rank-truncated")
    assert done.exit_code == 1
    assert found["mutants"][0]["status"] == "crashed"
    assert "the target fell over" in found["mutants"][0]["crashes"][0]["error"]
    assert "crashed (1): runs failed" in done.output


def test_interruption_reports_what_was_known_and_ends_with_130(tmp_path, monkeypatch):
    few(monkeypatch, "utility/is-sleeping-disagrees", "utility/one-of-three-sleeps")
    played = []

    def interrupted(loaded, options):
        played.append(loaded.id)
        if len(played) > 3:
            raise KeyboardInterrupt
        return hunt(loaded, options)

    monkeypatch.setattr(hunting.Hunt.__init__, "__defaults__", (lambda *_: None, interrupted))
    done, found = document(tmp_path, "aggregation", "--schedules", 1)
    assert done.exit_code == found["summary"]["exit"] == 130
    assert found["summary"]["not-run"] >= 1
    assert "not-run" in done.output


@pytest.mark.slow
def test_workers_find_what_one_process_finds(tmp_path, monkeypatch):
    few(monkeypatch, "utility")
    done, one = document(tmp_path, "aggregation", "--schedules", 1)
    _, two = document(tmp_path, "aggregation", "--schedules", 1, "--jobs", 2)
    assert one == two
    assert done.exit_code == one["summary"]["exit"]


def test_out_keeps_a_failure_file_of_each_kill(tmp_path, monkeypatch):
    few(monkeypatch, "routing/rank-is-never-truncated")
    done, found = document(tmp_path, "rank-truncated", "--out", tmp_path / "kept")
    assert done.exit_code == 0
    (mutant,) = found["mutants"]
    failure = read_failure(Path(mutant["killer"]["failure_file"]))
    assert (failure.mutant, failure.violated) == ("rank-truncated", "routing.explicit-rank")
    again = CliRunner().invoke(cli, ["replay", mutant["killer"]["failure_file"]])
    assert again.exit_code == 1, again.output


def test_full_hunt_shows_every_scenario_that_kills(tmp_path, monkeypatch):
    few(monkeypatch, "routing/rank-is-never-truncated", "routing/grpc-rank-not-connected")
    _, found = document(tmp_path, "rank-truncated", "--full")
    (mutant,) = found["mutants"]
    assert len([kill for kill in mutant["kills"] if kill["own"]]) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rank-trunkated"], "did you mean 'rank-truncated'"),
        (["--strategy", "atuo"], "did you mean 'auto'"),
        (["--schedules", "0"], "0 is not in the range"),
        (["--json", "no/such/folder.json"], "there is no folder"),
    ],
)
def test_wrong_use_ends_with_2(words, told):
    done = run(*words)
    assert done.exit_code == 2
    assert told in done.output


def test_json_on_standard_output_is_json_alone(monkeypatch):
    few(monkeypatch, "routing/rank-is-never-truncated")
    done = CliRunner().invoke(cli, ["mutants", "rank-truncated", "--json", "-"])
    assert json.loads(done.stdout)["summary"]["killed"] == 1
    assert "killed by FIFO alone" in done.stderr
