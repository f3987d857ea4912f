"""The same seed plays the same runs in any process, hash seed, order and Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCENARIOS = (
    "handshake/gate-opens-after-all-subscribed",
    "lifecycle/a-rank-returns",
    "requests/cancelled-while-streaming",
    "utility/failing-beside-hanging",
    "waves/external-coordinator-restarts",
    "waves/stale-first-request",
)
SCHEDULES = 5
SUPPORTED = (11, 12, 13)
"""Minor versions of Python."""

pytestmark = pytest.mark.slow


def environment(hash_seed: str) -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}


def digests(
    folder: Path, *words: str, python: str = sys.executable, hash_seed: str = "0"
) -> dict[str, str]:
    """Digest of each scenario, as another process finds them."""
    report = folder / f"{len(list(folder.iterdir()))}.json"
    flags = ["--schedules", str(SCHEDULES), "--strategy", "random", "--json", str(report)]
    done = subprocess.run(
        [python, "-m", "harness", "run", *flags, *(words or ("--seed", "7", *SCENARIOS))],
        env=environment(hash_seed), cwd=folder, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    assert [result["schedules"] for result in results] == [SCHEDULES] * len(SCENARIOS)
    return {result["scenario"]: result["digest"] for result in results}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests to compare with."""
    found = digests(tmp_path_factory.mktemp("first"))
    assert len(set(found.values())) == len(SCENARIOS)
    return found


def python_of(minor: int) -> str:
    """An interpreter of this version that can run us, or skip."""
    if sys.version_info[:2] == (3, minor):
        pytest.skip(f"3.{minor} is the Python of these tests: nothing to compare")
    program = (
        "import sys, harness.cli, harness.version; harness.version.tool_version(); "
        "print(sys.version_info[1])"
    )
    named = os.environ.get("WAVECHECK_OTHER_PYTHON", "").split(os.pathsep)
    for name in [*named, f"python3.{minor}"]:
        path = shutil.which(name) if name else None
        if path is None:
            continue
        done = subprocess.run(
            [path, "-c", program], env=environment("0"), capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        if done.returncode == 0 and int(done.stdout) == minor:
            return path
    pytest.skip(
        f"no Python 3.{minor} has the package; WAVECHECK_OTHER_PYTHON can name interpreters"
    )


def test_digests_do_not_depend_on_process_or_hash_seed(first, tmp_path):
    assert digests(tmp_path, hash_seed="1") == first


def test_digests_do_not_depend_on_order_or_worker_processes(first, tmp_path):
    words = ("--seed", "7", "--jobs", "2", *reversed(SCENARIOS))
    assert digests(tmp_path, *words) == first


@pytest.mark.parametrize("minor", SUPPORTED)
def test_digests_do_not_depend_on_the_python_version(first, tmp_path, minor):
    assert digests(tmp_path, python=python_of(minor), hash_seed="2") == first


def test_digests_of_a_search_do_not_depend_on_process_or_hash_seed(tmp_path):
    """What a search tries next follows from what it has seen, which must be the same."""
    words = ("--seed", "7", "--strategy", "auto", *SCENARIOS)
    found = [digests(tmp_path, *words, hash_seed=seed) for seed in ("0", "3")]
    assert found[0] == found[1]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("strategy", "schedules"), [("fifo", 1), ("random", 2)])
def test_digests_of_the_whole_collection_do_not_depend_on_the_hash_seed(
    tmp_path, strategy, schedules
):
    flags = ("--strategy", strategy, "--schedules", str(schedules), "--seed", "3")
    found = [whole_collection(tmp_path, seed, *flags) for seed in ("0", "4242")]
    assert len(found[0]) > 300
    assert found[0] == found[1]


def whole_collection(folder: Path, hash_seed: str, *flags: str) -> dict[str, tuple[str, ...]]:
    """Status and digest of each scenario on sim, as another process finds them."""
    report = folder / f"whole-{hash_seed}.json"
    done = subprocess.run(
        [sys.executable, "-m", "harness", "run", "--allow-known", "--json", str(report), *flags],
        env=environment(hash_seed), cwd=folder, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    return {each["scenario"]: (each["status"], str(each["digest"])) for each in results}


def test_digests_depend_on_the_seed(first, tmp_path):
    other = digests(tmp_path, "--seed", "8", *SCENARIOS)
    assert {name for name in SCENARIOS if other[name] == first[name]} == set()
