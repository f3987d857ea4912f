"""No name out of a file, and no link in a folder for output, leads out of that folder."""

from __future__ import annotations

import json
import os
import stat
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
from harness.generate.files import write_broken
from harness.matrix.store import FILE_NAME as CELLS
from harness.reports.inputs.files import find_failure
from tests.support.failures import MUTANT, SCENARIO, failing_run, failure_file

pytestmark = pytest.mark.timeout(120)
"""Whoever opens a pipe waits for ever: a safety net, ten times what the slowest test takes."""
ROOT = Path(__file__).parents[2]
BLACK_BOX = "utility/failing-beside-hanging"
"""A scenario that frontends other than the simulation can play."""
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


def _link(path: Path, outside: Path) -> None:
    outside.write_text("precious")
    path.symlink_to(outside)


def _hard_link(path: Path, outside: Path) -> None:
    outside.write_text("precious")
    os.link(outside, path)


def _pipe(path: Path, _outside: Path) -> None:
    os.mkfifo(path)


@pytest.mark.slow
@pytest.mark.parametrize("put", [_link, _hard_link, _pipe])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_has_the_names_of_our_files_is_neither_followed_nor_waited_for(
    tmp_path: Path, name: str, put: Callable[[Path, Path], None]
) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    names = COMMANDS[name](folder)
    assert names
    for each in names:
        (folder / each).unlink()
        for place in (each, f"{each}.partial"):
            put(folder / place, outside / place)
    assert set(COMMANDS[name](folder)) >= set(names)
    assert {path.read_text() for path in outside.iterdir()} <= {"precious"}
    for each in names:
        seen = (folder / each).lstat()
        assert (stat.S_ISREG(seen.st_mode), seen.st_nlink) == (True, 1)


@pytest.mark.parametrize("put", [_link, _hard_link, _pipe])
def test_scenario_that_was_found_is_written_over_what_has_its_name_and_not_through_it(
    tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    folder, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    written = write_broken({"title": "t"}, "why", folder, "explore")
    text = written.read_text()
    for place in (written.name, f"{written.name}.partial"):
        (folder / place).unlink(missing_ok=True)
        put(folder / place, outside / place)
    assert write_broken({"title": "t"}, "why", folder, "explore") == written
    assert {path.read_text() for path in outside.iterdir()} <= {"precious"}
    assert written.lstat().st_nlink == 1
    assert stat.S_ISREG(written.lstat().st_mode)
    assert written.read_text() == text


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


@pytest.mark.slow
def test_hard_link_to_the_cells_of_a_matrix_is_no_loss_for_either(tmp_path: Path) -> None:
    words = (
        "matrix",
        BLACK_BOX,
        "--frontends",
        "reference",
        "--jobs",
        "1",
        "--out",
        tmp_path / "m",
    )
    assert command(*words).exit_code == 0
    kept = tmp_path / "kept"
    os.link(tmp_path / "m" / CELLS, kept)
    before = kept.read_bytes()
    assert before
    done = command(*words, "--resume")
    assert "finished before" in done.output
    assert command(*words).exit_code == 0
    assert kept.read_bytes() == before


# --- what is read ------------------------------------------------------------------------------

READERS: dict[str, tuple[str, ...]] = {
    "decode": ("decode", "THING"),
    "diff": ("diff", "THING", "reference"),
    "record": ("record", "--from", "THING", "-o", "made"),
    "replay": ("replay", "THING"),
    "report": ("report", "THING"),
    "run": ("run", "THING"),
    "validate": ("validate", "THING"),
    "migrate": ("migrate", "THING"),
    "last-failed": ("run", "--last-failed", "--out", "out"),
    "matrix": ("matrix", "--frontends", "reference", "--last-failed", "--out", "out"),
}


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "circle"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_wherever_a_file_is_read(
    tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    of_list = "--last-failed" in READERS[name]
    thing = Path("out", LAST_FAILED) if of_list else Path("thing")
    if kind == "pipe":
        os.mkfifo(thing)
    elif kind == "folder":
        thing.mkdir()
    else:
        thing.symlink_to("/dev/zero" if kind == "device" else thing.name)
    before = sorted(tmp_path.rglob("*"))
    done = command(*(str(thing) if word == "THING" else word for word in READERS[name]))
    assert done.exit_code == 2, done.output
    assert "thing" in done.output or LAST_FAILED in done.output
    assert "a fault in wavecheck" not in done.output
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["pipe", "circle", "large", "hard link"])
def test_schema_beside_new_scenarios_is_written_or_said_to_be_another(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = Path("wavecheck.schema.json")
    if kind == "pipe":
        os.mkfifo(schema)
    elif kind == "circle":
        schema.symlink_to(schema)
    elif kind == "hard link":
        Path("victim").write_text("precious")
        os.link("victim", schema)
    else:
        with schema.open("wb") as file:
            file.truncate(20 << 30)
    done = command("new", "a", "--template", "wave")
    assert done.exit_code == 0, done.output
    assert ("another version" in done.output) == (kind in ("large", "hard link"))
    assert Path("a.yaml").is_file()
    assert schema.is_file()
    assert kind != "hard link" or Path("victim").read_text() == "precious"


def test_new_scenario_does_not_wait_for_a_pipe_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.yaml")
    done = command("new", "a", "--template", "wave", "--force")
    assert done.exit_code == 2, done.output
    assert "a.yaml is a pipe" in done.output


@pytest.mark.parametrize("words", [("run",), ("explain",), ("validate",), ("run", "--quick")])
def test_scenario_that_is_a_link_to_itself_is_bad_input(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "a.yaml").symlink_to("a.yaml")
    for named in (tmp_path, tmp_path / "a.yaml"):
        done = command(*words, named)
        assert done.exit_code == 2, done.output
        assert "a.yaml" in done.output
        assert "a fault in wavecheck" not in done.output


def test_folder_of_the_name_of_a_failure_file_is_said_with_the_place(tmp_path: Path) -> None:
    file = failure_file(failing_run(tmp_path))
    file.unlink()
    file.mkdir()
    done = command("run", SCENARIO, "--mutant", MUTANT, "--out", tmp_path, "--no-shrink")
    assert done.exit_code == 1, done.output
    assert f"{file}: a folder has this name; remove or rename it" in " ".join(done.output.split())
    assert "Errno" not in done.output


# --- lists of what failed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "expected one object with the key 'failed'"),
        ('{"failed": {}}', "'failed' must be a list"),
        ('{"failed": [1]}', "entry 1 must be an object with the keys scenario, path, frontend"),
        ('{"failed": [{"scenario": "a"}]}', "entry 1 must be an object with the keys"),
        (
            '{"failed": [{"scenario": 1, "path": "b", "frontend": null}]}',
            "entry 1: 'scenario' and 'path' must be texts",
        ),
        (
            '{"failed": [{"scenario": "a", "path": "b", "frontend": 9}]}',
            "entry 1: 'frontend' must be a text, or null",
        ),
        ('{"failed": [], "failed": []}', "key 'failed' stands twice"),
    ],
)
def test_list_of_failures_of_another_form_is_told_in_words_of_its_own(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / LAST_FAILED).write_text(text)
    for words in (("run",), ("matrix", "--frontends", "reference")):
        done = command(*words, "--last-failed", "--out", tmp_path)
        assert done.exit_code == 2, done.output
        assert why in done.output
        assert LAST_FAILED in done.output


def test_list_of_failures_of_another_frontend_is_said_and_not_passed_over(tmp_path: Path) -> None:
    failed = [Failed(BLACK_BOX, BLACK_BOX, name) for name in ("9.9", "reference")]
    remember(tmp_path, failed)
    words = ("--last-failed", "--out", tmp_path)
    done = command("run", *words)
    assert done.exit_code == 0, done.output
    assert "other frontends (9.9, reference): they are played on what this run asks for" in (
        " ".join(done.output.split())
    )
    remember(tmp_path, failed)
    done = command("matrix", "--frontends", "reference", "--jobs", "1", *words)
    assert done.exit_code == 0, done.output
    assert "other frontends (9.9): they are left out" in " ".join(done.output.split())
