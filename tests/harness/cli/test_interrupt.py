"""Ctrl-C at any moment: exit code 130, one line, and never a traceback."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.play import play
from harness.runner import cached_target, choose_profile, make_spec
from harness.scenario import selection
from harness.targets.request import TargetRequest
from harness.worlds import SimWorld

ROOT = Path(__file__).parents[3]

SLOW_IMPORT = """
import sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "harness.cli.main":
            print("importing", flush=True)
            import threading
            threading.Event().wait()

sys.meta_path.insert(0, Slow())
from harness.cli import main
if __name__ == "__main__":
    main()
"""


@contextmanager
def started(words: Sequence[str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


ENDING = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


@ENDING
def test_interruption_while_the_commands_load_ends_with_130(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(textwrap.dedent(SLOW_IMPORT))
    with started([sys.executable, str(script), "list", "mutants"], tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


def test_hang_up_that_whoever_started_us_lets_us_ignore_ends_nothing(tmp_path: Path) -> None:
    script = "import signal, sys, os; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
    script += "os.execv(sys.executable, [sys.executable, '-m', 'harness', *sys.argv[1:]])"
    words = [sys.executable, "-c", script, "run", "waves", "--schedules", "3"]
    with started(words, tmp_path) as process:
        assert process.stdout is not None
        assert "scenarios, target sim" in process.stdout.readline()
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jobs", "number"),
    [("1", signal.SIGINT), ("2", signal.SIGINT), ("1", signal.SIGHUP), ("2", signal.SIGTERM)],
)
def test_interruption_of_a_simulated_run_ends_with_130_and_lists_what_was_not_run(
    tmp_path: Path, jobs: str, number: signal.Signals
) -> None:
    words = [sys.executable, "-m", "harness", "run", "--schedules", "100000"]
    words += ["--strategy", "random", "--jobs", jobs, "--json", "r.json"]
    with started(words, tmp_path) as process:
        assert process.stdout is not None
        assert "scenarios, target sim" in process.stdout.readline()
        # With two jobs the workers still load; the whole group hears of it, as on a terminal.
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out + err
    assert err.strip() in {"", "interrupted"}
    document = json.loads((tmp_path / "r.json").read_text())
    done = [result["scenario"] for result in document["results"]]
    every = [scenario.id for scenario in selection.builtin()]
    assert sorted([*done, *document["not_run"]]) == sorted(every)
    assert document["not_run"]


class InterruptedAt:
    """A chooser: first in, first out, and one interruption at the choice of a given number."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.world = SimWorld(self)  # type: ignore[arg-type]

    def choose(self, _options: int, _labels: object = None) -> int:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["waves/external-coordinator-restarts", "utility/settles-all-ok", "requests/cancelled"]
)
def test_interruption_at_any_moment_of_a_simulated_run_leaves_nothing_behind(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[object] = []
    notes: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: ignored.append(what.exc_value))
    loaded = selection.load_all(f for f in selection.builtin() if f.id.startswith(name))[0]
    target = cached_target(TargetRequest("sim"))
    profile = choose_profile(target, loaded.scenario, None)
    assert profile is not None
    spec = make_spec(loaded.scenario, target, profile, None)
    number, ended = 1, False
    while not ended:
        at = InterruptedAt(number)
        try:
            play(spec, at.world)
            ended = True
        except KeyboardInterrupt as interrupted:
            notes += getattr(interrupted, "__notes__", [])
        gc.collect()
        assert (ignored, notes) == ([], [])
        number += 17
    assert number > 18
