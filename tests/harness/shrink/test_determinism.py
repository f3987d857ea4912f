"""A failure is made small alike, and replays alike, in any process and on any Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def command(python: str, hash_seed: str, *words: object) -> dict[str, object]:
    """What a ``wavecheck`` command in a new process says as JSON."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-m", "harness", *map(str, words), "--json", "-"],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def other_python() -> str:
    """An interpreter of another supported version that has our dependencies, or skip."""
    mine = sys.version_info[:2]
    others = [f"python3.{minor}" for minor in (11, 12, 13) if (3, minor) != mine]
    for name in [os.environ.get("WAVECHECK_OTHER_PYTHON", ""), *others]:
        path = shutil.which(name) if name else None
        if path is None:
            continue
        probe = [path, "-c", "import sys, simpy, pydantic; print(sys.version_info[1])"]
        done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 and int(done.stdout) != mine[1]:
            return path
    pytest.skip(
        f"no other Python with the dependencies among {', '.join(others)}; "
        "WAVECHECK_OTHER_PYTHON can name one"
    )


def shrunk(python: str, hash_seed: str, file: Path, out: Path) -> tuple[str, str]:
    """Names and texts of the two files that a shrink writes."""
    told = command(python, hash_seed, "shrink", file, "--out", out, "--budget", "10m")
    assert told["finished"] is True
    failure, scenario = Path(str(told["failure_file"])), Path(str(told["scenario_file"]))
    return failure.name + failure.read_text(), scenario.name + scenario.read_text()


@pytest.mark.slow
def test_shrinking_does_not_depend_on_process_or_hash_seed(race: Path, tmp_path: Path) -> None:
    first = shrunk(sys.executable, "0", race, tmp_path / "a")
    assert first == shrunk(sys.executable, "1", race, tmp_path / "b")


@pytest.mark.slow
def test_shrinking_does_not_depend_on_the_python_version(race: Path, tmp_path: Path) -> None:
    first = shrunk(sys.executable, "0", race, tmp_path / "a")
    assert first == shrunk(other_python(), "2", race, tmp_path / "b")


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_reduced_tape_gives_the_same_digest_in_a_new_process(small: Path, hash_seed: str) -> None:
    told = command(sys.executable, hash_seed, "replay", small)
    assert (told["outcome"], told["digest_matches"]) == ("reproduced", True)


@pytest.mark.slow
def test_reduced_tape_gives_the_same_digest_on_another_python(small: Path) -> None:
    told = command(other_python(), "3", "replay", small)
    assert (told["outcome"], told["digest_matches"]) == ("reproduced", True)
