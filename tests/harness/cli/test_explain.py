"""``wavecheck explain``: which scenarios, for which release, as text and as JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.scenario.loader import builtin_dir

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke, Write

NAME = "waves/stale-first-request"


def test_explanation_has_every_section_and_no_colours(invoke: Invoke) -> None:
    done = invoke("explain", NAME)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    headings = [line for line in lines[3:] if line and not line.startswith(" ")]
    assert headings == [
        "Promise",
        "Releases",
        "Who takes part",
        "How the engines behave",
        "What happens",
        "Who judges",
        "Where it can be played",
        "Mutants",
    ]
    assert "\x1b" not in done.stdout


def test_several_are_explained_one_after_the_other(invoke: Invoke) -> None:
    done = invoke("explain", NAME, "requests/dropped-stream")
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in {NAME, "requests/dropped-stream"}] == [
        NAME,
        "requests/dropped-stream",
    ]


def test_chapter_and_folder_and_file_are_explained(
    invoke: Invoke, folder: Path, write: Write
) -> None:
    of_chapter = json.loads(invoke("explain", "waves", "--json", "-").stdout)["scenarios"]
    assert len(of_chapter) == len(list((builtin_dir() / "waves").glob("*.yaml")))
    of_folder = json.loads(invoke("explain", folder, "--json", "-").stdout)["scenarios"]
    assert [one["id"] for one in of_folder] == ["a-held", "b-held", "c-held"]
    (one,) = json.loads(invoke("explain", folder / "a-held.yaml", "--json", "-").stdout)[
        "scenarios"
    ]
    assert one["steps"] == [
        {
            "step": 1,
            "line": 5,
            "verb": "fence",
            "text": "Wait until all that was sent has arrived and been acted on.",
        }
    ]


def test_document_tells_the_same_to_programs(invoke: Invoke) -> None:
    document = json.loads(invoke("explain", NAME, "--profile", "0.28.0", "--json", "-").stdout)
    (one,) = document["scenarios"]
    assert one["releases"]["told_for"] == "0.28.0"
    assert one["releases"]["does_not_apply"] == ["0.33.0"]
    assert [about["invariant"] for about in one["about"]] == [
        "wave.never-rewinds",
        "wave.stale-first-request-wakes-all",
    ]
    places = {place["target"]: place for place in one["targets"]}
    assert "wave.never-rewinds" in places["sim"]["judging"]
    assert places["sim"]["not_judging"]["lockstep.waves-agree"] == (
        "only for engines with waves: lockstep"
    )
    assert places["vllm-rs"]["judging"] is None
    assert "fault.link" in places["vllm-rs"]["lacks"]
    assert one["mutants"]["killed"] == ["stale-first-request-leaves-out-target"]


def test_release_decides_who_judges(invoke: Invoke) -> None:
    old = invoke("explain", "utility/failing-beside-hanging", "--profile", "0.28.0").stdout
    new = invoke("explain", "utility/failing-beside-hanging").stdout
    assert "So vllm-rs is to be seen to violate in 0.28.0: utility.settles-before-return" in old
    assert "So vllm-rs" not in new
    assert "no promise of 0.33.0" in new
    assert "no promise of 0.33.0" not in old


def test_command_that_is_named_for_a_file_of_ones_own_is_about_that_file(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(builtin_dir() / f"{NAME}.yaml", tmp_path / "mine.yaml")
    done = invoke("explain", "mine.yaml")
    assert "To see one: wavecheck run mine.yaml --mutant coordinator-rewinds" in done.stdout
    assert done.stdout.splitlines()[2] == "mine.yaml; vllm#46833"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing argument"),
        (["nothing-here"], "no scenario, chapter, file or folder is called 'nothing-here'"),
        ([NAME, "--profile", "0.33"], "unknown release '0.33'"),
        (["bad.yaml"], "unknown key"),
    ],
)
def test_wrong_use_ends_with_two(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("titel: x\npromise: p\nrefs: [vllm#1]\nsteps: [{fence: true}]\n")
    done = invoke("explain", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""
