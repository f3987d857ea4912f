"""``wavecheck completion``: scripts for shells, and what they complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import ShellComplete

from client.protocol.profiles import RELEASES
from harness.cli.main import cli
from harness.scenario import selection

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke


def completed(*words: str, begun: str) -> list[str]:
    found = ShellComplete(cli, {}, "wavecheck", "_WAVECHECK_COMPLETE").get_completions(
        list(words), begun
    )
    return [item.value for item in found if item.type == "plain"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_the_program_by_its_variable(invoke: Invoke, shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert f"_WAVECHECK_COMPLETE={shell}_complete" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_valid_in_its_shell(invoke: Invoke, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    script = invoke("completion", shell).stdout
    subprocess.run([program, "-n"], input=script, text=True, check=True)


def test_unknown_shell_is_a_wrong_use(invoke: Invoke) -> None:
    assert invoke("completion", "tcsh").exit_code == 2


def test_ids_are_completed_chapter_by_chapter() -> None:
    chapters = completed("run", begun="wav")
    assert chapters == ["waves/"]
    inside = completed("run", begun="waves/")
    assert sorted(inside) == sorted(f.id for f in selection.builtin() if f.id.startswith("waves/"))
    assert completed("run", begun="waves/stale-first") == ["waves/stale-first-request"]


def test_values_of_options_are_completed() -> None:
    assert completed("run", "--mutant", begun="coordinator-rew") == ["coordinator-rewinds"]
    assert completed("run", "--profile", begun="") == [*RELEASES, "all"]
    assert completed("run", "--frontend", begun="0.33") == ["0.33.0"]
    assert completed("run", "--strategy", begun="st") == ["stall"]
    assert "--schedules" in completed("run", begun="--sch")
    assert "doctor" in completed(begun="doc")


def test_bash_completes_an_id(invoke: Invoke, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    script = invoke("completion", "bash").stdout
    program = tmp_path / "wavecheck"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {os.getcwd()!r})\n"
        "from harness.cli import main\nmain()\n"
    )
    program.chmod(0o755)
    words = "compopt() { :; }; COMP_WORDS=(wavecheck run waves/stale-f); COMP_CWORD=2\n"
    ask = '_wavecheck_completion wavecheck; printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(
        [bash, "--norc"],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        input=f"{script}\n{words}{ask}",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "waves/stale-first-request" in done.stdout.split()
