"""``wavecheck shrink``, and ``replay`` with ``--step`` and ``--search``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.failure import read_failure
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import load as load_file
from tests.harness.cli.conftest import Invoke
from tests.support.races import RACE, RACE_MUTANT, RACE_PROMISE
from tests.support.stories import HEAD, load


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = RunOptions(
        out=tmp_path_factory.mktemp("kept"),
        mutant=RACE_MUTANT,
        schedules=60,
        strategy="random",
        seed=3,
        shrink=True,
    )
    result = run_scenario(load(RACE, "stories/bad"), options)
    assert result.failure_file is not None, result
    return Path(result.failure_file)


@pytest.fixture
def file(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(kept, tmp_path / "failure.json"))


def edit(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return path


# --- run ------------------------------------------------------------------------------------


def test_run_shows_the_order_in_which_it_broke(invoke: Invoke, tmp_path: Path) -> None:
    story = tmp_path / "race.yaml"
    story.write_text(HEAD + RACE)
    words = ["run", story, "--mutant", RACE_MUTANT, "--schedules", 60, "--strategy", "random"]
    words += ["--seed", 3, "--out", tmp_path / "out"]
    result = invoke(*words)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    at = lines.index("  order:     everything in FIFO order, except that")
    assert " ran before `coordinator-commands`" in lines[at + 1]
    assert "order:" not in invoke(*words, "--no-shrink").stdout


def test_run_says_that_fifo_order_is_enough(invoke: Invoke, tmp_path: Path) -> None:
    words = ["run", "routing/rank-is-never-truncated", "--mutant", "rank-truncated"]
    document = json.loads(invoke(*words, "--out", tmp_path, "--json", "-").stdout)
    assert document["results"][0]["departures"] == []
    assert "  order:     everything in FIFO order\n" in invoke(*words, "--out", tmp_path).stdout


# --- shrink ---------------------------------------------------------------------------------


def test_shrink_writes_a_scenario_and_a_failure_file(
    invoke: Invoke, file: Path, tmp_path: Path
) -> None:
    result = invoke("shrink", file, "--out", tmp_path / "small", "--json", tmp_path / "r.json")
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "r.json").read_text())
    assert (told["outcome"], told["violated"], told["exit"]) == ("reduced", RACE_PROMISE, 0)
    assert (told["before"]["steps"], told["after"]["steps"]) == (6, 2)
    assert (told["before"]["engines"], told["after"]["engines"]) == (2, 1)
    assert told["after"]["departures"] == len(told["departures"]) == 1
    assert told["finished"] is True
    scenario, failure = Path(told["scenario_file"]), Path(told["failure_file"])
    assert sorted((tmp_path / "small").iterdir()) == sorted([scenario, failure])
    assert len(load_file(scenario).scenario.steps) == 2
    assert invoke("replay", failure).exit_code == 1
    assert scenario.read_text().splitlines()[-1] in result.stdout
    assert "came down to 2 steps, 1 engine" in result.stdout


def test_shrink_of_a_failure_that_is_gone_ends_with_4(
    invoke: Invoke, file: Path, tmp_path: Path
) -> None:
    result = invoke("shrink", edit(file, mutant=None), "--out", tmp_path / "small", "--json", "-")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["outcome"] == "not reproduced"
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("command", ["shrink", "replay"])
def test_missing_failure_file_is_a_usage_error(
    invoke: Invoke, tmp_path: Path, command: str
) -> None:
    result = invoke(command, tmp_path / "none.json")
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


@pytest.mark.parametrize("budget", ["0", "x", "-1s", "nan"])
def test_budget_that_is_no_duration_is_a_usage_error(
    invoke: Invoke, file: Path, budget: str
) -> None:
    result = invoke("shrink", file, f"--budget={budget}")
    assert result.exit_code == 2
    assert "is no duration" in result.stderr


def test_interrupted_shrink_writes_the_smallest_so_far_and_ends_with_130(
    invoke: Invoke, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.shrink.scenario import ScenarioReduction

    accept = ScenarioReduction._accept
    taken: list[bool] = []

    def interrupted(self: ScenarioReduction, data: object) -> bool:
        if sum(taken) == 5:
            raise KeyboardInterrupt
        taken.append(accept(self, data))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(ScenarioReduction, "_accept", interrupted)
    result = invoke("shrink", file, "--out", tmp_path / "small", "--json", "-")
    assert result.exit_code == 130
    told = json.loads(result.stdout)
    assert (told["finished"], told["exit"]) == (False, 130)
    assert told["after"]["steps"] < told["before"]["steps"]
    assert read_failure(Path(told["failure_file"])).violated == RACE_PROMISE
    assert "; interrupted" in result.stderr


# --- replay ---------------------------------------------------------------------------------


def test_search_after_a_change_ends_with_1_and_a_failure_file(
    invoke: Invoke, file: Path, tmp_path: Path
) -> None:
    text = json.loads(file.read_text())["scenario_text"]
    longer = text.replace("steps:\n", "steps:\n  - call: {id: new}\n  - finish: new\n")
    edit(file, scenario_text=longer)
    assert invoke("replay", file).exit_code == 4
    result = invoke("replay", file, "--search", "--out", tmp_path / "new", "--json", "-")
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert (told["outcome"], told["exit"]) == ("found", 1)
    assert invoke("replay", told["failure_file"]).exit_code == 1
    assert f"violated[{RACE_PROMISE}]" in result.stderr


def test_search_for_a_fault_that_was_fixed_ends_with_0(
    invoke: Invoke, file: Path, tmp_path: Path
) -> None:
    words = ["replay", edit(file, mutant=None), "--search", "--out", tmp_path / "new"]
    result = invoke(*words, "--json", "-")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["outcome"], told["finished"], told["failure_file"]) == ("gone", True, None)
    assert f"is not violated in {told['tried']} schedules near the old tape" in told["text"]
    assert not (tmp_path / "new").exists()


def test_search_that_judges_nothing_ends_with_4(invoke: Invoke, file: Path) -> None:
    nothing = HEAD + "steps:\n  - fence: true\n"
    result = invoke("replay", edit(file, mutant=None, scenario_text=nothing), "--search")
    assert result.exit_code == 4
    assert "note[not judged]" in result.stdout
    assert "had nothing to judge" in result.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--step", "--search"], "--step and --search exclude each other"),
        (["--budget", "3s"], "--budget goes with --search only"),
        (["--step", "--budget", "3s"], "--budget goes with --search only"),
        (["--out", "x"], "--out goes with --search only"),
        (["--search", "--budget", "soon"], "is no duration"),
    ],
)
def test_flags_that_do_not_go_together_are_a_usage_error(
    invoke: Invoke, file: Path, words: list[str], text: str
) -> None:
    result = invoke("replay", file, *words)
    assert result.exit_code == 2
    assert text in result.stderr


@pytest.mark.parametrize("flag", ["--step", "--search"])
def test_failure_without_a_tape_has_no_choices_to_look_at(
    invoke: Invoke, file: Path, flag: str
) -> None:
    result = invoke("replay", edit(file, target="zmq", tape=None), flag)
    assert result.exit_code == 2
    assert f"{flag} needs choices, and nobody chooses the order on zmq" in result.stderr
