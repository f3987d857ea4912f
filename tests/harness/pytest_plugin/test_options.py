"""Options: the same as those of ``wavecheck run``, and refused in the same words."""

from __future__ import annotations

import click
import pytest

from harness.cli.run_cmd import run_command
from harness.pytest_plugin.options import OPTIONS, as_ours

pytest_plugins = ["pytester"]

OF_PYTEST = {
    *("-k", "-x", "--last-failed", "--jobs", "--junit", "-v", "--executor", "--annotations"),
}
"""What pytest has itself (or a plugin of it), or what another process would have to do."""


def test_options_are_those_of_run():
    theirs = {}
    for parameter in run_command.params:
        if isinstance(parameter, click.Option):
            off = [name for name in parameter.secondary_opts if name.startswith("--no-")]
            theirs[(off or parameter.opts)[-1 if off else 0]] = parameter
    assert {f"--{option.name}" for option in OPTIONS} == {*theirs} - OF_PYTEST
    assert {*theirs} >= OF_PYTEST
    for option in OPTIONS:
        parameter = theirs[f"--{option.name}"]
        assert bool(option.metavar) == (not parameter.is_flag), option.name
        assert option.repeated == parameter.multiple, option.name


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--wavecheck-target", "zmk"], "'--wavecheck-target': 'zmk' is not one of"),
        (["--wavecheck-schedules", "x"], "'--wavecheck-schedules': 'x' is not a valid"),
        (["--wavecheck-mutant", "coordinator-rewin"], "did you mean 'coordinator-rewinds'?"),
        (["--wavecheck-strategy", "fifi"], "unknown strategy 'fifi'"),
        (["--wavecheck-frontend", "0.33.0"], "--wavecheck-frontend does not go with"),
        (["--wavecheck-json", "-"], "--wavecheck-json takes the name of a file here"),
        (["--wavecheck-out", "own/a-held.yaml"], "--wavecheck-out"),
    ],
)
def test_wrong_options_end_with_four_and_name_what_was_typed(run, write, runner, words, text):
    write("a-held")
    result = run("own", *words)
    assert result.ret == 4
    assert text in result.stderr.str() + result.stdout.str()
    assert runner == []


def test_options_reach_the_runner(run, write, runner, tmp_path):
    words = {
        "schedules": 5, "strategy": "random", "seed": 3, "mutant": "coordinator-rewinds",
        "timeout": 7, "profile": "0.30.0", "out": tmp_path,
    }  # fmt: skip
    result = run(write("a-held"), *(f"--wavecheck-{name}={value}" for name, value in words.items()))
    result.assert_outcomes(passed=1)
    ((_, options),) = runner
    assert options.schedules == 5
    assert (options.strategy, options.seed, options.mutant) == ("random", 3, "coordinator-rewinds")
    assert (options.timeout_s, options.profile, options.out) == (7.0, "0.30.0", tmp_path)
    result.stdout.fnmatch_lines(["wavecheck *: target sim *, strategy random, 5 schedules, seed 3"])


def test_names_of_flags_are_translated_and_others_left_alone():
    assert as_ours("--frontend-arg and --frontend") == (
        "--wavecheck-frontend-arg and --wavecheck-frontend"
    )
    assert as_ours("x--target --jobs") == "x--target --jobs"
