"""`pytest --wavecheck-baseline`: the verdicts of `wavecheck run --baseline`."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

BASELINE = """\
format: 1
pins:
  - {target: sim, judged: [a-held, b-violated, c-nothing]}
waivers:
  - scenario: b-violated
    invariant: wave.never-rewinds
    target: sim
    owner: "@waves"
    reason: vllm#1
    expires: 2026-12-31
"""


@pytest.fixture
def baseline(tmp_path):
    file = tmp_path / "baseline.yaml"
    file.write_text(BASELINE)
    return file


@pytest.mark.parametrize(
    ("day", "outcome", "text"),
    [
        ("2026-12-31", {"xfailed": 1}, "*waived by @waves, today is its last day*"),
        ("2027-01-01", {"failed": 1}, "*expired?wave.never-rewinds?: violated;*ask @waves*"),
    ],
)
def test_waived_scenario_is_xfailed_until_its_waiver_expires(
    runner, run, write, baseline, day, outcome, text
):
    folder = write("b-violated")
    words = ("--wavecheck-baseline", baseline, "--wavecheck-today", day)
    result = run(folder, *words, "-rx")
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines([text])


def test_new_violation_and_lost_verdict_fail_and_json_says_the_same(
    runner, run, write, baseline, tmp_path
):
    folder = write("a-held", "b-violated", "c-nothing", "d-violated")
    out = tmp_path / "out.json"
    words = ("--wavecheck-baseline", baseline, "--wavecheck-today", "2026-12-01")
    result = run(folder, *words, "--wavecheck-json", out)
    result.assert_outcomes(passed=1, xfailed=1, failed=2)
    document = json.loads(out.read_text())
    found = [(one["kind"], one["scenario"]) for one in document["baseline"]["found"]]
    assert found == [("waived", "b-violated"), ("lost", "c-nothing"), ("regression", "d-violated")]
    assert document["summary"]["exit"] == 1


def test_wrong_baseline_is_wrong_use_in_the_words_of_pytest(run, write, tmp_path):
    folder = write("a-held")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(BASELINE.replace("    expires: 2026-12-31\n", ""))
    result = run(folder, "--wavecheck-baseline", wrong)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*key 'expires' is missing in waivers?0?*"])
