"""Each mutant that a black box shows is killed through HTTP or gRPC, by its own invariant.

The same scenario holds without the mutant, so that what is seen is the mutant and not the path.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.mutants import discover, find_mutant, seen_from_outside
from harness.verdict import ExitCode

pytestmark = [
    pytest.mark.zmq,
    pytest.mark.skipif(sys.platform != "linux", reason="the frontend's process ends with ours"),
]
CONTROL_BUDGET_S = 2.0
FLOOD = Path(__file__).parent / "short-flood-of-waves.yaml"
KILLERS = {
    "abort-to-every-engine": ["requests/dropped-stream", "requests/left-before-the-first-token"],
    "coordinator-rewinds": [FLOOD],
    "fail-fast-fan-out": ["utility/settles-all-ok", "utility/settles-and"],
    "first-engine-only-is-sleeping": ["utility/is-sleeping-disagrees"],
    "rank-truncated": ["routing/rank-is-never-truncated", "routing/grpc-rank-not-connected"],
    "stream-dropped-without-abort": [
        "requests/left-before-the-first-token",
        "requests/grpc-stream-left-while-the-engine-is-silent",
    ],
    "utility-waiter-leaked-on-cancel": ["utility/cancelled-then-late-replies"],
}
RELEASES = {FLOOD: "0.32.0"}
"""First requests ended with 0.32; everything else is played in the newest release."""


def through_the_matrix(wheres, out, *flags):
    (release,) = {RELEASES.get(where, "0.33.0") for where in wheres}
    return played(wheres, out, "--frontends", f"reference:{release}", *flags)


def played(wheres, out, *flags):
    found = out / "table.json"
    names = [str(where) for where in wheres]
    arguments = ["matrix", *names, *flags, "--out", str(out), "--json", str(found), "--jobs", "1"]
    done = CliRunner().invoke(cli, arguments, prog_name="wavecheck")
    assert found.is_file(), done.output
    return done.exit_code, json.loads(found.read_text(encoding="utf-8"))


def test_three_mutants_show_inside_the_client_only_and_say_why():
    hidden = {mutant.id: mutant.hidden_because for mutant in discover() if mutant.hidden_because}
    assert sorted(hidden) == [
        "first-request-leaves-running-false",
        "request-leaked-on-cancel-before-send",
        "stale-first-request-leaves-out-target",
    ]
    assert {find_mutant(name).visible() for name in hidden} == {"white-box"}
    assert len(seen_from_outside()) + len(hidden) == len(discover())


def test_every_mutant_that_a_black_box_shows_has_a_scenario_here_and_no_other():
    assert sorted(KILLERS) == [mutant.id for mutant in seen_from_outside()]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", KILLERS)
def test_mutant_in_place_of_a_release_turns_the_cell_to_regression(mutant, tmp_path):
    code, table = through_the_matrix(KILLERS[mutant], tmp_path, "--mutant", mutant)
    killed_by = find_mutant(mutant).killed_by
    assert code == ExitCode.VIOLATION
    assert table["frontends"][0]["mutant"] == mutant
    assert "cannot be seen" not in table["frontends"][0]["note"]
    for cell in table["cells"]:
        assert (cell["status"], cell["plays"]) == ("regression", ["regression"] * 3)
        assert killed_by in cell["regression"]
        assert killed_by in Path(cell["failure_file"]).read_text(encoding="utf-8")
    assert len(table["cells"]) == len(KILLERS[mutant])


@pytest.mark.slow
@pytest.mark.parametrize("mutant", KILLERS)
def test_row_of_the_same_scenarios_holds_without_the_mutant(mutant, tmp_path):
    budget = ("--race-budget", str(CONTROL_BUDGET_S))
    code, table = through_the_matrix(KILLERS[mutant], tmp_path, *budget)
    assert code == ExitCode.OK
    assert {cell["status"] for cell in table["cells"]} == {"held"}
    assert len(table["cells"]) == len(KILLERS[mutant])
    assert not list((tmp_path / "failures").iterdir())


@pytest.mark.parametrize(
    ("mutant", "release", "told"),
    [
        ("stale-first-request-leaves-out-target", "0.32.0", "reads its wave once for the ADD"),
        ("coordinator-rewinds", "0.33.0", "0.22.0 to 0.32.0 do"),
    ],
)
def test_table_says_that_a_mutant_cannot_be_seen_in_a_release(mutant, release, told, tmp_path):
    where = "lifecycle/engine-core-dead"
    arguments = ("--frontends", f"reference:{release}", "--mutant", mutant)
    code, table = played((where,), tmp_path, *arguments)
    (frontend,) = table["frontends"]
    assert code in {ExitCode.OK, ExitCode.NOT_JUDGED}
    assert f"the mutant {mutant} cannot be seen here: " in frontend["note"]
    assert told in frontend["note"]
    for report in ("matrix.md", "matrix.html"):
        assert "cannot be seen here" in (tmp_path / report).read_text(encoding="utf-8")
