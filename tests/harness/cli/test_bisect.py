"""`wavecheck bisect`: what it plays, says and ends with; the runner is a fake."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.protocol.profiles import RELEASES
from harness.cli import bisect_cmd
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

NAMES = ("wave.never-rewinds", "request.add-once")


@dataclass
class FakeReleases:
    """What each release comes to: a status, or the invariants that it breaks."""

    outcomes: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    trials: int = 1
    played: list[str] = field(default_factory=list)
    options: list[RunOptions] = field(default_factory=list)

    def fixed_in(self, release: str) -> None:
        """Every release before ``release`` breaks the first invariant."""
        self.outcomes = {
            name: NAMES[:1] for name in RELEASES if RELEASES.index(name) < RELEASES.index(release)
        }

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        release = str(options.frontend)
        self.played.append(release)
        self.options.append(options)
        outcome = self.outcomes.get(release, "held")
        broken = outcome if isinstance(outcome, tuple) else ()
        status = "violated" if broken else outcome
        assert isinstance(status, str)
        static = status == "not_judged"
        steps = "violated" if "expectation" in broken else "held"
        return ScenarioResult(
            scenario=loaded.id,
            title="t",
            refs=(),
            profile=release,
            mutant=None,
            status=status,
            error="no binary" if status == "error" else None,
            reason="target lacks op.rank" if static else None,
            expectations=() if static else (ExpectationResult(0, steps, "x", "y"),),
            verdicts=()
            if static
            else tuple(
                VerdictResult(name, "must", "violated" if name in broken else "held")
                for name in NAMES
            ),
            trials=0 if static else self.trials,
            failure_file="out/f.json" if broken else None,
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeReleases:
    found = FakeReleases()
    monkeypatch.setattr(bisect_cmd, "run_scenario", found)
    return found


@pytest.fixture
def bisect(invoke: Invoke, folder: Path, tmp_path: Path) -> Callable[..., tuple[int, Any, Any]]:
    def call(*words: object, name: object = None) -> tuple[int, Any, Any]:
        report = tmp_path / "b.json"
        result = invoke("bisect", name or folder / "a-held.yaml", "--json", report, *words)
        document = json.loads(report.read_text()) if report.exists() else None
        return result.exit_code, document, result

    return call


def test_first_good_release_is_found_in_6_starts_with_both_ends_played(bisect, fake) -> None:
    fake.fixed_in("0.29.0")
    code, document, result = bisect()
    assert code == 0
    assert fake.played[:2] == ["0.22.0", "0.33.0"]
    assert len(fake.played) <= 6
    assert {key: document[key] for key in (
        "direction", "first_good", "last_bad", "first_bad", "last_good", "exact", "starts", "exit",
    )} == {
        "direction": "fixed", "first_good": "0.29.0", "last_bad": "0.28.0", "first_bad": None,
        "last_good": None, "exact": True, "starts": 6, "exit": 0,
    }  # fmt: skip
    assert result.stdout.splitlines()[-2:] == [
        "first good release: 0.29.0 (last bad one: 0.28.0); 6 starts of a frontend",
        "what is bad there: wavecheck replay out/f.json",
    ]
    assert [one["release"] for one in document["tried"]] == fake.played


def test_interrupted_bisect_says_what_was_tried(bisect, fake, monkeypatch) -> None:
    def interrupted(loaded, options):
        if fake.played:
            raise KeyboardInterrupt
        return fake(loaded, options)

    monkeypatch.setattr(bisect_cmd, "run_scenario", interrupted)
    code, document, result = bisect()
    assert (code, document["exit"]) == (130, 130)
    assert [one["release"] for one in document["tried"]] == ["0.22.0"]
    assert document["error"] == "interrupted before the release was found"
    assert "interrupted before the release was found" in result.stderr


def test_first_bad_release_is_found_too(bisect, fake) -> None:
    fake.outcomes = dict.fromkeys(RELEASES[9:], NAMES[:1])
    code, document, result = bisect("--good", "0.22.0")
    assert (code, document["first_bad"], document["last_good"]) == (0, "0.28.0", "0.27.1")
    assert document["direction"] == "broken"
    assert "first bad release: 0.28.0 (last good one: 0.27.1)" in result.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "0.22.0 and 0.33.0 are both good: there is nothing to bisect"),
        (["--bad", "0.30.0"], "--bad 0.30.0: this release is good"),
    ],
)
def test_inconsistent_ends_are_2_and_say_what_to_do(bisect, fake, words, message) -> None:
    code, document, result = bisect(*words)
    assert (code, document["exit"], document["error"]) == (2, 2, message)
    assert result.stderr.startswith(f"error: {message}\n  --> a-held\n")
    assert "--good and --bad" in result.stderr


def test_release_in_error_is_3_and_names_it(bisect, fake) -> None:
    fake.fixed_in("0.29.0")
    fake.outcomes["0.27.0"] = "error"
    code, document, result = bisect()
    assert (code, document["exit"]) == (3, 3)
    assert "error: 0.27.0: no binary\n" in result.stderr


def test_answer_with_a_gap_names_it_and_is_4(bisect, fake) -> None:
    fake.fixed_in("0.29.0")
    fake.outcomes["0.28.0"] = "not_judged"
    code, document, result = bisect()
    assert (code, document["exact"], document["between"]) == (4, False, ["0.28.0"])
    assert "or one that does not judge it: 0.28.0" in result.stdout
    assert "not judged 0.28.0   target lacks op.rank\n" in result.stdout
    assert document["starts"] == len(fake.played) - 1


def test_release_that_a_scenario_is_not_about_is_not_even_opened(
    bisect, fake, write, folder
) -> None:
    fake.fixed_in("0.29.0")
    file = write(folder, "some", more='profiles: ">=0.24"\n')
    code, document, _ = bisect(name=file)
    assert (code, document["first_good"]) == (0, "0.29.0")
    assert not {"0.22.0", "0.22.1", "0.23.0"} & set(fake.played)
    assert document["tried"][0]["outcome"] == "not_judged"


def test_one_invariant_can_be_looked_at_alone(bisect, fake) -> None:
    fake.outcomes = {
        release: NAMES[:1] if number < 4 else NAMES[1:]
        for number, release in enumerate(RELEASES[:-1])
    }
    _, document, result = bisect()
    assert document["first_good"] == "0.33.0"
    assert "note: releases are bad for different reasons: request.add-once, " in result.stdout
    fake.played.clear()
    code, document, result = bisect("--invariant", NAMES[0])
    assert (code, document["first_good"], document["invariant"]) == (0, "0.25.0", NAMES[0])
    assert "different reasons" not in result.stdout


def test_expectation_can_be_looked_at_alone(bisect, fake) -> None:
    fake.outcomes = dict.fromkeys(RELEASES[:3], ("expectation",))
    code, document, _ = bisect("--invariant", "expectation")
    assert (code, document["first_good"]) == (0, "0.24.0")


def test_race_says_in_how_many_trials_it_was_not_seen(bisect, fake) -> None:
    fake.fixed_in("0.29.0")
    fake.trials = 7
    _, document, result = bisect()
    assert "good       0.33.0   (not seen in 7 trials)\n" in result.stdout
    assert document["starts"] == 42


def test_flags_reach_every_start(bisect, fake, tmp_path) -> None:
    fake.fixed_in("0.29.0")
    words: Mapping[str, object] = {
        "--frontend-arg": "x", "--frontend-env": "A=b", "--timeout": 9, "--out": tmp_path / "o",
    }  # fmt: skip
    bisect(*(part for pair in words.items() for part in pair))
    for options in fake.options:
        assert (options.frontend_args, options.frontend_env) == (("x",), (("A", "b"),))
        assert (options.timeout_s, options.out, options.target) == (9, tmp_path / "o", "vllm-rs")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--good", "0.99.0"], "unknown --good release '0.99.0'"),
        (["--bad", "newest"], "unknown --bad release 'newest'"),
        (["--invariant", "wave.never"], "unknown invariant 'wave.never'"),
        (["--good", "0.28.0", "--bad", "0.28.0"], "0.28.0 cannot be both"),
    ],
)
def test_wrong_use_ends_with_2_before_anything_runs(bisect, fake, words, message) -> None:
    code, _, result = bisect(*words)
    assert (code, fake.played) == (2, [])
    assert message in result.stderr


def test_several_scenarios_are_refused(bisect, fake, folder) -> None:
    code, _, result = bisect(name=folder)
    assert (code, fake.played) == (2, [])
    assert "is 3 scenarios; bisect takes one" in result.stderr
