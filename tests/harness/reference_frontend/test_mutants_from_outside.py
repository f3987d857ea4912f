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
from harness.worlds import ZmqWorld

pytestmark = [
    pytest.mark.zmq,
    pytest.mark.skipif(sys.platform != "linux", reason="the frontend's process ends with ours"),
]
CONTROL_BUDGET_S = 2.0
HERE = Path(__file__).parent
FLOOD = HERE / "short-flood-of-waves.yaml"
TWICE = HERE / "wave-reported-twice.yaml"
LAST_WAVE = HERE / "wave-counter-at-its-end.yaml"
REPETITION = HERE / "cut-off-by-a-repetition.yaml"
KILLERS = {
    "abort-names-one-of-many": ["requests/explicit-abort"],
    "abort-to-every-engine": ["requests/dropped-stream", "requests/left-before-the-first-token"],
    "any-instead-of-all": ["utility/reset-prefix-cache-one-false"],
    "call-ids-used-again": ["utility/pause-and-resume"],
    "completions-counted": [TWICE],
    "coordinator-rewinds": [FLOOD],
    "earliest-failure-wins": ["utility/error-in-engine-order"],
    "engine-abort-shown-as-stop": ["hostile/put-to-sleep-in-mid-stream"],
    "fail-fast-fan-out": ["utility/settles-all-ok", "utility/settles-and"],
    "failures-left-out": ["utility/settles-all-ok"],
    "final-output-twice": ["requests/stream-to-the-end"],
    "finished-ids-before-outputs": ["hostile/ends-count-once-in-routing"],
    "first-engine-only-is-sleeping": ["utility/is-sleeping-disagrees"],
    "first-request-wakes-its-holder": ["waves/current-first-request"],
    "frontend-still-starts-waves": ["findings/a-wave-at-the-end-of-its-range"],
    "gate-opens-at-the-first-subscription": ["handshake/one-engine-never-subscribes"],
    "gate-opens-one-short": ["handshake/one-engine-never-subscribes"],
    "grpc-rank-ignored": ["routing/grpc-rank-text-is-trimmed"],
    "hello-twice-accepted": ["handshake/hello-twice-although-all-come"],
    "last-engine-not-awaited": ["utility/a-stalled-engine-holds-the-call"],
    "majority-wins": ["utility/one-of-three-sleeps"],
    "missing-key-passed-over": ["handshake/required-key-missing"],
    "nil-results-dropped": ["hostile/a-thousand-replies-to-one-call"],
    "one-token-of-each-output": ["requests/reader-slower-than-its-engine"],
    "rank-taken-for-a-position": ["routing/error-names-the-connected-ranks"],
    "rank-truncated": ["routing/rank-is-never-truncated", "routing/grpc-rank-not-connected"],
    "repetition-shown-as-stop": [REPETITION],
    "results-in-order-of-arrival": ["utility/a-stalled-engine-holds-the-call"],
    "running-wave-started-again": ["waves/engine-notified-stale-wave"],
    "start-wave-to-its-sender": ["waves/engine-notified-stale-wave"],
    "startup-ends-one-engine-short": ["handshake/engine-never-comes"],
    "stray-output-to-the-last-reader": ["hostile/a-thousand-rows-for-nobody"],
    "stream-dropped-without-abort": [
        "requests/left-before-the-first-token",
        "requests/grpc-stream-left-while-the-engine-is-silent",
    ],
    "utility-waiter-leaked-on-cancel": ["utility/cancelled-then-late-replies"],
    "wave-counter-wraps": [LAST_WAVE],
}
WAITING = {
    "death-of-an-engine-ignored": "lifecycle/engine-core-dead",
    "empty-final-output-skipped": "requests/explicit-abort",
    "failure-ends-one-engine-only": "hostile/empty-frame",
    "finished-without-output-hangs": "requests/finished-without-a-final-output",
    "reader-not-woken-by-a-failure": "hostile/empty-frame",
    "undecodable-output-passed-over": "hostile/final-output-with-an-impossible-token",
    "utility-calls-survive-a-failure": "hostile/truncated-output",
}
"""Mutants that leave a caller waiting: each play takes the safety nets of a step and of the end."""
NET_S = 4.0
RELEASES = {FLOOD: "0.32.0", TWICE: "0.32.0", "waves/current-first-request": "0.32.0"}
"""First requests ended with 0.32; everything else is played in the newest release."""


@pytest.fixture(autouse=True)
def nets(monkeypatch):
    """Plays of a mutant that leaves somebody waiting last as long as the nets, and are many."""
    monkeypatch.setattr(ZmqWorld, "step_limit_s", NET_S)


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


def test_mutants_that_show_inside_the_client_only_say_why():
    hidden = [mutant for mutant in discover() if mutant.hidden_because]
    assert {mutant.visible() for mutant in hidden} == {"white-box"}
    assert len(seen_from_outside()) + len(hidden) == len(discover())
    for mutant in hidden:
        assert len(mutant.hidden_because) > 40


def test_every_mutant_that_a_black_box_shows_has_a_scenario_here_and_no_other():
    assert sorted([*KILLERS, *WAITING]) == [mutant.id for mutant in seen_from_outside()]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", WAITING)
def test_mutant_that_leaves_a_caller_waiting_is_killed_by_its_own_invariant(mutant, tmp_path):
    report = tmp_path / "report.json"
    arguments = ["run", WAITING[mutant], "--target", "vllm-rs", "--frontend", "reference"]
    flags = ["--mutant", mutant, "--json", str(report), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*arguments, *flags], prog_name="wavecheck")
    assert done.exit_code == ExitCode.VIOLATION, done.output
    (result,) = json.loads(report.read_text(encoding="utf-8"))["results"]
    broken = [each["invariant"] for each in result["verdicts"] if each["verdict"] == "violated"]
    assert find_mutant(mutant).killed_by in broken


@pytest.mark.slow
def test_scenarios_in_which_a_caller_could_wait_hold_without_a_mutant(tmp_path):
    report = tmp_path / "report.json"
    where = sorted(set(WAITING.values()))
    arguments = ["run", *where, "--target", "vllm-rs", "--frontend", "reference"]
    done = CliRunner().invoke(cli, [*arguments, "--json", str(report)], prog_name="wavecheck")
    assert done.exit_code == ExitCode.OK, done.output
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    assert [each["status"] for each in results] == ["held"] * len(where)


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
