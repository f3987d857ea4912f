"""vLLM's own coordinator keeps what it promises, and an altered one is found out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.verdict import ERROR, HELD, VIOLATED

from .conftest import RELEASES

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]

COORDINATOR = "vllm/v1/engine/coordinator.py"
ALL = (
    "waves/external-engine-start-is-passed-on",
    "waves/external-late-subscriber-is-let-in",
    "waves/external-coordinator-restarts",
    "waves/external-stats-are-published",
)
OLDER = (
    "waves/external-first-request",
    "waves/external-stale-first-request",
    "waves/newer-first-request",
)


@pytest.mark.parametrize("scenario", ALL)
@pytest.mark.parametrize("release", RELEASES)
def test_coordinator_of_a_release_keeps_its_promises(run, release, scenario):
    result = run(scenario, release)
    assert (result.error, result.status) == (None, HELD)


@pytest.mark.parametrize("scenario", OLDER)
@pytest.mark.parametrize("release", [r for r in RELEASES if r < "0.33"])
def test_stale_first_request_is_right_in_every_python_coordinator(run, release, scenario):
    result = run(scenario, release)
    assert (result.error, result.status) == (None, HELD)


def test_engine_alone_starts_waves_since_033(run):
    result = run("waves/external-no-wake-up-from-the-frontend", "0.33.0")
    assert (result.error, result.status) == (None, HELD)


def test_only_what_a_coordinator_answers_for_is_judged(run):
    result = run("waves/external-engine-start-is-passed-on", "0.33.0")
    assert result.verdicts
    assert {verdict.invariant.partition(".")[0] for verdict in result.verdicts} == {"wave"}


def copied(tree, release, into, old, new):
    source = tree(release).folder
    for member in tree(release).checksums:
        (into / member).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / member, into / member)
    file = into / COORDINATOR
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return into


def test_coordinator_that_rewinds_is_seen(run, tree, tmp_path):
    """The same classes with one line broken: what judges the real ones does see it."""
    broken = copied(tree, "0.24.0", tmp_path / "mine", "if wave < current_wave:", "if wave < -1:")
    result = run("waves/external-stale-first-request", broken, profile="0.24.0")
    assert result.status == VIOLATED
    assert "wave.stale-first-request-wakes-all" in {
        v.invariant for v in result.verdicts if v.verdict == VIOLATED
    }


def test_class_that_is_not_the_releases_ends_the_run(run, tree, tmp_path, monkeypatch):
    """Sources that claim to be a release, and are not, judge nothing."""
    folder = copied(
        tree, "0.33.0", tmp_path / "0.33.0", "engines_running = True", "engines_running = False"
    )
    real = tree("0.33.0")
    monkeypatch.setattr(
        "harness.targets.vllm_py.target.resolve",
        lambda *_args: type(real)(folder, "0.33.0", real.checksums),
    )
    monkeypatch.setattr("harness.runner.cached_target", _open)
    result = run("waves/external-engine-start-is-passed-on", "0.33.0")
    assert result.status == ERROR
    assert "is not the file of the release" in result.error


def _open(request):
    from harness.targets.registry import open_target

    return open_target(request)


def test_nothing_is_left_behind_after_runs(run):
    before = children()
    for scenario in ("waves/external-coordinator-restarts", "requests/stream-to-the-end"):
        assert run(scenario, "0.33.0").status == HELD
    assert children() == before


def children():
    found = set()
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"\nPPid:\t{os.getpid()}\n" in text:
            found.add(status.parent.name)
    return found
