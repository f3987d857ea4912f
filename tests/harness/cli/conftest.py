"""A command line to call, and a runner that plays nothing."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import run_cmd
from harness.cli.main import cli
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario

TEXT = """\
title: {title}
promise: p
refs: [vllm#1]
{more}steps:
  - fence: true
"""

Invoke = Callable[..., Result]
Write = Callable[..., Path]
"""Write a scenario into a folder: ``write(folder, name, title=…, more=…)``."""


@pytest.fixture(autouse=True)
def _no_terminal_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller's terminal or CI asks for must not decide what a test sees."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI", "GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def invoke() -> Invoke:
    """Call the command line with some words; output has no colours and no terminal."""

    def call(*words: object) -> Result:
        return CliRunner().invoke(cli, [str(word) for word in words], prog_name="wavecheck")

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three scenarios: what the fake runner makes of each is its name."""
    root = tmp_path / "own"
    root.mkdir()
    for name in ("a-held", "b-held", "c-held"):
        _write(root, name)
    return root


@pytest.fixture(name="write")
def write_fixture() -> Write:
    return _write


def _write(root: Path, name: str, *, title: str = "", more: str = "") -> Path:
    path = root / f"{name}.yaml"
    path.write_text(TEXT.format(title=title or f"title of {name}", more=more))
    return path


@dataclass
class FakeRunner:
    """Stands for ``harness.runner``: the status of a result is the last word of its id."""

    calls: list[tuple[str, RunOptions]] = field(default_factory=list)

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        self.calls.append((loaded.id, options))
        word = loaded.id.rpartition("-")[2]
        if word == "raises":
            msg = "the\nrunner\nbroke"
            raise RuntimeError(msg)
        if word == "interrupts":
            raise KeyboardInterrupt
        words = {"violated": "violated", "error": "error", "known": "violated"}
        words["nostart"] = "error"
        status = {**words, "nothing": "not_judged"}.get(word, "held")
        violated = status == "violated"
        verdict = VerdictResult(
            "wave.never-rewinds",
            "must",
            "violated" if violated else "held",
            exercised=1,
            message="went back" if violated else "",
            witness=(1,) if violated else (),
        )
        return ScenarioResult(
            scenario=loaded.id,
            title=loaded.scenario.title,
            refs=tuple(loaded.scenario.refs),
            profile=options.profile or "0.33.0",
            mutant=options.mutant,
            status=status,
            known=("wave.never-rewinds",) if word in {"known", "blind"} else (),
            error="no binary" if status == "error" else None,
            reason="target lacks op.rank" if status == "not_judged" else None,
            expectations=(ExpectationResult(0, "held", "x", "x"),),
            verdicts=(verdict,),
            schedules=options.schedules,
            strategy=options.strategy,
            seed=options.seed,
            digest="00",
            duration_s=0.5,
            failure_file="out/f.json" if violated else None,
            start_failure="it ended" if word == "nostart" else None,
        )


class NoRoom:
    """A disk that is full for some files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._files: set[str] = set()
        opened = io.open

        def full(file: object, mode: str = "r", *rest: object, **more: object) -> object:
            if str(file).removesuffix(".partial") in self._files and "w" in mode:
                # Opening it takes no room, writing does.
                file = "/dev/full"
            return opened(file, mode, *rest, **more)  # type: ignore[call-overload]

        monkeypatch.setattr(io, "open", full)
        monkeypatch.setattr("builtins.open", full)

    def for_file(self, path: Path) -> None:
        """Nothing can be written to it."""
        self._files.add(str(path))


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> NoRoom:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    return NoRoom(monkeypatch)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> FakeRunner:
    fake = FakeRunner()
    monkeypatch.setattr(run_cmd, "run_scenario", fake)
    return fake
