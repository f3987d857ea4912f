"""What adding a release touches: one line, tried on a copy of the sources (docs/new-release.md)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from client.protocol.profiles import NEWEST

ROOT = Path(__file__).parents[2]
ADDED = "0.34.0"
TIMEOUT_S = 120
PACKAGES = ("client", "mock_engines", "harness", "scenarios")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The sources with the one line that a new release needs."""
    folder = tmp_path_factory.mktemp("sources")
    ignore = shutil.ignore_patterns("__pycache__")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    profiles = folder / "client" / "protocol" / "profiles.py"
    text = profiles.read_text(encoding="utf-8")
    line = f'    "{NEWEST}",\n)'
    assert text.count(line) == 1
    profiles.write_text(text.replace(line, f'    "{NEWEST}",\n    "{ADDED}",\n)'), encoding="utf-8")
    return folder


def wavecheck(
    folder: Path, *words: str, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *words],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            "WAVECHECK_CACHE": str(cache or folder / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_new_release_is_known_and_its_scenarios_are_those_of_the_newest(copy):
    done = wavecheck(copy, "list", "frontends", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert ADDED in [row["id"] for row in json.loads(done.stdout)]
    newest = wavecheck(copy, "run", "waves", "routing", "--profile", NEWEST, "--json", "-")
    added = wavecheck(copy, "run", "waves", "routing", "--profile", ADDED, "--json", "-")
    assert added.returncode == newest.returncode == 0, added.stdout + added.stderr

    def statuses(done):
        return {r["scenario"]: r["status"] for r in json.loads(done.stdout)["results"]}

    assert statuses(added) == statuses(newest)
    assert "held" in statuses(added).values()


def test_binary_of_the_new_release_is_judged_by_its_own_promises(copy):
    binary = copy / "frontend"
    binary.write_text(f'#!/bin/sh\necho vllm-rs {ADDED}\n[ "$1" = --version ]\n', encoding="ascii")
    binary.chmod(0o755)
    words = ("run", "routing/explicit-rank", "--target", "vllm-rs", "--frontend", str(binary))
    assert f"target vllm-rs {ADDED}" in wavecheck(copy, *words).stdout


def test_release_that_is_not_known_is_judged_as_the_newest_and_that_is_said(tmp_path):
    binary = tmp_path / "frontend"
    binary.write_text(f'#!/bin/sh\necho vllm-rs {ADDED}\n[ "$1" = --version ]\n', encoding="ascii")
    binary.chmod(0o755)
    done = wavecheck(
        ROOT,
        *("run", "routing/explicit-rank", "--target", "vllm-rs", "--frontend", str(binary)),
        cache=tmp_path / "cache",
    )
    assert f"target vllm-rs {NEWEST}" in done.stdout
    assert re.search(rf"{re.escape(ADDED)}; it is judged by the promises of {NEWEST}", done.stdout)


def test_files_that_the_guide_names_exist():
    text = (ROOT / "docs" / "new-release.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:client|harness|mock_engines|scenarios)/[\w/.]*)`", text)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []
