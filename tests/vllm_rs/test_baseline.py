"""A baseline on released binaries: written for one, it says what another one does otherwise."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from harness.cli.main import cli
from harness.targets.vllm_rs.fetch import available

SCENARIO = "utility/failing-beside-hanging"
OLD, NEW = "0.28.0", "0.29.0"


def invoke(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="wavecheck")


@pytest.mark.vllm_rs
@pytest.mark.slow
def test_baseline_of_a_release_accepts_its_fault_and_sees_it_mended_in_the_next(tmp_path):
    if lacking := [release for release in (OLD, NEW) if available(release) is None]:
        pytest.skip(f"no binary of the frontend {', '.join(lacking)}")
    runs = {}
    for release in (OLD, NEW):
        runs[release] = tmp_path / f"{release}.json"
        words = ("--target", "vllm-rs", "--frontend", release, "--out", tmp_path / "out")
        done = invoke("run", SCENARIO, *words, "--json", runs[release])
        assert done.exit_code == (1 if release == OLD else 0), done.output
    file = tmp_path / "baseline.yaml"
    signed = ("--owner", "@waves", "--reason", "r", "--expires", "2026-12-31")
    today = ("--today", "2026-12-01")
    done = invoke("baseline", "write", runs[OLD], "-o", file, *signed, *today)
    assert done.exit_code == 0, done.output
    (pin,) = yaml.safe_load(file.read_text())["pins"]
    assert pin == {"target": "vllm-rs", "releases": f"=={OLD}", "judged": [SCENARIO]}
    same = invoke("baseline", "check", runs[OLD], "--baseline", file, *today)
    assert same.exit_code == 0, same.output
    # The next release is not silently covered by what was written for this one.
    other = invoke("baseline", "check", runs[NEW], "--baseline", file, *today)
    assert other.exit_code == 1
    assert f"pins nothing for vllm-rs {NEW}" in other.output
    file.write_text(file.read_text().replace(f"=={OLD}", f">={OLD}"))
    out = tmp_path / "check.json"
    mended = invoke("baseline", "check", runs[NEW], "--baseline", file, *today, "--json", out)
    assert mended.exit_code == 0, mended.output
    found = json.loads(out.read_text())["baseline"]["found"]
    assert {one["kind"] for one in found} == {"stale"}
