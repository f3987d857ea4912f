"""`wavecheck matrix`: cells, reports, resuming and exit codes; the runner is a fake."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import matrix_cmd
from harness.journal import Journal
from harness.matrix.columns import Start
from harness.matrix.model import Column
from harness.matrix.store import CellStore
from harness.results import ScenarioResult, VerdictResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

NAME = "wave.never-rewinds"
KNOWN = (
    f"invariants: [{NAME}]\nknown:\n"
    f"  - {{invariant: {NAME}, fixed_in: 0.25.0, reason: r, link: vllm#1}}\n"
)
Outcome = tuple[str, bool]
"""Status of a play, and whether its violation is predicted."""


@dataclass
class FakeFrontends:
    """Plays nothing. What (scenario, frontend) comes to is in ``outcomes``, a list for repeats."""

    folder: Path
    outcomes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    options: list[RunOptions] = field(default_factory=list)

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        assert options.frontend is not None
        pair = (loaded.id, options.frontend)
        self.calls.append(pair)
        self.options.append(options)
        words = self.outcomes.get(pair, ["held"])
        word = words[min(self.calls.count(pair), len(words)) - 1]
        if word == "interrupts":
            raise KeyboardInterrupt
        if word == "raises":
            msg = "the runner broke"
            raise RuntimeError(msg)
        violated = word in {"regression", "known"}
        file = None
        if violated:
            assert options.out is not None
            options.out.mkdir(parents=True, exist_ok=True)
            file = options.out / f"{loaded.id}-{options.frontend}.json"
            file.write_text("{}")
        status = {
            "regression": "violated",
            "known": "violated",
            "blind": "held",
            "no-start": "error",
        }.get(word, word)
        verdict = VerdictResult(
            NAME, "must", "violated" if violated else "held", exercised=1, message="went back"
        )
        return ScenarioResult(
            scenario=loaded.id,
            title=loaded.scenario.title,
            refs=(),
            profile=options.frontend,
            mutant=options.mutant,
            status=status,
            known=(NAME,) if word in {"known", "blind"} else (),
            error="it broke" if status == "error" else None,
            start_failure="it ended" if word == "no-start" else None,
            reason="target lacks op.rank" if word == "not_judged" else None,
            verdicts=(verdict,) if word != "not_judged" else (),
            trials=0 if word == "not_judged" else 1,
            duration_s=0.5,
            failure_file=None if file is None else str(file),
        )

    def columns(self, frontend: str, start: Start) -> Column:
        error = "pip could not download it" if frontend == "0.22.0" else None
        return Column(frontend, "" if error else frontend, True, f"i{frontend}{start}", error=error)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeFrontends:
    found = FakeFrontends(tmp_path)
    monkeypatch.setattr(matrix_cmd, "run_scenario", found)
    monkeypatch.setattr(matrix_cmd, "open_column", found.columns)
    return found


@pytest.fixture
def matrix(invoke: Invoke, folder: Path, tmp_path: Path) -> Callable[..., tuple[int, Any, Any]]:
    """Run it in this process; exit code, the document, and the result."""

    def call(*words: object, frontends: str = "0.24.0,0.25.0") -> tuple[int, Any, Any]:
        out = tmp_path / "out"
        first = ("--frontends", frontends, "--out", out, "--jobs", 1)
        result = invoke("matrix", *first, *(words or (folder,)))
        path = out / "matrix.json"
        document = json.loads(path.read_text()) if path.exists() else None
        return result.exit_code, document, result

    return call


def statuses(document: Any) -> dict[tuple[str, str], str]:
    return {(one["scenario"], one["frontend"]): one["status"] for one in document["cells"]}


def without_durations(document: Any) -> Any:
    return {**document, "cells": [{**one, "duration_s": 0} for one in document["cells"]]}


def test_every_scenario_is_played_on_every_frontend(matrix, fake) -> None:
    code, document, _ = matrix()
    assert code == 0
    assert sorted(fake.calls) == [
        (name, release) for name in ("a-held", "b-held", "c-held") for release in
        ("0.24.0", "0.25.0")
    ]  # fmt: skip
    assert set(statuses(document).values()) == {"held"}
    assert document["summary"] == {
        "held": 6, "known": 0, "regression": 0, "blind": 0, "unstable": 0, "not_judged": 0,
        "error": 0, "not_run": 0, "exit": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "status", "code", "plays"),
    [
        (["held"], "held", 0, 1),
        (["known"], "known", 0, 1),
        (["not_judged"], "not_judged", 0, 1),
        (["regression"], "regression", 1, 3),
        (["blind"], "blind", 1, 3),
        (["error"], "error", 3, 1),
        (["raises"], "error", 3, 1),
        (["regression", "held"], "unstable", 1, 3),
        (["blind", "known"], "unstable", 1, 3),
    ],
)
def test_cell_is_called_by_its_plays_and_red_ones_are_played_again(
    matrix, fake, words: list[str], status: str, code: int, plays: int
) -> None:
    fake.outcomes["b-held", "0.25.0"] = words
    found, document, _ = matrix()
    assert (found, statuses(document)["b-held", "0.25.0"]) == (code, status)
    assert fake.calls.count(("b-held", "0.25.0")) == plays
    assert document["summary"]["exit"] == code


def test_repeats_that_flip_are_unstable(matrix, fake, folder) -> None:
    fake.outcomes["a-held", "0.24.0"] = ["held", "not_judged", "held"]
    code, document, _ = matrix(folder, "--repeat", 3)
    assert (code, statuses(document)["a-held", "0.24.0"]) == (1, "unstable")
    assert fake.calls.count(("b-held", "0.24.0")) == 3


def test_nothing_judged_anywhere_is_4(matrix, fake, write, folder) -> None:
    file = write(folder, "x")
    fake.outcomes["x", "0.24.0"] = ["not_judged"]
    assert matrix(file, frontends="0.24.0")[0] == 4


def test_frontend_that_cannot_be_had_is_a_column_of_errors(matrix, fake) -> None:
    code, document, result = matrix(frontends="0.22.0,0.24.0")
    assert code == 3
    assert [one["reason"] for one in document["cells"] if one["frontend"] == "0.22.0"] == [
        "pip could not download it"
    ] * 3
    assert {release for _, release in fake.calls} == {"0.24.0"}
    assert "error: pip could not download it\n  --> 0.22.0\n" in result.stdout


def test_frontend_that_never_starts_is_given_up_and_the_other_columns_go_on(
    matrix, fake, write, folder
) -> None:
    for name in ("d", "e", "f"):
        write(folder, name)
    names = ("a-held", "b-held", "c-held", "d", "e", "f")
    fake.outcomes.update({(name, "0.25.0"): ["no-start"] for name in names})
    code, document, result = matrix(folder)
    assert code == 3
    assert [release for _, release in fake.calls].count("0.25.0") == 3
    assert [release for _, release in fake.calls].count("0.24.0") == 6
    assert (document["summary"]["error"], document["summary"]["not_run"]) == (3, 3)
    title = "error: the frontend never got ready in 3 starts, which failed alike\n  --> 0.25.0\n"
    assert title in result.stdout
    assert "3 cells were not run; --resume runs them" in result.stdout


def test_flips_are_measured_and_listed(matrix, fake, write, folder) -> None:
    file = write(folder, "k", more=KNOWN)
    fake.outcomes["k", "0.24.0"] = ["known"]
    code, document, result = matrix(file, frontends="0.25.0,0.24.0")
    assert (code, document["flips"]) == (
        0,
        [{"scenario": "k", "invariant": NAME, "from": "0.24.0", "to": "0.25.0",
          "direction": "fixed"}],
    )  # fmt: skip
    assert f"fixed between 0.24.0 | 0.25.0: {NAME}  k\n" in result.stdout


def test_red_cell_names_its_failure_file_and_the_command_that_replays_it(
    matrix, fake, tmp_path
) -> None:
    fake.outcomes["b-held", "0.25.0"] = ["regression"]
    _, document, result = matrix()
    (one,) = [cell for cell in document["cells"] if cell["status"] == "regression"]
    path = tmp_path / "out" / "failures" / "b-held-0.25.0.json"
    assert (one["failure_file"], one["replay"]) == (str(path), f"wavecheck replay {path}")
    assert (one["regression"], one["message"]) == ([NAME], "went back")
    assert f"regression[{NAME}]: went back\n  --> b-held on 0.25.0\n" in result.stdout
    html = (tmp_path / "out" / "matrix.html").read_text()
    assert 'href="failures/b-held-0.25.0.json"' in html


# --- resuming -------------------------------------------------------------------------------


def test_interrupted_matrix_writes_reports_and_lists_what_was_not_run(
    matrix, fake, tmp_path
) -> None:
    fake.outcomes["b-held", "0.24.0"] = ["interrupts"]
    code, document, result = matrix()
    assert (code, document["summary"]["exit"]) == (130, 130)
    assert list(statuses(document)) == [("a-held", "0.24.0"), ("a-held", "0.25.0")]
    assert document["not_run"] == [
        {"scenario": name, "frontend": release}
        for name in ("b-held", "c-held")
        for release in ("0.24.0", "0.25.0")
    ]
    assert "4 cells were not run; --resume runs them\n" in result.stdout
    assert "exit 130: interrupted" in result.stdout
    assert "## Not run" in (tmp_path / "out" / "matrix.md").read_text()


def test_matrix_that_finds_no_room_shows_its_table_and_names_each_file(
    matrix, fake, folder, tmp_path, no_room
) -> None:
    out = tmp_path / "out"
    for name in ("matrix.json", "matrix.md", "last-failed.json"):
        no_room.for_file(out / name)
    fake.outcomes["b-held", "0.24.0"] = ["regression"]
    code, _, result = matrix(folder, "--json", tmp_path / "m.json")
    assert (code, json.loads((tmp_path / "m.json").read_text())["summary"]["exit"]) == (3, 3)
    assert "exit 3: " in result.stdout.splitlines()[-1]
    assert "1 regression" in result.stdout
    assert "reports: " not in result.stdout
    for name in ("matrix.json", "matrix.md", "last-failed.json"):
        assert f"{out / name}: No space left on device" in result.stderr
    assert not list(out.glob("*.partial"))


def test_cell_that_finds_no_room_is_named_and_ends_nothing(
    matrix, fake, tmp_path, monkeypatch
) -> None:
    written = []

    def full(_store, data):
        written.append(data)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Journal, "_write", full)
    code, document, result = matrix()
    assert (code, len(document["cells"]), len(written)) == (3, 6, 1)
    assert f"cannot write {tmp_path / 'out' / 'cells.jsonl'}: No space left" in result.stderr


def test_resumed_table_equals_an_undisturbed_one_and_repeats_no_cell(
    matrix, fake, folder, tmp_path
) -> None:
    fake.outcomes["c-held", "0.25.0"] = ["known"]
    fake.outcomes["b-held", "0.24.0"] = ["interrupts"]
    matrix()
    fake.outcomes["b-held", "0.24.0"] = ["held"]
    before = list(fake.calls)
    code, resumed, result = matrix(folder, "--resume")
    assert code == 0
    assert len(fake.calls) - len(before) == 4
    assert "2 of them finished before" in result.stdout
    code, whole, _ = matrix()
    assert without_durations(resumed) == without_durations(whole)
    # Without --resume everything is played.
    assert len(fake.calls) == len(before) + 4 + 6


def test_cell_in_error_is_played_again_when_resumed(matrix, fake, folder) -> None:
    fake.outcomes["b-held", "0.24.0"] = ["error"]
    assert matrix()[0] == 3
    fake.outcomes["b-held", "0.24.0"] = ["held"]
    fake.calls.clear()
    assert matrix(folder, "--resume")[0] == 0
    assert fake.calls == [("b-held", "0.24.0")]


@pytest.mark.parametrize("flags", [["--repeat", 2], ["--race-budget", 5], ["--frontend-arg", "x"]])
def test_cell_that_was_played_otherwise_is_not_kept(matrix, fake, folder, flags) -> None:
    matrix()
    fake.calls.clear()
    matrix(folder, "--resume", *flags)
    assert {name for name, _ in fake.calls} == {"a-held", "b-held", "c-held"}


def test_changed_scenario_is_played_again_when_resumed(matrix, fake, write, folder) -> None:
    matrix()
    fake.calls.clear()
    write(folder, "b-held", title="another")
    matrix(folder, "--resume")
    assert sorted(fake.calls) == [("b-held", "0.24.0"), ("b-held", "0.25.0")]


def test_cell_whose_failure_file_is_gone_is_played_again(matrix, fake, folder, tmp_path) -> None:
    fake.outcomes["b-held", "0.25.0"] = ["known"]
    matrix()
    fake.calls.clear()
    matrix(folder, "--resume")
    assert fake.calls == []
    (tmp_path / "out" / "failures" / "b-held-0.25.0.json").unlink()
    matrix(folder, "--resume")
    assert fake.calls == [("b-held", "0.25.0")]


def test_torn_store_is_told_and_its_cell_played_again(matrix, fake, folder, tmp_path) -> None:
    matrix()
    store = tmp_path / "out" / "cells.jsonl"
    store.write_bytes(store.read_bytes()[:-20])
    fake.calls.clear()
    code, document, result = matrix(folder, "--resume")
    assert (code, len(fake.calls), len(document["cells"])) == (0, 1, 6)
    assert "1 unreadable lines in" in result.stdout


def test_new_matrix_drops_the_failure_files_of_the_last_one(matrix, fake, tmp_path) -> None:
    fake.outcomes["b-held", "0.25.0"] = ["known"]
    matrix()
    fake.outcomes.clear()
    matrix()
    assert list((tmp_path / "out" / "failures").iterdir()) == []


def test_folder_in_use_is_refused(matrix, fake, tmp_path) -> None:
    (tmp_path / "out").mkdir()
    store = CellStore(tmp_path / "out" / "cells.jsonl", fresh=True)
    code, _, result = matrix()
    store.close()
    assert (code, fake.calls) == (2, [])
    assert "another run of `wavecheck matrix` writes into" in result.stderr


# --- parts ----------------------------------------------------------------------------------


def test_last_failed_plays_the_red_cells_and_errors_alone(matrix, fake, folder) -> None:
    fake.outcomes["b-held", "0.25.0"] = ["regression"]
    fake.outcomes["c-held", "0.24.0"] = ["error"]
    matrix()
    fake.calls.clear()
    fake.outcomes.clear()
    code, document, _ = matrix("--last-failed")
    assert code == 0
    assert sorted(fake.calls) == [("b-held", "0.25.0"), ("c-held", "0.24.0")]
    assert sorted(statuses(document)) == sorted(fake.calls)
    assert document["not_run"] == []
    # What it played anew counts when the whole table is resumed.
    fake.calls.clear()
    _, document, _ = matrix(folder, "--resume")
    assert fake.calls == []
    assert set(statuses(document).values()) == {"held"}
    code, _, result = matrix("--last-failed")
    assert code == 2
    assert "nothing failed in the last run" in result.stderr


def test_shards_cover_the_table(matrix, fake, folder) -> None:
    for shard in (1, 2):
        matrix(folder, "--shard", f"{shard}/2")
    assert len(fake.calls) == len(set(fake.calls)) == 6


def test_jobs_are_ordered_longest_first(matrix, fake, write, folder) -> None:
    write(folder, "z-race", more="trials: {miss: 0.5}\n")
    write(folder, "y-slow", more="topology: {config: {ready_timeout_s: 3}}\n")
    matrix(frontends="0.24.0")
    assert [name for name, _ in fake.calls] == ["z-race", "y-slow", "a-held", "b-held", "c-held"]


# --- flags ----------------------------------------------------------------------------------


def test_flags_reach_every_play(matrix, fake, folder, tmp_path) -> None:
    words = ["--frontend-arg=--x", "--frontend-arg", "y z", "--frontend-env", "A=b=c"]
    matrix(folder, *words, "--race-budget", 2.5, "--timeout", 9)
    for options in fake.options:
        assert options.frontend_args == ("--x", "y z")
        assert options.frontend_env == (("A", "b=c"),)
        assert (options.race_budget_s, options.timeout_s) == (2.5, 9)
        assert (options.target, options.allow_known) == ("vllm-rs", True)
        assert options.out == tmp_path / "out" / "failures"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frontends", "0.99"], "--frontends: unknown frontend release '0.99'"),
        (["--frontends", ","], "--frontends: no frontend is named"),
        (["--as-release", "0.28.0"], "--as-release is for a frontend that is a file"),
        (["--as-release", "0.1.0"], "unknown release '0.1.0'"),
        (["--mutant", "nothing"], "unknown mutant 'nothing'"),
        (["--mutant", "coordinator-rewinds"],
         "--mutant coordinator-rewinds does not go with the real frontend 0.24.0"),
        (["--mutant", "coordinator-rewinds", "--frontends", "reference,0.33.0"],
         "--mutant coordinator-rewinds does not go with the real frontend 0.33.0"),
        (["--frontend-env", "A"], "'A' is not NAME=VALUE"),
        (["--frontend-env", "=b"], "'=b' is not NAME=VALUE"),
        (["--shard", "3/2"], "'3/2' is not I/N"),
        (["--shard", "0/2"], "'0/2' is not I/N"),
        (["--race-budget", "nan"], "nan is not a number of seconds"),
        (["--race-budget", "0"], "Invalid value for '--race-budget'"),
        (["--last-failed"], "nothing failed in the last run"),
        (["-k", "zzz"], "none of 3 scenarios has 'zzz' in its id or title"),
    ],
)  # fmt: skip
def test_wrong_use_ends_with_2_before_anything_runs(
    matrix, fake, folder, tmp_path, words: Sequence[str], message: str
) -> None:
    code, document, result = matrix(folder, *words)
    assert (code, document, fake.calls) == (2, None, [])
    assert message in result.stderr


def test_json_on_standard_output_is_the_document_alone(matrix, fake, folder) -> None:
    _, document, result = matrix(folder, "--json", "-")
    assert json.loads(result.stdout) == document
    assert "6 cells" in result.stderr


def test_folder_that_cannot_be_written_is_refused(matrix, fake, tmp_path) -> None:
    (tmp_path / "out").write_text("")
    code, _, result = matrix()
    assert code == 2
    assert fake.calls == []
    assert "--out" in result.stderr


def test_progress_without_a_terminal_is_a_line_now_and_then(matrix, fake) -> None:
    fake.outcomes["a-held", "0.24.0"] = ["regression"]
    _, _, result = matrix()
    assert result.stderr.splitlines()[-1] == "6/6 cells, 1 red"


def test_table_of_a_reference_frontend_turns_red_with_a_mutant(
    matrix, fake, folder, monkeypatch
) -> None:
    def column(frontend: str, start: Start) -> Column:
        return replace(fake.columns("0.33.0", start), id=frontend, released=False)

    monkeypatch.setattr(matrix_cmd, "open_column", column)
    fake.outcomes["a-held", "reference"] = ["regression"]
    code, document, _ = matrix(folder, "--mutant", "coordinator-rewinds", frontends="reference")
    assert (code, statuses(document)["a-held", "reference"]) == (1, "regression")
    assert {options.mutant for options in fake.options} == {"coordinator-rewinds"}


def test_reports_are_there_although_nobody_reads_the_output(
    matrix, fake, tmp_path, monkeypatch
) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(matrix_cmd._Matrix, "_say", gone)
    code, document, _ = matrix()
    assert (code, document["summary"]["held"]) == (141, 6)
    assert (tmp_path / "out" / "matrix.html").exists()
