"""The model and the coordinator decide as vLLM's own classes do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from harness.differential.breaks import BREAKS
from harness.differential.run import compare
from harness.targets.base import TargetError
from harness.targets.vllm_py.child import child_environment

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

RELEASES = ("0.22.0", "0.29.0", "0.33.0")
SEQUENCES = 300
CORE = "vllm/v1/engine/core.py"


@pytest.mark.parametrize("release", RELEASES)
def test_model_decides_as_the_engine_of_the_release(tree, release):
    report = compare(tree(release), "engine", sequences=SEQUENCES)
    assert report.found is None
    assert report.sequences == SEQUENCES
    for kind in ("send complete", "send start", "enter host sync", "enter host resume"):
        assert report.seen[kind] >= 20, kind


@pytest.mark.parametrize("release", RELEASES)
def test_coordinator_decides_as_the_one_of_the_release(tree, release):
    report = compare(tree(release), "coordinator", sequences=SEQUENCES)
    assert report.found is None
    assert report.sequences == SEQUENCES
    for kind in ("broadcast", "publish", "publish of waves", "answer", "died"):
        assert report.seen[kind] >= 5, kind


@pytest.mark.parametrize("broken", sorted(BREAKS.keys() - {"nothing"}))
def test_rule_made_wrong_is_seen(tree, broken):
    report = compare(tree("0.33.0"), "engine", sequences=SEQUENCES, broken=broken)
    assert report.found is not None
    assert report.found["moves"]


@pytest.mark.parametrize(
    ("part", "release", "other"),
    [
        ("engine", "0.28.0", "0.29.0"),
        ("engine", "0.29.0", "0.30.0"),
        ("engine", "0.32.0", "0.33.0"),
        ("coordinator", "0.26.0", "0.27.0"),
        ("coordinator", "0.28.0", "0.29.0"),
        ("coordinator", "0.32.0", "0.33.0"),
    ],
)
def test_rules_of_the_next_release_are_told_apart(tree, part, release, other):
    """So none of these agrees with everything."""
    theirs = replace(tree(release), release=other)
    assert compare(theirs, part, sequences=SEQUENCES).found is not None


def copied(tree, into, old, new):
    for member in tree.checksums:
        (into / member).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree.folder / member, into / member)
    text = (into / CORE).read_text()
    assert text.count(old) == 1
    (into / CORE).write_text(text.replace(old, new))
    return into


BREAK = ("new_wave >= self.current_wave", "new_wave > self.current_wave")


def test_class_that_is_not_vllms_compares_nothing(tree, tmp_path):
    mine = replace(tree("0.33.0"), folder=copied(tree("0.33.0"), tmp_path, *BREAK))
    with pytest.raises(TargetError, match="is not the file of the release"):
        compare(mine, "engine", sequences=1)


def test_own_tree_with_another_rule_differs(tree, tmp_path):
    """It is the sources that are executed: with one character changed they decide otherwise."""
    mine = replace(tree("0.33.0"), folder=copied(tree("0.33.0"), tmp_path, *BREAK), checksums=None)
    report = compare(mine, "engine", sequences=SEQUENCES)
    assert report.found is not None


def run_command(*args):
    return subprocess.run(
        [sys.executable, "-m", "harness.differential", *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=child_environment(),
    )


def test_command_ends_with_0_if_both_agree(tree, tmp_path):
    tree("0.33.0")
    file = tmp_path / "report.json"
    done = run_command("--releases", "0.33.0", "--sequences", "20", "--json", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("no difference") == 2
    assert [report["sequences"] for report in json.loads(file.read_text())] == [20, 20]


def test_command_ends_with_1_and_tells_both_sides_if_they_differ(tree):
    tree("0.33.0")
    done = run_command("--releases", "0.33.0", "--break", "resume-without-barrier")
    assert done.returncode == 1
    assert "DIFFERENCE" in done.stdout
    assert "enter host resume" in done.stdout


def test_command_ends_with_2_for_an_unknown_release():
    done = run_command("--releases", "0.1.0")
    assert done.returncode == 2
    assert "0.1.0" in done.stderr
