"""Runs of pytest in processes of their own: agreement with ``wavecheck run``, xdist, neighbours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.scenario import selection
from tests.harness.pytest_plugin.conftest import TEXT

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]
QUIET = ("-p", "no:hypothesispytest", "-p", "no:cacheprovider", "-q")
HEAVY = ("click", "msgspec", "pydantic", "zmq", "simpy", "client", "mock_engines", "harness.cli")
"""What a suite that has nothing to do with wavecheck must not pay for."""


def comparable(path: Path, *, exact: bool) -> dict:
    """A document without what differs between any two runs.

    ``exact``: only durations and places of files do; else what sockets and clocks decide, too.
    """
    document = json.loads(path.read_text())
    for result in document["results"]:
        del result["duration_s"]
        result["failure_file"] = result["failure_file"] and Path(result["failure_file"]).name
        if not exact:
            # How many trials a predicted race took is its own affair.
            for name in ("verdicts", "expectations", "failure_file", "trials"):
                del result[name]
    document["results"].sort(key=lambda one: (one["scenario"], one["profile"]))
    return document


def sample(every: int) -> list[str]:
    """Some files of the collection; those of elastic changes take seconds on sockets."""
    found = [one for one in selection.builtin() if not one.id.startswith("elastic/")]
    two = {"utility/failing-beside-hanging", "lockstep/resumed-twice"}
    return [str(one.path) for i, one in enumerate(found) if i % every == 3 or one.id in two]


@pytest.mark.parametrize(
    ("workers", "flags", "every", "code"),
    [
        (2, [], 12, 0),
        (0, ["schedules=8", "seed=5"], 24, 0),
        (0, ["mutant=fail-fast-fan-out"], 40, 1),
        pytest.param(0, ["target=zmq", "profile=0.30.0"], 40, 0, marks=pytest.mark.zmq),
    ],
    ids=["one schedule", "several schedules", "mutant", "zmq"],
)
def test_pytest_and_run_agree_on_every_result(pytester, tmp_path, workers, flags, every, code):
    # Of the whole collection: `pytest scenarios/ -n 2 --wavecheck-json …`, see docs/pytest.md.
    files, exact = sample(every), "target=zmq" not in flags
    ours, theirs = tmp_path / "run.json", tmp_path / "pytest.json"
    more = [f"--{flag}" for flag in flags]
    arguments = ["run", *files, "--json", str(ours), "--out", str(tmp_path / "a"), *more]
    assert CliRunner().invoke(cli, arguments, prog_name="wavecheck").exit_code == code
    call = pytester.runpytest_subprocess if workers else pytester.runpytest_inprocess
    result = call(
        *QUIET, "-n", str(workers), *files, f"--wavecheck-json={theirs}",
        f"--wavecheck-out={tmp_path / 'b'}", *(f"--wavecheck-{flag}" for flag in flags),
    )  # fmt: skip
    assert result.ret == code
    told = comparable(theirs, exact=exact)
    assert told == comparable(ours, exact=exact)
    assert len(told["results"]) == len(files)
    assert len({one["status"] for one in told["results"]}) >= 2


def test_workers_tell_failures_skips_and_what_was_left(pytester, tmp_path):
    names = ("waves/stale-first-request", "waves/wave-lasts-as-long-as-its-work")
    files = [str(f.path) for f in selection.builtin() if f.id in names]
    result = pytester.runpytest_subprocess(
        *QUIET[:-1], "-n", "2", "-rA", "--junitxml=j.xml", "--wavecheck-mutant=coordinator-rewinds", *files
    )  # fmt: skip
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*target sim*mutant coordinator-rewinds*"])
    result.stdout.fnmatch_lines(["violated?wave.never-rewinds?: the coordinator went from*"])
    result.stdout.fnmatch_lines(["FAILED *stale-first-request*violated?wave.never-rewinds*"])
    xml = (pytester.path / "j.xml").read_text()
    assert 'message="violated[wave.never-rewinds]: the coordinator went' in xml


def test_wrong_options_with_workers_end_once_and_clearly(pytester):
    result = pytester.runpytest_subprocess(*QUIET, "-n", "2", "--wavecheck-mutant=nobody")
    assert result.ret == 4
    assert result.stderr.str().count("unknown mutant 'nobody'") == 1


def test_last_failed_plays_the_failed_one_again(pytester, write):
    (file,) = [f.path for f in selection.builtin() if f.id == "waves/stale-first-request"]
    text = file.read_text(encoding="utf-8").replace("../schema.json", "schema.json")
    write("other-held")
    (pytester.path / "own" / "stale.yaml").write_text(text, encoding="utf-8")
    words = ("-p", "no:hypothesispytest", "-q", "own", "--wavecheck-out=out")
    mutant = "--wavecheck-mutant=coordinator-rewinds"
    pytester.runpytest_subprocess(*words, mutant).assert_outcomes(failed=1, passed=1)
    again = pytester.runpytest_subprocess(*words, "--lf", mutant)
    again.assert_outcomes(failed=1)
    pytester.runpytest_subprocess(*words, "--lf").assert_outcomes(passed=1)


SPY = """
import sys
import pytest

@pytest.fixture
def simulate():
    return "mine"

def test_mine(simulate):
    assert simulate == "mine"
    heavy = {names}
    assert [name for name in heavy if name in sys.modules] == []
"""


def test_neighbours_are_not_disturbed(pytester):
    pytester.makepyfile(SPY.format(names=HEAVY))
    pytester.makefile(".yaml", values="title: chart\nsteps: []\n")
    # pytest looks at what stands beside a file that is named, too.
    pytester.makefile(".yaml", beside=TEXT.format(title="x"))
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config -W error\n")
    result = pytester.runpytest_subprocess(
        *QUIET, "-p", "no:xdist", "-p", "no:timeout", "test_neighbours_are_not_disturbed.py"
    )
    result.assert_outcomes(passed=1)
    assert "wavecheck" not in result.stdout.str()


def test_plugin_can_be_turned_off(pytester):
    result = pytester.runpytest_subprocess(*QUIET, "-p", "no:wavecheck", "--wavecheck-seed=1")
    assert result.ret == 4
    assert "unrecognized arguments: --wavecheck-seed=1" in result.stderr.str()


def test_this_project_collects_no_scenarios_by_itself(pytestconfig):
    assert pytestconfig.getini("testpaths") == ["tests"]
    folder = pytestconfig.rootpath / "tests" / "harness" / "reference_frontend"
    assert list(folder.glob("*.yaml")), "a folder with scenarios that tests play themselves"
    words = [sys.executable, "-m", "pytest", *QUIET, "--collect-only", str(folder)]
    done = subprocess.run(
        words, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=False
    )
    assert ".py::" in done.stdout
    assert ".yaml::" not in done.stdout


def test_python_here_is_the_one_that_has_the_plugin(pytestconfig):
    # Where the installation is older than the plugin, nothing above would have tested it.
    assert pytestconfig.pluginmanager.hasplugin("wavecheck"), (
        f"{sys.executable} -m pip install -e ."
    )


def test_scenarios_of_a_clone_are_played_with_pytest_alone():
    """As the README says it, with the extra `[pytest]`: no plugin that only our own tests have."""
    command = [sys.executable, "-m", "pytest", "scenarios/", "-q", "-k", "stale-first-request"]
    command += ["-p", "no:timeout", "-p", "no:cov", "-p", "no:cacheprovider"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    said = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert " passed" in said.stdout
