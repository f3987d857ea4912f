"""The matrix and the bisection on released binaries."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.matrix.columns import Start, open_column
from harness.targets.vllm_rs.fetch import available

SCENARIO = "utility/failing-beside-hanging"
OLD, NEW = "0.28.0", "0.29.0"


def invoke(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="wavecheck")


@pytest.fixture
def binaries():
    """Skip where one of some releases is not here; nothing is downloaded."""

    def check(*releases):
        if lacking := [release for release in releases if available(release) is None]:
            pytest.skip(f"no binary of the frontend {', '.join(lacking)}")

    return check


def statuses(path):
    document = json.loads(path.read_text())
    return document, [(c["scenario"], c["frontend"], c["status"]) for c in document["cells"]]


@pytest.mark.vllm_rs
@pytest.mark.slow
def test_matrix_of_two_releases_shows_the_flip_between_them_and_resumes(binaries, tmp_path):
    binaries(OLD, NEW)
    words = ["matrix", SCENARIO, "--frontends", f"{OLD},{NEW}", "--out", tmp_path, "--jobs", 2]
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    document, cells = statuses(tmp_path / "matrix.json")
    assert cells == [(SCENARIO, OLD, "known"), (SCENARIO, NEW, "held")]
    flips = {(f["invariant"], f["from"], f["to"], f["direction"]) for f in document["flips"]}
    assert ("utility.settles-before-return", OLD, NEW, "fixed") in flips
    assert ("expectation", OLD, NEW, "fixed") in flips
    result = invoke(*words, "--resume")
    assert "2 of them finished before" in result.output
    assert json.loads((tmp_path / "matrix.json").read_text()) == document
    (failure,) = (tmp_path / "failures").iterdir()
    assert invoke("replay", failure).exit_code == 1


@pytest.mark.vllm_rs
def test_release_is_known_by_the_bytes_of_its_binary(binaries):
    binaries(OLD, NEW)
    old, new = (open_column(release, Start()) for release in (OLD, NEW))
    assert None not in (old.sha256, new.sha256)
    assert old.identity != new.identity
    assert (old.release, old.released, old.error) == (OLD, True, None)


@pytest.mark.vllm_rs
@pytest.mark.slow
def test_bisect_names_the_first_good_release_in_6_starts(binaries, tmp_path):
    # What a search among 15 releases asks for on its way to 0.29.0.
    binaries("0.22.0", "0.27.0", "0.27.1", OLD, NEW, "0.33.0")
    report = tmp_path / "b.json"
    result = invoke("bisect", SCENARIO, "--json", report, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    assert (document["first_good"], document["last_bad"]) == (NEW, OLD)
    assert document["starts"] <= 6
    assert {"0.22.0", "0.33.0"} <= {one["release"] for one in document["tried"]}
