"""`validate`, `list`, `replay` and the group itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from harness.cli import catalogue, replay_cmd
from harness.cli.commands import WHERE, Commands
from harness.cli.main import TRACEBACK_VARIABLE, cli
from harness.failure import FailureFile, FailureFileError
from harness.replay import ReplayKind, ReplayOutcome
from harness.scenario.loader import builtin_dir
from harness.targets.base import TargetError

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke, Write

# --- validate -------------------------------------------------------------------------------


def test_validate_counts_valid_files(invoke: Invoke, folder: Path) -> None:
    result = invoke("validate", folder)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "3 files valid\n", "")


def test_validate_accepts_all_built_in_scenarios(invoke: Invoke) -> None:
    result = invoke("validate", builtin_dir())
    assert re.fullmatch(r"\d+ files valid\n", result.stdout), result.stdout


def test_validate_shows_every_problem_and_ends_with_2(
    invoke: Invoke, write: Write, tmp_path: Path
) -> None:
    good = write(tmp_path, "good")
    bad = tmp_path / "bad.yaml"
    bad.write_text(good.read_text() + "topolgy: {}\n")
    result = invoke("validate", good, bad, tmp_path / "none.yaml")
    assert result.exit_code == 2
    assert result.stdout == (
        f"\nerror: unknown key 'topolgy'\n"
        f"  --> {bad}:6:1\n"
        "    6 | topolgy: {}\n"
        "      | ^\n"
        "  expected:  one of connect_fails, engines, explore, format, invariants, known, needs, "
        "open_at_end, profiles, promise, refs, steps, title, topology, trials\n"
        "  help:      did you mean 'topology'?\n"
        "\n"
        "\nerror: no such file\n"
        f"  --> {tmp_path / 'none.yaml'}\n"
        "\n"
        "1 file valid, 2 files invalid\n"
    )


def test_validate_refuses_a_folder_without_scenarios(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("validate", tmp_path)
    assert (result.exit_code, result.stdout) == (
        2,
        "\nerror: no scenarios in this folder\n"
        f"  --> {tmp_path}\n"
        "  expected:  files that end in .yaml or .yml\n"
        "\n"
        "0 files valid, 1 file invalid\n",
    )


def test_validate_refuses_two_files_with_one_id(
    invoke: Invoke, write: Write, tmp_path: Path
) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(write(tmp_path / name, "x"))
    result = invoke("validate", *paths)
    assert result.exit_code == 2
    assert f"error: two files have the id 'x': {paths[0]} and {paths[1]}\n" in result.stdout


def test_validate_counts_a_file_named_twice_once(invoke: Invoke, folder: Path) -> None:
    assert invoke("validate", folder, folder / "a-held.yaml").stdout == "3 files valid\n"


def test_validate_json_has_places(invoke: Invoke, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("title: [\n")
    result = invoke("validate", bad, "--json", "-")
    document = json.loads(result.stdout)
    assert document["summary"] == {"valid": 0, "invalid": 1, "exit": 2}
    (row,) = document["files"]
    assert (row["path"], row["id"], row["valid"]) == (str(bad), None, False)
    assert [(p["line"], p["column"]) for p in row["problems"]] == [(2, 1)]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"\x00", b"[" * 5000, b"a: *a", b"- 1", b"{", b"#" * 1_100_000, b"a: !!x"],
)
def test_validate_never_shows_a_traceback(invoke: Invoke, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    result = invoke("validate", tmp_path)
    assert result.exit_code == 2
    assert result.stdout.count("error: ") == 1
    assert "Traceback" not in result.output
    assert not isinstance(result.exception, Exception)


# --- list -----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", list(catalogue.CATALOGUES))
def test_list_gives_objects_with_id_and_title(invoke: Invoke, what: str) -> None:
    result = invoke("list", what, "--json", "-")
    rows = json.loads(result.stdout)
    assert result.exit_code == 0
    assert rows
    assert all(row["id"] and row["title"] for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)


def test_list_prints_a_line_each(invoke: Invoke) -> None:
    lines = invoke("list", "mutants").stdout.splitlines()
    assert len(lines) >= 10
    assert any(line.startswith("coordinator-rewinds ") for line in lines)


def test_list_says_when_there_is_nothing(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue.CATALOGUES, "mutants", list)
    assert invoke("list", "mutants").stdout == "there are no mutants\n"


def test_list_of_something_else_names_the_choices(invoke: Invoke) -> None:
    result = invoke("list", "scenario")
    assert result.exit_code == 2
    assert "'scenarios', 'invariants', 'mutants', 'targets', 'frontends'" in result.stderr


# --- replay ---------------------------------------------------------------------------------


FAILURE = FailureFile(
    scenario_id="waves/x",
    scenario_text="",
    target="sim",
    frontend=None,
    profile="0.32.0",
    mutant="coordinator-rewinds",
    violated="wave.never-rewinds",
    witness=(),
    digest="",
    tape=None,
)


@pytest.mark.parametrize(
    ("kind", "code", "first"),
    [
        (ReplayKind.REPRODUCED, 1, "violated[wave.never-rewinds]: what happened"),
        (ReplayKind.GONE, 0, "note[gone]: what happened"),
        (ReplayKind.DIVERGED, 4, "note[diverged]: what happened"),
    ],
)
def test_replay_ends_with_the_code_of_its_outcome(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, kind: ReplayKind, code: int, first: str
) -> None:
    outcome = ReplayOutcome(kind, "what happened", FAILURE)
    monkeypatch.setattr(replay_cmd, "replay", lambda _: outcome)
    result = invoke("replay", "f.json", "--json", "-")
    assert result.exit_code == code
    assert result.stderr.strip().splitlines()[:2] == [
        first,
        "  --> waves/x (target sim, profile 0.32.0, mutant coordinator-rewinds)",
    ]
    document = json.loads(result.stdout)
    assert (document["outcome"], document["exit"]) == (kind.value, code)


def test_replay_says_how_the_frontend_was_started(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = replace(
        FAILURE,
        target="vllm-rs",
        frontend="/build/vllm-rs",
        mutant=None,
        frontend_args=["--flag", "a b"],
        frontend_env=[["NAME", "value"]],
    )
    outcome = ReplayOutcome(ReplayKind.GONE, "no longer", failure)
    monkeypatch.setattr(replay_cmd, "replay", lambda _: outcome)
    result = invoke("replay", "f.json", "--json", "-")
    assert result.stderr.strip().splitlines()[1] == (
        "  --> waves/x (target vllm-rs, frontend /build/vllm-rs, profile 0.32.0, "
        "frontend-arg --flag, frontend-arg 'a b', frontend-env NAME)"
    )
    document = json.loads(result.stdout)
    assert (document["frontend_args"], document["frontend_env"]) == (
        ["--flag", "a b"], {"NAME": "value"},
    )  # fmt: skip


def test_replay_of_a_wrong_file_is_a_usage_error(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> Any:
        msg = "f.json: is no failure file"
        raise FailureFileError(msg)

    monkeypatch.setattr(replay_cmd, "replay", refuse)
    result = invoke("replay", "f.json")
    assert (result.exit_code, result.stderr) == (2, "error: f.json: is no failure file\n")


def test_replay_of_a_missing_file_is_a_usage_error(invoke: Invoke, tmp_path: Path) -> None:
    assert invoke("replay", tmp_path / "none.json").exit_code == 2


# --- the group ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (TargetError("no such binary"), 3, "error: no such binary\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.Abort(), 130, "interrupted\n"),
        (click.FileError("x", "gone"), 2, "Error: Could not open file 'x': gone\n"),
    ],
)
def test_errors_become_exit_codes(
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    text: str,
) -> None:
    def fail() -> Any:
        raise error

    monkeypatch.setitem(catalogue.CATALOGUES, "mutants", fail)
    result = invoke("list", "mutants")
    assert (result.exit_code, result.stdout, result.stderr.lstrip()) == (code, "", text)


def test_fault_of_ours_is_one_line_and_a_traceback_only_on_request(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Any:
        msg = "boom"
        raise RuntimeError(msg)

    monkeypatch.setitem(catalogue.CATALOGUES, "mutants", fail)
    result = invoke("list", "mutants")
    assert result.exit_code == 3
    assert result.stderr.startswith("error: a fault in wavecheck: RuntimeError: boom (at test_")
    assert "Traceback" not in result.stderr
    monkeypatch.setenv(TRACEBACK_VARIABLE, "1")
    assert "Traceback" in invoke("list", "mutants").stderr


@pytest.mark.parametrize("name", ["", *cli.commands])
def test_help_has_examples_or_lists_commands(invoke: Invoke, name: str) -> None:
    result = invoke(*([name] if name else []), "--help")
    assert result.exit_code == 0
    assert "Usage: wavecheck" in result.stdout
    assert "--help" in result.stdout
    if name in {"", "run", "validate", "list", "replay"}:
        assert "Example" in result.stdout


def test_all_commands_of_the_table_are_there() -> None:
    assert set(cli.commands) >= {"run", "replay", "validate", "list", "frontend", "engine"}


def test_colours_only_on_request(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in invoke("list", "mutants").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" in invoke("list", "mutants").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in invoke("list", "mutants").stdout


def test_each_command_is_named_as_it_is_looked_up_and_loaded_alone():
    """``wavecheck run`` does not pay for what other commands need."""
    assert {name: cli.commands[name].name for name in WHERE} == {name: name for name in WHERE}
    script = (
        "import sys; from harness.cli.main import COMMANDS; COMMANDS.ahead(['run', 'matrix']);"
        "print([n for n in sys.modules if n.startswith('harness.cli.') and n.endswith('_cmd')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "['harness.cli.run_cmd']"


def test_help_loads_all_commands_and_the_version_none():
    for args, count in ((["--help"], len(WHERE)), ([], len(WHERE)), (["--version"], 0)):
        commands = Commands()
        commands.ahead(args)
        assert len(commands._found) == count


def test_command_can_be_put_in_place_of_another_and_taken_back():
    commands = Commands()
    other = click.Command("other")
    commands["other"] = commands["run"] = other
    assert (commands["run"], commands["other"], len(commands)) == (other, other, len(WHERE) + 1)
    del commands["run"], commands["other"]
    assert commands["run"].name == "run"
    assert list(commands) == list(WHERE)
    with pytest.raises(KeyError):
        commands["other"]


@pytest.mark.parametrize(("words", "code"), [(["run"], 3), (["--help"], 3), (["--version"], 0)])
def test_library_that_a_command_lacks_is_told_before_it_begins(words, code):
    script = (
        "import sys; sys.modules['junitparser'] = None; from harness.cli import entry;"
        f"sys.argv[1:] = {words!r}; entry.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    told = "error: the library junitparser, which this command needs, is not installed"
    assert done.stderr.startswith(told) == (code == 3)
