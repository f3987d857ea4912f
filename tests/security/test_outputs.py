"""Hostile texts in every place of every file that is read, through every form of output."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from rich.text import Text

from harness.cli import matrix_progress
from harness.cli.main import cli
from harness.cli.output import ACTIONS_VARIABLE, guarded
from harness.matrix.model import HELD, Cell
from tests.security.hostile import (
    FORMS,
    HOSTILE,
    spoilt,
    wrong_in_html,
    wrong_in_markdown,
    wrong_in_text,
)
from tests.support.failures import MUTANT, SCENARIO, failing_run, failure_file

ROOT = Path(__file__).parents[2]
SIGNED = ("--owner", "a", "--reason", "b", "--expires", "9d")
STORY: dict[str, Any] = {
    "title": "t",
    "promise": "p",
    "refs": ["vllm#1"],
    "topology": {"engines": 2},
    "steps": [
        {"call": {"id": "a", "request_id": "rid"}},
        {"utility": {"id": "u", "method": "add_lora", "args": ["x"], "via": "raw"}},
        {"wait": {"event": "add", "engine": 0}},
        {"finish": ["a", "u"]},
        {"fence": True},
        {"expect": {"op": "a", "outcome": "failed"}},
        {"expect": {"count": {"event": "add", "equals": 9}}},
    ],
}


@pytest.fixture(autouse=True)
def _in_a_job_of_a_code_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ACTIONS_VARIABLE, "true")
    monkeypatch.chdir(tmp_path)


def command(*words: object) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="wavecheck")


def wrong(*words: object, form: str | None = None) -> list[str]:
    """What a command shows that it must not; ``form``: of its standard output, if it ends with 0."""
    done = command(*words)
    found = [f"{words[0]} {form or ''}: {text}" for text in wrong_in_text(done.stderr)]
    judge = FORMS[form] if form is not None and done.exit_code == 0 else wrong_in_text
    found += [f"{words[0]} {form or ''}: {text}" for text in judge(done.stdout)]
    if "a fault in wavecheck" in done.output or done.exit_code not in {0, 1, 2, 4}:
        found.append(f"{words[0]}: exit {done.exit_code}: {done.output[-200:]}")
    return found


def reported(file: Path) -> list[str]:
    return [
        text
        for form in FORMS
        for text in wrong("report", file, "--format", form, "-o", "-", form=form)
    ]


def all_wrong(document: Any, told: Callable[[Path], list[str]], name: str) -> list[str]:
    """What is wrong, whichever place of the document is hostile."""
    file, found, tried = Path(name), [], 0
    for place, one in spoilt(document):
        tried += 1
        file.write_text(json.dumps(one), encoding="utf-8")
        found += [f"{place}: {text}" for text in told(file)]
    assert tried > 3
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return failing_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def baseline(run: Path) -> Path:
    assert command("baseline", "write", run, "-o", "made.yaml", *SIGNED).exit_code == 0
    return Path("made.yaml")


def test_results_of_a_run_with_hostile_texts_are_told_safely(run: Path, baseline: Path) -> None:
    def told(file: Path) -> list[str]:
        Path("new.yaml").unlink(missing_ok=True)
        return [
            *reported(file),
            *wrong("baseline", "check", file, "--baseline", baseline),
            *wrong("baseline", "write", file, "-o", "new.yaml", *SIGNED),
        ]

    assert all_wrong(json.loads(run.read_text()), told, "run.json") == []


def test_failure_file_with_hostile_texts_is_told_and_played_safely(run: Path) -> None:
    def told(file: Path) -> list[str]:
        Path("new.yaml").unlink(missing_ok=True)
        return [
            *reported(file),
            *wrong("replay", file),
            *wrong("replay", file, "--step"),
            *wrong("baseline", "write", file, "-o", "new.yaml", *SIGNED),
        ]

    document = json.loads(failure_file(run).read_text())
    assert all_wrong(document, told, "failure.json") == []


@pytest.mark.slow
@pytest.mark.parametrize("key", ["scenario_id", "violated", "mutant"])
def test_failure_file_with_hostile_texts_is_made_small_safely(run: Path, key: str) -> None:
    document = json.loads(failure_file(run).read_text())
    document[key] = f"{document[key]}{HOSTILE}"
    Path("failure.json").write_text(json.dumps(document), encoding="utf-8")
    assert wrong("shrink", "failure.json", "--budget", "1s") == []


def test_scenario_with_hostile_texts_is_checked_explained_and_played_safely() -> None:
    played = []

    def told(file: Path) -> list[str]:
        found = [*wrong("validate", file), *wrong("explain", file), *wrong("migrate", file)]
        if command("validate", file).exit_code:
            return found
        played.append(file)
        found += wrong("run", file, "--verbose", "--junit", "j.xml", "--json", "run.json")
        return [*found, *FORMS["junit"](Path("j.xml").read_text()), *reported(Path("run.json"))]

    assert all_wrong(STORY, told, "story.yaml") == []
    assert len(played) >= 3


def test_baseline_with_hostile_texts_is_told_safely(run: Path, baseline: Path) -> None:
    def told(file: Path) -> list[str]:
        later = ("--today", "2090-01-01")
        words = ("run", SCENARIO, "--mutant", MUTANT, "--junit", "j.xml")
        found = [
            *wrong("baseline", "list", file),
            *wrong("baseline", "list", file, *later),
            *wrong("baseline", "check", run, "--baseline", file, *later),
            *wrong(*words, "--baseline", file),
            *wrong("baseline", "prune", run, "--baseline", file),
        ]
        return (
            [*found, *FORMS["junit"](Path("j.xml").read_text())]
            if Path("j.xml").exists()
            else found
        )

    document = yaml.safe_load(baseline.read_text())
    for waiver in document["waivers"]:
        waiver["expires"] = str(waiver["expires"])
    assert all_wrong(document, told, "baseline.yaml") == []


def test_capture_with_hostile_texts_is_told_safely() -> None:
    words = ("capture", "--target", "sim", "--frontend", "0.33.0", "capture/12-waves")
    assert command(*words, "-o", "good.capture").exit_code == 0
    lines = [json.loads(line) for line in Path("good.capture").read_text().splitlines()[:4]]

    def told(file: Path) -> list[str]:
        spoilt_lines = json.loads(file.read_text())["lines"]
        Path("bad.capture").write_text("".join(f"{json.dumps(one)}\n" for one in spoilt_lines))
        return [
            *wrong("decode", "bad.capture"),
            *wrong("diff", "bad.capture", "good.capture"),
            *wrong("record", "--from", "bad.capture", "-o", f"made-{len(list(Path().iterdir()))}"),
        ]

    # Of a list three items have their turn: the head, a story, and its first message.
    assert all_wrong({"lines": lines}, told, "lines.json") == []


def test_frames_with_hostile_bytes_are_told_safely() -> None:
    texts = {
        "text.hex": f"text:{HOSTILE.splitlines()[0]}\n".encode(),
        "raw.bin": b"\x81\xa3a\x1b]\xc0",
    }
    for name, data in texts.items():
        Path(name).write_bytes(data)
        assert wrong("decode", name) == []
        assert wrong("decode", name, "--binary") == []


# --- a matrix -------------------------------------------------------------------------------


def _cells(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    lines = [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]
    for place, one in spoilt({"lines": lines}):
        yield place, one["lines"]


@pytest.mark.slow
def test_matrix_with_hostile_cells_is_taken_up_and_told_safely() -> None:
    words = ("matrix", SCENARIO, "requests/aborted-then-left", "--frontends", "reference")
    done = command(*words, "--mutant", MUTANT, "--jobs", "1", "--out", "m")
    assert done.exit_code in {0, 1}, done.output
    good = Path("m/cells.jsonl").read_bytes()
    found: list[str] = []
    for place, lines in _cells(Path("m")):
        Path("m/cells.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        wrong_here = wrong(*words, "--mutant", MUTANT, "--jobs", "1", "--out", "m", "--resume")
        wrong_here += wrong_in_html(Path("m/matrix.html").read_text())
        wrong_here += wrong_in_markdown(Path("m/matrix.md").read_text())
        found += [f"{place}: {text}" for text in wrong_here]
    Path("m/cells.jsonl").write_bytes(good)
    assert found == []
    assert all_wrong(json.loads(Path("m/matrix.json").read_text()), reported, "matrix.json") == []


def test_bar_of_a_matrix_takes_no_markup_and_no_controls_from_an_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    progress = matrix_progress.MatrixProgress(1)
    monkeypatch.setattr(progress, "_live", True)
    shown: list[str] = []
    monkeypatch.setattr(
        progress._bar, "update", lambda *_, description, **__: shown.append(description)
    )
    for name in ("[/nothing]", "[link=x]y[/link]", HOSTILE[-70:]):
        progress.advance(Cell(scenario=name, frontend="0.33.0", status=HELD))
    assert [Text.from_markup(text).plain.isprintable() for text in shown] == [True] * 3
    assert Text.from_markup(shown[0]).plain.endswith("[/nothing]")


# --- words of the command line, names of files, and the net below all -------------------------

NAME = "a\x1b]0;x\x07\u202e\n::error title=x::y##[z"


@pytest.mark.parametrize(
    "words",
    [
        *(("validate", NAME), ("explain", NAME), ("run", NAME), ("report", NAME), ("replay", NAME)),
        *(("shrink", NAME), ("decode", NAME), ("diff", NAME, NAME), ("baseline", "list", NAME)),
        *(
            ("migrate", NAME),
            ("record", "--from", NAME),
            ("run", "no-such", "--out", NAME),
            ("new", NAME),
        ),
        *(("run", "--baseline", NAME), ("matrix", "--frontends", NAME), ("bisect", NAME)),
        *(("list", NAME), ("mutants", NAME), (f"--{NAME}",), ("run", "--mutant", NAME)),
        *(("run", "--profile", NAME), ("run", "--target", NAME), ("completion", NAME)),
        *(("run", "--shard", NAME), ("schema", NAME), ("frontend", "fetch", NAME)),
        *(("new", "q", "--template", NAME), ("frontend", "serve", NAME), ("run", "-k", NAME)),
        *(("run", "--executor", NAME), ("run", "--attach", NAME), ("capture", "--frontend", NAME)),
    ],
    ids=lambda words: " ".join(words[:2]).partition("a\x1b")[0],
)
@pytest.mark.parametrize("there", [False, True], ids=["no file", "file"])
def test_words_and_names_of_files_are_told_safely(words: tuple[str, ...], there: bool) -> None:
    if there:
        Path(NAME).write_text("{}", encoding="utf-8")
    done = command(*words)
    assert list(wrong_in_text(done.stdout + done.stderr)) == []
    assert done.exit_code != 0
    assert "a fault in wavecheck" not in done.output


def test_net_below_all_output_keeps_styles_at_their_places_and_hides_no_line() -> None:
    text = Text("id \x1b[2J\n", end="")
    text.append("red", "red")
    shown = guarded(text)
    assert shown.plain == "id \ufffd[2J\nred"
    assert [shown.plain[span.start : span.end] for span in shown.spans] == ["red"]
    assert guarded(Text("plain\ttext")).plain == "plain\ttext"


@pytest.mark.parametrize("actions", ["", "true"])
def test_net_below_all_output_keeps_how_a_text_is_set(
    actions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", actions)
    text = Text("::error::\x1b[2J", style="red", justify="right", no_wrap=True, end="", tab_size=3)
    shown = guarded(text)
    assert shown.plain != text.plain
    for name in ("style", "justify", "no_wrap", "overflow", "end", "tab_size"):
        assert getattr(shown, name) == getattr(text, name), name
    assert text.plain == "::error::\x1b[2J"


def test_commands_print_through_the_net_alone() -> None:
    """``click.echo`` with a constant text is ours; whatever else is printed goes through ``echo``."""
    found = []
    for path in sorted((ROOT / "harness" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or path.name == "output.py":
                continue
            called, constant = (
                ast.unparse(node.func),
                isinstance(node.args[0] if node.args else None, ast.Constant),
            )
            if called in {"click.echo", "print", "sys.stdout.write"} and not constant:
                found.append(f"{path.name}: {ast.unparse(node)}")
    assert found == []
