"""No name out of a file, and no link in a folder for output, leads out of that folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.last_failed import FILE_NAME as LAST_FAILED
from harness.cli.last_failed import Failed, remember
from harness.cli.main import cli
from harness.failure import FailureFile, write_failure
from harness.files import write_text
from harness.matrix.store import FILE_NAME as CELLS
from harness.reports.inputs.files import find_failure
from tests.support.failures import MUTANT, SCENARIO, failing_run, failure_file

ROOT = Path(__file__).parents[2]
NAMES = [
    *("../../escaped", "/etc/escaped", "..", ".", "", "a/../../b", "~/x", "a\\..\\b", "C:\\x"),
    *("nul\0byte", "line\nfeed", "\x1b[2J", "x" * 5_000, "é" * 300, "CON", "nul.json", "aux:x"),
    *("-rf", "--json", "a b", "a-b", "a/b", "A/B", "a.", "a\u202eb", "\ud800"),
]
"""Ids of scenarios as somebody could write them into a file."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> FailureFile:
    from harness.failure import read_failure

    return read_failure(failure_file(failing_run(tmp_path_factory.mktemp("run"))))


def command(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="wavecheck")


# --- names out of files ---------------------------------------------------------------------


@pytest.mark.parametrize("field", ["scenario_id", "violated"])
def test_failure_files_of_hostile_names_lie_in_their_folder_and_are_told_apart(
    tmp_path: Path, failed: FailureFile, field: str
) -> None:
    out = tmp_path / "deep" / "out"
    found = []
    for name in NAMES:
        path = write_failure(replace(failed, **{field: name}), out)  # type: ignore[arg-type]
        assert path.parent == out
        assert path.is_file()
        assert len(os.fsencode(path.name)) < 255 - len(".partial")
        assert path.name.isprintable()
        assert path.name[0] not in "-."
        found.append(path.name.casefold())
    # Also on a file system that takes capitals and small letters for the same.
    assert len(set(found)) == len(NAMES)
    assert len(list(out.iterdir())) == len(NAMES)
    assert {path.name for path in tmp_path.rglob("*")} == {"deep", "out", *os.listdir(out)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../../escaped", "/etc/escaped", "x" * 5_000])
def test_scenario_of_a_hostile_name_that_is_made_small_lies_in_its_folder(
    tmp_path: Path, failed: FailureFile, name: str
) -> None:
    given = write_failure(replace(failed, scenario_id=name), tmp_path / "in")
    out = tmp_path / "deep" / "out"
    done = command("shrink", given, "--budget", "1s", "--out", out)
    assert done.exit_code == 0, done.output
    assert sorted(path.suffix for path in out.iterdir()) == [".json", ".yaml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "in"]


@pytest.mark.parametrize(
    "named",
    ["", "nul\0byte", "x" * 5_000, "/dev/zero", "/dev/stdin", ".", "..", "fifo", "loop", "\ud800"],
)
def test_failure_file_that_a_report_names_is_a_file_or_none(tmp_path: Path, named: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    assert find_failure(named, tmp_path / "run.json") is None
    run = failing_run(tmp_path)
    document = json.loads(run.read_text())
    document["results"][0]["failure_file"] = named
    run.write_text(json.dumps(document))
    for form in ("html", "markdown", "junit"):
        done = command("report", run, "--format", form, "-o", "-")
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize("named", ["nul\0byte", "x" * 5_000, "/dev/zero", "/dev/null", "..", ""])
def test_scenario_that_a_list_of_failures_names_is_a_file_or_bad_input(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    remember(Path("out"), [Failed("some/scenario", named)])
    done = command("run", "--last-failed", "--out", "out")
    assert done.exit_code == 2, done.output
    assert "a fault in wavecheck" not in done.output


@pytest.mark.slow
@pytest.mark.parametrize("named", ["../secret.json", "failures/../../secret.json", "ABSOLUTE"])
def test_cell_whose_failure_file_lies_elsewhere_is_played_again(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("matrix", "utility/failing-beside-hanging", "--frontends", "reference", "--jobs", "1")
    words += ("--mutant", "fail-fast-fan-out", "--out", "m")
    assert command(*words).exit_code == 1
    Path("secret.json").write_text("{}")
    lines = Path("m", CELLS).read_text().splitlines()
    cell = json.loads(lines[-1])
    cell["cell"]["failure_file"] = named.replace("ABSOLUTE", str(Path("secret.json").resolve()))
    Path("m", CELLS).write_text(json.dumps(cell) + "\n")
    done = command(*words, "--resume")
    assert "finished before" not in done.output
    assert "secret" not in Path("m", "matrix.html").read_text()


# --- links in a folder for output --------------------------------------------------------------


def _run(folder: Path) -> list[str]:
    command("run", SCENARIO, "--mutant", MUTANT, "--out", folder, "--no-shrink")
    return [path.name for path in folder.iterdir()]


def _shrink(folder: Path) -> list[str]:
    given = failure_file(failing_run(folder.parent))
    command("shrink", given, "--budget", "1s", "--out", folder)
    return [path.name for path in folder.iterdir()]


def _matrix(folder: Path) -> list[str]:
    words = ("--frontends", "reference", "--mutant", MUTANT, "--jobs", "1")
    command("matrix", SCENARIO, *words, "--out", folder)
    return [path.name for path in folder.iterdir() if path.is_file()]


def _soak(folder: Path) -> list[str]:
    command("soak", folder, "--seeds", "1", "--requests", "20")
    return [path.name for path in folder.iterdir()]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "run": _run,
    "shrink": _shrink,
    "matrix": _matrix,
    "soak": _soak,
}
"""Commands that write files whose names are ours, and the names that they leave."""


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_links_of_the_names_of_our_files_are_not_followed(tmp_path: Path, name: str) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    names = COMMANDS[name](folder)
    assert names
    for each in names:
        (folder / each).unlink()
        for place in (each, f"{each}.partial"):
            (folder / place).symlink_to(outside / place)
            (outside / place).write_text("precious")
    assert set(COMMANDS[name](folder)) >= set(names)
    assert {path.read_text() for path in outside.iterdir()} == {"precious"}
    assert not [each for each in names if (folder / each).is_symlink()]


def test_folder_of_failures_that_is_a_link_is_refused_before_it_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept.json").write_text("{}")
    (tmp_path / "m" / "failures").symlink_to(tmp_path / "mine")
    done = command("matrix", SCENARIO, "--frontends", "reference", "--out", tmp_path / "m")
    assert done.exit_code == 2, done.output
    assert "is a link" in done.output
    assert (tmp_path / "mine" / "kept.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        *(
            ("run",),
            ("validate",),
            ("explain",),
            ("report",),
            ("replay",),
            ("decode",),
            ("migrate",),
        ),
        *(("run", "nope", "--json"), ("run", "nope", "--out"), ("baseline", "list"), ("soak",)),
        *(
            ("shrink",),
            ("diff", "x"),
            ("record", "--from"),
            ("new",),
            ("matrix", "--out"),
            ("watch",),
        ),
    ],
    ids=" ".join,
)
def test_name_that_no_file_can_have_is_bad_input(words: tuple[str, ...]) -> None:
    done = command(*words, "x" * 5_000)
    # 3: it can only be told when it is written to.
    assert done.exit_code == (3 if words == ("soak",) else 2), done.output[:500]
    assert "a fault in wavecheck" not in done.output
    assert "File name too long" in done.output or "unknown" in done.output or "no " in done.output


def test_file_that_a_person_names_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.slow
def test_links_in_the_folder_of_a_hunt_are_not_followed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "outside").write_text("precious")
    (out / "explore.jsonl").symlink_to(tmp_path / "outside")
    words = [sys.executable, "-m", "harness", "explore", "--batches", "1", "--out", str(out)]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=100)
    assert (tmp_path / "outside").read_text() == "precious"
    assert LAST_FAILED not in os.listdir(out)
