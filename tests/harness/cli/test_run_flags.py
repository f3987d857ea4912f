"""`wavecheck run` for developers of a frontend: parts, repeats, and how a frontend is started."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.protocol.profiles import Profile
from harness.cli import run_cmd
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
from harness.targets.base import TargetInfo
from harness.targets.request import TargetRequest

if TYPE_CHECKING:
    from tests.harness.cli.conftest import FakeRunner, Invoke, Write


class Opened:
    """A target of any kind, and what it was asked for."""

    black_box = True
    info = TargetInfo("vllm-rs", "0.33.0", frozenset())

    def __init__(self) -> None:
        self.requests: list[TargetRequest] = []

    def profile(self, asked: str | None) -> Profile | None:
        del asked

    def __call__(self, request: TargetRequest) -> Opened:
        self.requests.append(request)
        return self


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    found = Opened()
    monkeypatch.setattr(run_cmd, "open_target", found)
    return found


def ids(runner: FakeRunner) -> list[str]:
    return [name for name, _ in runner.calls]


# --- how a frontend is started ----------------------------------------------------------------


def test_arguments_and_environment_reach_the_target_and_every_run(
    invoke: Invoke, runner: FakeRunner, opened: Opened, folder: Path
) -> None:
    words = ["--frontend-arg=--flag", "--frontend-arg", "two words", "--frontend-env", "A=b=c"]
    words += ["--frontend-env", "B="]
    result = invoke("run", folder, "--target", "vllm-rs", "--frontend", "0.33.0", *words)
    assert result.exit_code == 0
    (request,) = opened.requests
    assert request.arguments == ("--flag", "two words")
    assert request.environment == (("A", "b=c"), ("B", ""))
    assert {options.request for _, options in runner.calls} == {request}
    assert "frontend-arg --flag, frontend-arg 'two words', frontend-env A," in result.stdout


def test_file_is_named_by_its_whole_path_so_that_a_replay_finds_it(
    invoke: Invoke, runner: FakeRunner, opened: Opened, folder: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "vllm-rs").write_text("")
    monkeypatch.chdir(tmp_path)
    for name in ("vllm-rs", "./vllm-rs"):
        words = ["--target", "vllm-rs", "--frontend", name, "--as-release", "0.28.0"]
        assert invoke("run", folder, *words).exit_code == 0
    for request in opened.requests:
        assert request.frontend == os.path.join(os.getcwd(), "vllm-rs")
        assert request.profile == "0.28.0"


def test_attach_is_passed_on(
    invoke: Invoke, runner: FakeRunner, opened: Opened, folder: Path
) -> None:
    address = "http://127.0.0.1:8000"
    words = ["--target", "vllm-rs", "--attach", address, "--as-release", "0.30.0"]
    result = invoke("run", folder, *words)
    assert (result.exit_code, opened.requests[0].attach) == (0, address)
    assert opened.requests[0].profile == "0.30.0"
    assert f"attached to {address}" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frontend-arg", "x"], "--frontend-arg does not go with --target sim"),
        (["--frontend-env", "A=b"], "--frontend-env does not go with --target sim"),
        (["--attach", "x"], "--attach does not go with --target sim"),
        (["--as-release", "0.28.0"], "--as-release does not go with --target sim"),
        (["--target", "vllm-rs", "--attach", "x", "--frontend-arg", "y"],
         "--attach does not go with --frontend-arg or --frontend-env"),
        (["--target", "vllm-rs", "--frontend", "0.33.0", "--as-release", "0.33.0"],
         "--as-release is for a frontend that is a file"),
        (["--target", "vllm-rs", "--frontend", "./x", "--as-release", "0.1"],
         "unknown release '0.1'"),
        (["--target", "vllm-rs", "--frontend", "./x", "--as-release", "0.28.0", "--profile",
          "0.29.0"], "--as-release 0.28.0 contradicts --profile 0.29.0"),
        (["--adapter", "cat"], "--adapter does not go with --target sim"),
        (["--frontend-env", "nothing"], "'nothing' is not NAME=VALUE"),
        (["--target", "vllm-rs", "--frontend", "0.33.0", "--mutant", "coordinator-rewinds"],
         "--mutant coordinator-rewinds does not go with the real frontend 0.33.0"),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together_are_refused_before_a_target_is_opened(
    invoke: Invoke, runner: FakeRunner, opened: Opened, folder: Path, words: Sequence[str],
    message: str,
) -> None:  # fmt: skip
    result = invoke("run", folder, *words)
    assert (result.exit_code, opened.requests, runner.calls) == (2, [], [])
    assert message in result.stderr


@pytest.mark.parametrize("frontend", ["reference", "reference:0.28.0"])
def test_mutant_goes_with_the_reference_frontend(
    invoke: Invoke, runner: FakeRunner, opened: Opened, folder: Path, frontend: str
) -> None:
    words = ["--target", "vllm-rs", "--frontend", frontend, "--mutant", "coordinator-rewinds"]
    assert invoke("run", folder, *words).exit_code == 0
    assert opened.requests[0].frontend == frontend
    assert opened.requests[0].mutant == "coordinator-rewinds"


def test_adapter_is_passed_on(
    invoke: Invoke, runner: FakeRunner, opened: Opened, folder: Path
) -> None:
    result = invoke("run", folder, "--target", "adapter", "--adapter", "my adapter --x")
    assert (result.exit_code, opened.requests[0].adapter) == (0, "my adapter --x")
    assert {options.adapter for _, options in runner.calls} == {"my adapter --x"}


# --- parts ------------------------------------------------------------------------------------


def test_shards_together_play_everything_once(invoke: Invoke, runner: FakeRunner) -> None:
    invoke("run")
    everything = ids(runner)
    runner.calls.clear()
    for shard in range(1, 5):
        invoke("run", "--shard", f"{shard}/4")
    assert sorted(ids(runner)) == sorted(everything)


def test_empty_shard_is_said(invoke: Invoke, runner: FakeRunner, folder: Path) -> None:
    codes = [invoke("run", folder / "a-held.yaml", "--shard", f"{n}/9") for n in range(1, 10)]
    assert sorted(result.exit_code for result in codes) == [0, *[2] * 8]
    assert any("none of 1 scenario is in shard" in result.stderr for result in codes)


def test_quick_leaves_out_what_waits_and_races(
    invoke: Invoke, runner: FakeRunner, write: Write, folder: Path
) -> None:
    write(folder, "d-race", more="trials: {miss: 0.5}\n")
    write(folder, "e-slow", more="topology: {config: {ready_timeout_s: 3}}\n")
    assert invoke("run", folder, "--quick").exit_code == 0
    assert ids(runner) == ["a-held", "b-held", "c-held"]


def test_last_failed_plays_what_failed_until_nothing_does(
    invoke: Invoke, runner: FakeRunner, write: Write, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    files = [write(folder, name) for name in ("x-violated", "y-error")]
    assert invoke("run", folder, "--out", out).exit_code == 1
    runner.calls.clear()
    assert invoke("run", "--last-failed", "--out", out).exit_code == 1
    assert ids(runner) == ["x-violated", "y-error"]
    runner.calls.clear()
    invoke("run", folder / "y-error.yaml", "--last-failed", "--out", out)
    assert ids(runner) == ["y-error"]
    # What failed is mended; then there is nothing to play.
    for file in files:
        file.unlink()
    assert invoke("run", folder, "--out", out).exit_code == 0
    result = invoke("run", "--last-failed", "--out", out)
    assert result.exit_code == 2
    assert f"nothing failed in the last run with output in {out}, or there was none" in (
        result.stderr
    )


def test_last_failed_among_scenarios_that_did_not_fail_is_said(
    invoke: Invoke, runner: FakeRunner, write: Write, folder: Path, tmp_path: Path
) -> None:
    write(folder, "x-violated")
    invoke("run", folder, "--out", tmp_path)
    result = invoke("run", folder / "a-held.yaml", "--last-failed", "--out", tmp_path)
    assert (result.exit_code, "none of 1 scenario failed in the last run" in result.stderr) == (
        2, True,
    )  # fmt: skip


def test_interrupted_run_forgets_no_failure(
    invoke: Invoke, runner: FakeRunner, write: Write, folder: Path, tmp_path: Path
) -> None:
    failing = write(folder, "x-violated")
    invoke("run", failing, "--out", tmp_path)
    assert invoke("run", write(folder, "y-interrupts"), "--out", tmp_path).exit_code == 130
    runner.calls.clear()
    invoke("run", "--last-failed", "--out", tmp_path)
    assert ids(runner) == ["x-violated"]


@pytest.mark.parametrize("text", ["[]", "{", '{"failed": [{"scenario": "a"}]}'])
def test_damaged_memory_is_told(
    invoke: Invoke, runner: FakeRunner, tmp_path: Path, text: str
) -> None:
    (tmp_path / "last-failed.json").write_text(text)
    result = invoke("run", "--last-failed", "--out", tmp_path)
    assert (result.exit_code, runner.calls) == (2, [])
    assert "cannot read what failed in the last run from" in result.stderr


# --- repeats ----------------------------------------------------------------------------------


class Flipping:
    """Plays nothing; every scenario is violated the second time."""

    def __init__(self, runner: FakeRunner) -> None:
        self._runner = runner

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        result = self._runner(loaded, options)
        if len(self._runner.calls) % 3 != 2:
            return result
        broken = [replace(v, verdict="violated", message="went back") for v in result.verdicts]
        return replace(result, status="violated", verdicts=tuple(broken))


def report_of(result: Any, path: Path) -> Any:
    document = json.loads(path.read_text())
    return result.exit_code, document["results"][0], document["summary"]


def test_repeats_that_agree_are_one_result(
    invoke: Invoke, runner: FakeRunner, folder: Path, tmp_path: Path
) -> None:
    report = tmp_path / "r.json"
    result = invoke("run", folder / "a-held.yaml", "--repeat", 3, "--json", report)
    code, found, summary = report_of(result, report)
    assert (code, len(runner.calls)) == (0, 3)
    assert (found["status"], found["repeats"]) == ("held", ["held"] * 3)
    assert (summary["held"], summary["unstable"]) == (1, 0)
    assert "(3 repeats, 3 schedules, 1.50 s)" in result.stdout


def test_repeats_that_differ_are_unstable_and_end_with_1(
    invoke: Invoke, runner: FakeRunner, folder: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(run_cmd, "run_scenario", Flipping(runner))
    report, xml = tmp_path / "r.json", tmp_path / "r.xml"
    words = ["--repeat", 3, "--json", report, "--junit", xml, "--out", tmp_path]
    result = invoke("run", folder / "a-held.yaml", *words)
    code, found, summary = report_of(result, report)
    assert (code, found["status"]) == (1, "unstable")
    assert found["repeats"] == ["held", "violated", "held"]
    assert (summary["unstable"], summary["held"], summary["violated"]) == (1, 0, 0)
    lines = result.stdout.splitlines()
    assert lines[1].startswith("unstable   a-held")
    assert lines[2].strip() == "repeats differ: 2 held, 1 violated"
    assert "violated[wave.never-rewinds]: went back" in lines
    assert lines[-1].endswith("0 error, 1 unstable; exit 1: 1 unstable")
    assert 'type="unstable"' in xml.read_text()
    runner.calls.clear()
    monkeypatch.setattr(run_cmd, "run_scenario", runner)
    invoke("run", "--last-failed", "--out", tmp_path)
    assert ids(runner) == ["a-held"]


def test_error_ends_the_repeats_of_its_scenario(
    invoke: Invoke, runner: FakeRunner, write: Write, folder: Path
) -> None:
    result = invoke("run", write(folder, "x-raises"), "--repeat", 5)
    assert (result.exit_code, len(runner.calls)) == (3, 1)


def test_time_limit_is_for_each_repeat(invoke: Invoke, runner: FakeRunner, folder: Path) -> None:
    invoke("run", folder / "a-held.yaml", "--repeat", 2, "--timeout", 7)
    assert [options.timeout_s for _, options in runner.calls] == [7, 7]
