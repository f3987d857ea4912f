"""`wavecheck run`: selection, flags, reports and exit codes; the runner is a fake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from client.protocol.profiles import RELEASES
from harness.cli import run_cmd, run_plan
from harness.targets.base import TargetError, TargetInfo

if TYPE_CHECKING:
    from tests.harness.cli.conftest import FakeRunner, Invoke, NoRoom, Write

FULL = Path("/dev/full")


def names(runner: FakeRunner) -> list[str]:
    return [name for name, _ in runner.calls]


def test_run_without_names_plays_all_built_in_scenarios_on_sim(
    invoke: Invoke, runner: FakeRunner
) -> None:
    invoke("run")
    assert len(runner.calls) >= 40
    assert {options.target for _, options in runner.calls} == {"sim"}
    assert names(runner) == sorted(names(runner))


def test_run_prints_settings_results_and_summary(
    invoke: Invoke, runner: FakeRunner, folder: Path
) -> None:
    result = invoke("run", folder, "--seed", 7, "--schedules", 20, "--strategy", "random")
    version = result.stdout.split(":")[0]
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        f"{version}: 3 scenarios, target sim {version.split()[1]}, strategy random, 20 schedules,"
        " seed 7",
        "held       a-held  0.33.0  (20 schedules, 0.50 s)",
        "held       b-held  0.33.0  (20 schedules, 0.50 s)",
        "held       c-held  0.33.0  (20 schedules, 0.50 s)",
        "3 held, 0 violated, 0 not judged, 0 error; exit 0: no violation",
    ]


def many(write: Write, folder: Path, count: int) -> list[str]:
    """Scenarios that cannot be judged, besides the three that hold; their lines."""
    for number in range(count):
        write(folder, f"d{number:02}-nothing")
    return [f"not judged d{number:02}-nothing" for number in range(count)]


def lines_of(text: str, word: str = "not judged") -> list[str]:
    return [" ".join(line.split()[:3]) for line in text.splitlines() if line.startswith(word)]


def test_many_that_were_not_judged_are_told_together_and_counted(
    invoke: Invoke, write: Write, runner: FakeRunner, folder: Path, tmp_path: Path
) -> None:
    many(write, folder, 8)
    result = invoke("run", folder, "--json", tmp_path / "r.json")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-3:] == [
        "not judged 8, by reason (each by name: -v, or --json; where one can be played: wavecheck "
        "explain ID):",
        "         8 target lacks op.rank (ask for an explicit data-parallel rank)",
        "3 held, 0 violated, 8 not judged, 0 error; exit 0: no violation",
    ]
    assert len(result.stdout.splitlines()) == 7
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [one["reason"] for one in results[3:]] == ["target lacks op.rank"] * 8


@pytest.mark.parametrize(
    ("count", "words", "code"), [(7, (), 0), (8, ("-v",), 0), (8, ("--strict",), 1)]
)
def test_each_that_was_not_judged_has_its_line_where_they_are_few_asked_for_or_count(
    invoke: Invoke,
    write: Write,
    runner: FakeRunner,
    folder: Path,
    count: int,
    words: tuple[str, ...],
    code: int,
) -> None:
    each = many(write, folder, count)
    result = invoke("run", folder, *words)
    assert result.exit_code == code
    assert lines_of(result.stdout) == each
    assert result.stdout.count("target lacks op.rank") == count


def test_run_of_many_in_which_nothing_was_judged_keeps_its_exit_code(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    many(write, tmp_path, 12)
    result = invoke("run", tmp_path)
    assert result.exit_code == 4
    assert result.stdout.splitlines()[-1] == (
        "0 held, 0 violated, 12 not judged, 0 error; exit 4: nothing could be judged"
    )


def test_violation_is_shown_with_its_statement_and_replay_command(
    invoke: Invoke, write: Write, runner: FakeRunner, folder: Path
) -> None:
    result = invoke("run", write(folder, "x-violated"))
    assert result.exit_code == 1
    assert "violated[wave.never-rewinds]: went back\n" in result.stdout
    assert "  statement: For every engine," in result.stdout
    assert "  help:      wavecheck replay out/f.json\n" in result.stdout


def test_frontend_that_never_starts_ends_the_run_with_what_was_left(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    for name in ("a-nostart", "b-nothing", "c-nostart", "d-nostart", "e-held", "f-nostart"):
        write(tmp_path, name)
    result = invoke("run", tmp_path, "--json", tmp_path / "json")
    assert result.exit_code == 3
    assert names(runner) == ["a-nostart", "b-nothing", "c-nostart", "d-nostart"]
    assert result.stdout.count("error: no binary") == 1
    assert result.stdout.count("it did not start, as told above") == 2
    title = "error: the frontend never got ready in 3 starts, which failed alike\n"
    assert title in result.stdout
    assert "not run: 2 (e-held, f-nostart)" in result.stdout
    document = json.loads((tmp_path / "json").read_text())
    assert document["not_run"] == ["e-held", "f-nostart"]
    assert not any("start_failure" in one for one in document["results"])


def test_frontend_that_was_ready_once_is_not_given_up(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    for name in ("a-held", "b-nostart", "c-nostart", "d-nostart", "e-held"):
        write(tmp_path, name)
    assert invoke("run", tmp_path).exit_code == 3
    assert len(runner.calls) == 5


@pytest.mark.parametrize(
    ("files", "flags", "code"),
    [
        (["a-held"], [], 0),
        (["a-held", "b-violated"], [], 1),
        (["a-held", "b-error"], [], 3),
        (["a-violated", "b-error"], [], 1),
        (["a-nothing"], [], 4),
        (["a-held", "b-nothing"], [], 0),
        (["a-held", "b-nothing"], ["--strict"], 1),
        (["a-known"], [], 0),
        (["a-known"], ["--allow-known"], 0),
        (["a-blind"], [], 1),
        (["a-blind"], ["--allow-known"], 1),
        (["a-held", "b-interrupts", "c-held"], [], 130),
        (["a-held", "b-raises"], [], 3),
    ],
)
def test_exit_code_tells_what_happened(
    invoke: Invoke,
    write: Write,
    runner: FakeRunner,
    tmp_path: Path,
    files: list[str],
    flags: list[str],
    code: int,
) -> None:
    result = invoke("run", *[write(tmp_path, name) for name in files], *flags)
    assert result.exit_code == code
    assert f"exit {code}: " in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("name", "flags", "code"),
    [
        ("a-known", [], 1),
        ("a-known", ["--allow-known"], 0),
        ("a-blind", [], 0),
        ("a-blind", ["--allow-known"], 1),
    ],
)
def test_known_faults_of_others_pass_only_where_that_is_asked_for(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, name: str, flags: list[str], code: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(run_plan, "OURS", ())
    write(tmp_path, name)
    assert invoke("run", tmp_path, *flags).exit_code == code


def test_broken_runner_is_one_line_and_no_traceback(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    result = invoke("run", write(tmp_path, "x-raises"))
    assert "error: RuntimeError: the runner broke (at conftest.py:" in result.output
    assert "Traceback" not in result.output


def test_interruption_writes_the_results_so_far(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    files = [write(tmp_path, name) for name in ("a-held", "b-interrupts", "c-held")]
    report = tmp_path / "r.json"
    result = invoke("run", *files, "--json", report)
    assert result.exit_code == 130
    document = json.loads(report.read_text())
    assert [r["scenario"] for r in document["results"]] == ["a-held"]
    assert document["not_run"] == ["b-interrupts", "c-held"]
    assert document["summary"]["exit"] == 130
    assert "not run: 2 (b-interrupts, c-held)\n" in result.stdout


def test_what_x_leaves_out_is_listed_and_a_whole_run_leaves_out_nothing(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    files = [write(tmp_path, name) for name in ("a-held", "b-violated", "c-held")]
    report = tmp_path / "r.json"
    invoke("run", "-x", *files, "--json", report)
    assert json.loads(report.read_text())["not_run"] == ["c-held"]
    assert "not run" not in invoke("run", *files, "--json", report).stdout
    assert json.loads(report.read_text())["not_run"] == []


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("option", ["--json", "--junit"])
def test_report_that_finds_no_room_is_named_after_the_summary_which_says_the_same_code(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path, option: str
) -> None:
    result = invoke("run", write(tmp_path, "a-violated"), option, FULL, "--out", tmp_path / "out")
    assert result.exit_code == 3
    assert result.stdout.splitlines()[-1].startswith(
        "0 held, 1 violated, 0 not judged, 0 error; exit 3: "
    )
    assert result.stderr == "error: cannot write /dev/full: No space left on device\n"


def test_json_says_the_code_of_a_run_whose_other_report_finds_no_room(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path, no_room: NoRoom
) -> None:
    report, junit = tmp_path / "r.json", tmp_path / "r.xml"
    no_room.for_file(junit)
    result = invoke("run", write(tmp_path, "a-held"), "--json", report, "--junit", junit)
    assert (result.exit_code, json.loads(report.read_text())["summary"]["exit"]) == (3, 3)
    assert f"error: cannot write {junit}: No space left on device" in result.stderr


def test_list_for_last_failed_that_finds_no_room_is_named(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path, no_room: NoRoom
) -> None:
    out = tmp_path / "out"
    no_room.for_file(out / "last-failed.json")
    result = invoke("run", write(tmp_path, "a-violated"), "--out", out)
    assert result.exit_code == 3
    assert "1 violated, 0 not judged, 0 error; exit 3" in result.stdout
    assert f"{out / 'last-failed.json'}: No space left on device" in result.stderr
    assert list(out.iterdir()) == []


def test_interrupted_run_whose_report_finds_no_room_stays_interrupted(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path, no_room: NoRoom
) -> None:
    no_room.for_file(tmp_path / "r.json")
    result = invoke("run", write(tmp_path, "b-interrupts"), "--json", tmp_path / "r.json")
    assert result.exit_code == 130
    assert f"cannot write {tmp_path / 'r.json'}" in result.stderr


@pytest.mark.parametrize(
    "words", [("run",), ("matrix",), ("bisect", "waves/stale-first-request")], ids=lambda w: w[0]
)
def test_output_folder_without_a_name_is_refused(
    invoke: Invoke, runner: FakeRunner, words: tuple[str, ...]
) -> None:
    result = invoke(*words, "--out", "")
    assert result.exit_code == 2
    assert "--out: the name of the folder is empty" in result.stderr
    assert "the name of a folder; . is the current one" in result.stderr


@pytest.mark.parametrize("stop", ["violated", "error"])
def test_x_stops_at_the_first_violation_or_error(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path, stop: str
) -> None:
    files = [write(tmp_path, name) for name in ("a-held", f"b-{stop}", "c-held")]
    invoke("run", "-x", *files)
    assert names(runner) == ["a-held", f"b-{stop}"]


def test_x_does_not_stop_at_what_does_not_count(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    files = [write(tmp_path, name) for name in ("a-known", "b-nothing", "c-held")]
    invoke("run", "-x", "--allow-known", *files)
    assert names(runner) == ["a-known", "b-nothing", "c-held"]


def test_k_selects_by_id_and_title(
    invoke: Invoke, write: Write, runner: FakeRunner, folder: Path
) -> None:
    write(folder, "d-held", title="Something B-HELD")
    invoke("run", folder, "-k", "b-Held")
    assert names(runner) == ["b-held", "d-held"]


def test_k_that_matches_nothing_is_a_usage_error(
    invoke: Invoke, runner: FakeRunner, folder: Path
) -> None:
    result = invoke("run", folder, "-k", "zzz")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "",
        "error: none of 3 scenarios has 'zzz' in its id or title\n"
        "  help:      see `wavecheck list scenarios`\n",
    )


def test_profile_is_passed_on(invoke: Invoke, runner: FakeRunner, folder: Path) -> None:
    invoke("run", folder, "--profile", "0.25.0")
    assert [options.profile for _, options in runner.calls] == ["0.25.0"] * 3


def test_profile_all_gives_a_result_for_each_release_that_applies(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    some = write(tmp_path, "a-held", more="profiles: '>=0.24,<0.26'\n")
    every = write(tmp_path, "b-held")
    invoke("run", some, every, "--profile", "all")
    found = [(name, options.profile) for name, options in runner.calls]
    assert found == [("a-held", r) for r in ("0.24.0", "0.25.0", "0.25.1")] + [
        ("b-held", release) for release in RELEASES
    ]


def test_options_reach_the_runner(
    invoke: Invoke, runner: FakeRunner, folder: Path, tmp_path: Path
) -> None:
    invoke(
        "run", folder / "a-held.yaml", "--target", "zmq", "--mutant", "coordinator-rewinds",
        "--timeout", 9.5, "--allow-known", "--strict", "--out", tmp_path / "out",
    )  # fmt: skip
    ((_, options),) = runner.calls
    assert (options.target, options.mutant, options.timeout_s) == (
        "zmq",
        "coordinator-rewinds",
        9.5,
    )
    assert (options.allow_known, options.strict, options.out) == (True, True, tmp_path / "out")


def test_json_on_standard_output_is_alone_there(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    result = invoke("run", write(tmp_path, "x-violated"), "--json", "-")
    document = json.loads(result.stdout)
    assert document["target"]["kind"] == "sim"
    assert "see.wire" in document["target"]["capabilities"]
    assert [r["status"] for r in document["results"]] == ["violated"]
    assert document["summary"]["exit"] == result.exit_code == 1
    assert "violated[wave.never-rewinds]" in result.stderr


def test_junit_file_is_written(
    invoke: Invoke, write: Write, runner: FakeRunner, tmp_path: Path
) -> None:
    files = [write(tmp_path, name) for name in ("a-held", "b-violated", "c-error", "d-nothing")]
    report = tmp_path / "junit.xml"
    invoke("run", *files, "--junit", report)
    suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    found = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert found == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--strategy", "fif"],
            "error: unknown strategy 'fif'\n  expected:  one of ",
        ),
        (
            ["--mutant", "x"],
            "error: unknown mutant 'x'\n  expected:  one of abort-names-one-of-many, ",
        ),
        (
            ["--profile", "0.34.0"],
            "error: unknown release '0.34.0'\n"
            f"  expected:  one of {', '.join(RELEASES)}, all\n"
            "  help:      did you mean '0.33.0'?\n",
        ),
        (["--target", "sima"], "Usage: wavecheck run [OPTIONS] [PATH|ID]...\n"),
        (["--schedules", "0"], "Usage: wavecheck run [OPTIONS] [PATH|ID]...\n"),
        (["--jobs", "0"], "Usage: wavecheck run [OPTIONS] [PATH|ID]...\n"),
        (["--timeout", "0"], "Usage: wavecheck run [OPTIONS] [PATH|ID]...\n"),
        (["--seed", "-1"], "Usage: wavecheck run [OPTIONS] [PATH|ID]...\n"),
        (["--bogus"], "Usage: wavecheck run [OPTIONS] [PATH|ID]...\n"),
        (
            ["--frontend", "0.33.0"],
            "error: --frontend does not go with --target sim\n"
            "  help:      the reference client speaks every release: use --profile, or --target"
            " vllm-rs\n",
        ),
        (["--json", "/none/x"], "error: --json: there is no folder /none\n"),
        (["--json", "/"], "error: --json: / is a folder\n  expected:  the name of a file\n"),
        (["--junit", "/none/x"], "error: --junit: there is no folder /none\n"),
        (["--junit", "-"], "error: --junit takes the name of a file, not standard output\n"),
        (["waves/stale-first-reqest"], "error: no scenario, chapter, file or folder is called"),
        (["none.yaml"], "error: no such file: none.yaml\n"),
    ],
)
def test_wrong_use_ends_with_2_before_anything_runs(
    invoke: Invoke, runner: FakeRunner, words: list[str], message: str
) -> None:
    result = invoke("run", *words)
    assert (result.exit_code, result.stdout, runner.calls) == (2, "", [])
    assert result.stderr.startswith(message)


def test_unknown_target_lists_the_choices(invoke: Invoke) -> None:
    result = invoke("run", "--target", "sima")
    assert "'sima' is not one of 'sim', 'zmq', 'vllm-rs'" in result.stderr


def test_invalid_files_are_all_reported_and_nothing_runs(
    invoke: Invoke, runner: FakeRunner, folder: Path
) -> None:
    for name in ("x", "y"):
        (folder / f"{name}.yaml").write_text("title: 1\n")
    result = invoke("run", folder)
    assert (result.exit_code, result.stdout, runner.calls) == (2, "", [])
    assert f"{folder / 'x.yaml'}:1:1" in result.stderr
    assert f"{folder / 'y.yaml'}:1:1" in result.stderr


class BlackBox:
    """A target that judges a separate frontend."""

    black_box = True
    info = TargetInfo("vllm-rs", "0.33.0", frozenset(), notes=("it says that it is 0.33.1",))

    def profile(self, _asked: str | None) -> None:
        """It fixes none."""


def test_what_is_uncertain_about_a_real_frontend_is_told(
    invoke: Invoke, runner: FakeRunner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cmd, "open_target", lambda *_: BlackBox())
    result = invoke("run", folder, "--target", "vllm-rs")
    assert (result.exit_code, len(runner.calls)) == (0, 3)
    assert "note: it says that it is 0.33.1\n" in result.stdout


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (
            ["--mutant", "coordinator-rewinds"],
            "--mutant coordinator-rewinds does not go with the real frontend",
        ),
        (["--profile", "all"], "--profile all does not go with --target vllm-rs"),
    ],
)
def test_flags_that_a_real_frontend_cannot_serve_are_refused_before_it_is_opened(
    invoke: Invoke,
    runner: FakeRunner,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    title: str,
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(run_cmd, "open_target", lambda *words: opened.append(words))
    result = invoke("run", folder, "--target", "vllm-rs", *words)
    assert opened == []
    assert (result.exit_code, runner.calls) == (2, [])
    assert result.stderr.startswith(f"error: {title}\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [(TargetError("pip failed"), 3), (ValueError("unknown frontend release '9'"), 2)],
)
def test_target_that_cannot_be_had_ends_with_its_own_code(
    invoke: Invoke,
    runner: FakeRunner,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    code: int,
) -> None:
    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(run_cmd, "open_target", refuse)
    result = invoke("run", folder, "--target", "vllm-rs", "--frontend", "9", "--json", "-")
    assert (result.exit_code, runner.calls) == (code, [])
    assert result.stderr == f"error: {error}\n"
    if code == 3:
        assert json.loads(result.stdout)["summary"]["exit"] == 3


# --- flags that cannot be ---------------------------------------------------------------------


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300", "0", "-1"])
def test_time_limit_must_be_a_number_of_seconds(
    invoke: Invoke, runner: FakeRunner, seconds: str
) -> None:
    result = invoke("run", "--timeout", seconds)
    assert result.exit_code == 2
    assert "Invalid value for '--timeout'" in result.stderr
    assert runner.calls == []


@pytest.mark.parametrize("below", ["", "sub"])
def test_out_that_is_no_folder_is_refused_before_anything_runs(
    invoke: Invoke, runner: FakeRunner, tmp_path: Path, below: str
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = invoke("run", "--out", file / below if below else file)
    assert result.exit_code == 2
    assert "--out" in result.stderr
    assert runner.calls == []


def test_out_need_not_exist_yet(invoke: Invoke, runner: FakeRunner, tmp_path: Path) -> None:
    assert invoke("run", "waves", "--out", tmp_path / "a" / "b").exit_code == 0
    assert not (tmp_path / "a").exists()


def test_two_reports_in_one_file_are_refused(
    invoke: Invoke, runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("run", "--json", "r", "--junit", tmp_path / "r")
    assert result.exit_code == 2
    assert "error: --json and --junit name the same file" in result.stderr
    assert runner.calls == []


def test_report_without_a_name_is_refused(invoke: Invoke, runner: FakeRunner) -> None:
    result = invoke("run", "--json", "")
    assert result.exit_code == 2
    assert "--json: the name of the file is empty" in result.stderr


def test_mutant_of_a_real_frontend_is_refused_before_anything_is_fetched(
    invoke: Invoke, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(run_cmd, "open_target", lambda *words: opened.append(words))
    result = invoke("run", "--target", "vllm-rs", "--mutant", "rank-truncated")
    assert (result.exit_code, opened) == (2, [])
    assert "--mutant rank-truncated does not go with the real frontend" in result.stderr


def test_chapter_that_a_folder_here_is_called_too_is_told(
    invoke: Invoke, runner: FakeRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "waves").mkdir()
    monkeypatch.chdir(tmp_path)
    result = invoke("run", "waves")
    assert result.stderr == ("note: 'waves' is the built-in one; write ./waves for the path here\n")
    assert all(name.startswith("waves/") for name in names(runner))
