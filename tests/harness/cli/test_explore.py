"""`wavecheck explore`: flags, exit codes, reports and files; the hunt is real but short, or a fake."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import explore_cmd
from harness.generate import shares
from harness.generate.hunt import Found, Tally
from harness.generate.shares import ShareResult
from harness.generate.trial import Evidence
from harness.replay import ReplayKind, replay
from harness.results import VerdictResult
from harness.scenario.loader import load
from harness.scenario.model import Scenario
from harness.targets.base import TargetError

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

MUTANT = "abort-to-every-engine"
BROKEN = "request.abort-only-to-owner"
DATA = {
    "title": "t",
    "promise": "p",
    "refs": ["vllm#1"],
    "topology": {"engines": 2},
    "steps": [{"call": {"id": "c1"}}, {"fence": True}],
}


def found(violated: str = BROKEN) -> Found:
    verdict = VerdictResult(violated, "must", "violated", message="two engines were told")
    evidence = Evidence("0.33.0", (verdict,), (), ("#3 an ABORT",))
    scenario = Scenario.model_validate(DATA)
    return Found(DATA, scenario, violated, 7, 0, "two engines were told", evidence)


@pytest.fixture
def share(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let each share come to this."""

    def set_to(*finds: Found, hopeless: str = "", **tally: Any) -> None:
        done = Tally(scenarios=4, schedules=9, batches=1)
        for name, value in tally.items():
            getattr(done, name).update(value)

        def play(self: shares.Share, loaded: Any, options: Any) -> ShareResult:
            return ShareResult(
                scenario=loaded.id,
                title="t",
                refs=("vllm#1",),
                profile="",
                mutant=options.mutant,
                status="held",
                found=finds,
                tally=done,
                hopeless=hopeless,
            )

        monkeypatch.setattr(shares.Share, "__call__", play)

    return set_to


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# --- found, and not found -------------------------------------------------------------------


def test_explore_finds_a_mutant_and_leaves_a_scenario_and_a_failure_file(
    invoke: Invoke, here: Path
) -> None:
    result = invoke(
        *("explore", "--mutant", MUTANT, "--seed", 1, "--budget", "60s", "--shrink", "10s"),
        *("--json", "found.json"),
    )
    assert result.exit_code == 1
    document = json.loads((here / "found.json").read_text())
    (one,) = document["found"]
    assert one["violated"] == BROKEN
    assert document["exit"] == 1
    assert document["scenarios"] > 0
    assert load(Path(one["scenario_file"])).scenario.invariants == [BROKEN]
    assert replay(Path(one["failure_file"])).kind is ReplayKind.REPRODUCED
    assert Path(one["scenario_file"]).parent == Path("wavecheck-out/explore")
    assert f"violated[{BROKEN}]" in result.stdout
    assert f"help:      wavecheck replay {one['failure_file']}" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("; exit 1: 1 broken promise found")
    assert {path.name for path in here.iterdir()} == {"found.json", "wavecheck-out"}


def test_explore_that_finds_nothing_ends_with_zero_and_says_how_much_was_played(
    invoke: Invoke, here: Path
) -> None:
    result = invoke("explore", "--budget", "1s", "--seed", 3, "--json", "-")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["found"] == []
    assert document["schedules"] >= document["scenarios"] > 0
    assert document["invariants"]
    last = result.stderr.splitlines()[-1]
    assert f"{document['scenarios']} scenarios" in last
    assert last.endswith("exit 0: nothing found within the budget")
    assert list(here.iterdir()) == []


def test_worker_processes_find_the_same_as_one(invoke: Invoke, here: Path) -> None:
    documents = []
    for jobs in (1, 2):
        words = ("explore", "--mutant", MUTANT, "--seed", 1, "--shrink", "1s", "--json", "f.json")
        assert invoke(*words, "--jobs", jobs).exit_code == 1
        documents.append(json.loads((here / "f.json").read_text()))
    one, two = documents
    assert one["scenarios"] == two["scenarios"]
    assert [each["violated"] for each in one["found"]] == [e["violated"] for e in two["found"]]


def test_keep_going_reports_each_broken_promise_once(
    invoke: Invoke, here: Path, share: Callable[..., None]
) -> None:
    share(found(), found("wave.never-rewinds"))
    words = ("explore", "--target", "zmq", "--budget", "0.05s", "--keep-going", "--shrink", "0.1s")
    result = invoke(*words, "--json", "f.json")
    assert result.exit_code == 1
    told = json.loads((here / "f.json").read_text())["found"]
    assert [one["violated"] for one in told] == [BROKEN, "wave.never-rewinds"]


def test_violation_that_does_not_come_again_is_told_with_its_evidence(
    invoke: Invoke, here: Path, share: Callable[..., None]
) -> None:
    share(found())
    result = invoke("explore", "--budget", "5s", "--shrink", "0.1s", "--target", "zmq")
    assert result.exit_code == 1
    assert "two engines were told" in result.stdout
    assert "it was seen once, and not again" in result.stdout


# --- what cannot be judged ------------------------------------------------------------------


def test_errors_alone_end_with_three_and_leave_a_scenario(
    invoke: Invoke, here: Path, share: Callable[..., None]
) -> None:
    share(errors={"it broke": 2}, erroneous={"it broke": DATA}, held={BROKEN: 1})
    result = invoke("explore", "--budget", "0.05s")
    assert result.exit_code == 3
    (path,) = (here / "wavecheck-out" / "explore").glob("error-*.yaml")
    assert "it broke" in path.read_text()
    assert load(path).scenario == Scenario.model_validate(DATA)


def test_nothing_judged_ends_with_four(
    invoke: Invoke, here: Path, share: Callable[..., None]
) -> None:
    share(impossible={"no coordinator": 4})
    result = invoke("explore", "--budget", "0.05s")
    assert result.exit_code == 4
    assert "exit 4: nothing could be judged" in result.stdout


def test_target_that_cannot_be_had_ends_with_three_and_leaves_a_document(
    invoke: Invoke, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_request: object) -> None:
        msg = "no such thing here"
        raise TargetError(msg)

    monkeypatch.setattr(explore_cmd, "open_target", refuse)
    result = invoke("explore", "--json", "f.json")
    assert result.exit_code == 3
    assert "no such thing here" in result.stdout
    assert json.loads((here / "f.json").read_text())["exit"] == 3


def test_hopeless_target_is_given_up_at_once(
    invoke: Invoke, here: Path, share: Callable[..., None]
) -> None:
    share(errors={"it does not start": 3}, hopeless="it does not start")
    result = invoke("explore", "--budget", "1h")
    assert result.exit_code == 3
    assert "nothing more was tried" in result.stdout


def test_interruption_keeps_what_was_found(
    invoke: Invoke, here: Path, share: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    share(found())
    play = shares.Share.__call__

    def interrupted(self: shares.Share, loaded: Any, options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return play(self, loaded, options)

    monkeypatch.setattr(shares.Share, "__call__", interrupted)
    result = invoke("explore", "--budget", "1h", "--keep-going", "--json", "f.json")
    assert result.exit_code == 130
    document = json.loads((here / "f.json").read_text())
    assert [one["violated"] for one in document["found"]] == [BROKEN]
    assert document["exit"] == 130


# --- wrong use ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mutant", "nothing"), "unknown mutant 'nothing'"),
        (("--strategy", "nothing"), "unknown strategy 'nothing'"),
        (("--profile", "9.9.9"), "unknown release '9.9.9'"),
        (("--budget", "soon"), "'soon' is no duration"),
        (("--frontend", "0.33.0"), "--frontend does not go with --target sim"),
        (("--as-release", "0.33.0"), "--as-release does not go with --target sim"),
        (("--adapter", "cmd"), "--adapter does not go with --target sim"),
        (("--target", "vllm-rs", "--frontend", "0.33.0", "--mutant", MUTANT), "does not go with"),
        (("--target", "vllm-py"), "vllm-py"),
        (("--out", ""), "the name of the folder is empty"),
    ],
)
def test_wrong_use_ends_with_two_before_anything_is_played(
    invoke: Invoke, here: Path, words: tuple[str, ...], told: str
) -> None:
    result = invoke("explore", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert list(here.iterdir()) == []


def test_without_hypothesis_the_message_says_what_to_install(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def lacking(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "harness.generate.hunt":
            msg = "No module named 'hypothesis'"
            raise ModuleNotFoundError(msg, name="hypothesis")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", lacking)
    result = invoke("explore")
    assert result.exit_code == 2
    assert "pip install 'wavecheck[explore]'" in result.stderr


# --- other targets --------------------------------------------------------------------------


@pytest.mark.zmq
def test_mutant_is_found_over_real_sockets(invoke: Invoke, here: Path) -> None:
    result = invoke(
        *("explore", "--target", "zmq", "--mutant", MUTANT, "--seed", 1, "--shrink", "2s"),
        *("--json", "f.json"),
    )
    assert result.exit_code == 1
    assert json.loads((here / "f.json").read_text())["found"][0]["violated"] == BROKEN


@pytest.mark.zmq
def test_mutant_is_found_through_the_adapter(invoke: Invoke, here: Path) -> None:
    result = invoke(
        *("explore", "--target", "adapter", "--mutant", MUTANT, "--seed", 1, "--shrink", "2s"),
        *("--json", "f.json"),
    )
    assert result.exit_code == 1
    assert json.loads((here / "f.json").read_text())["found"][0]["violated"] == BROKEN


@pytest.mark.vllm_rs
def test_real_frontend_is_explored(invoke: Invoke, here: Path) -> None:
    from harness.targets.vllm_rs.fetch import available

    if available("0.33.0") is None:
        pytest.skip("no binary of the frontend 0.33.0")
    result = invoke(
        *("explore", "--target", "vllm-rs", "--frontend", "0.33.0", "--seed", 1),
        *("--budget", "6s", "--shrink", "1s", "--json", "f.json"),
    )
    document = json.loads((here / "f.json").read_text())
    assert result.exit_code in {0, 1}
    assert document["errors"] == []
    assert document["scenarios"] > 0
    assert len(document["invariants"]) > 5
