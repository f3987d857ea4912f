"""The tutorial, as a reader goes through it: each command is run, what it prints is compared.

The parts before the last one are played in a folder of their own with an empty home, without the
variables of this environment, in a new virtual environment. Two things differ from what a reader
types: ``path/to/wavecheck`` is this tree, and ``python3`` is the interpreter of the tests. The
last part needs binaries of the real frontend, and is played with the environment of the tests.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.targets.vllm_rs.fetch import available
from tests.support.pages import Command, WrittenFile, difference, script

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
CLONE = "path/to/wavecheck"
REAL = "## 11. Judge a real frontend"
LIMIT_S = 540
"""Safety net of the whole page, in seconds; it takes about a minute, half of it in pip."""
KEPT = ("PIP_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy")
"""Variables of this environment that pip needs where packages come from elsewhere."""


@dataclass(frozen=True)
class Printed:
    command: Command
    lines: list[str]
    code: int


def parts() -> tuple[list[Command | WrittenFile], list[Command | WrittenFile]]:
    """The parts that need nothing, and the one that needs binaries."""
    text = PAGE.read_text(encoding="utf-8")
    before, heading, behind = text.partition(REAL)
    assert heading
    return script(before), script(behind)


def played(doings: list[Command | WrittenFile], folder: Path, env: dict[str, str]) -> list[Printed]:
    """Run commands in one shell, one after the other, and say what each printed."""
    outputs = folder.parent / "outputs"
    outputs.mkdir()
    lines = []
    commands = [doing for doing in doings if isinstance(doing, Command)]
    for number, command in enumerate(commands):
        typed = command.line.replace(CLONE, str(ROOT)).replace("python3 ", f"{sys.executable} ")
        # Each command finds the exit code of the one before in $?, as in a terminal.
        lines += [f"(exit ${{code:-0}}); {{ {typed}", f"}} >{outputs}/{number}.out 2>&1"]
        lines += [f"code=$?; echo $code >{outputs}/{number}.code"]
    for doing in doings:
        if isinstance(doing, WrittenFile):
            (folder / doing.name).write_text(doing.text, encoding="utf-8")
    text = "\n".join(lines)
    subprocess.run(
        ["bash"], input=text, text=True, cwd=folder, env=env, timeout=LIMIT_S, check=False
    )
    return [_printed(outputs, number, command) for number, command in enumerate(commands)]


def _printed(outputs: Path, number: int, command: Command) -> Printed:
    text = (outputs / f"{number}.out").read_text(encoding="utf-8")
    return Printed(command, text.splitlines(), int((outputs / f"{number}.code").read_text()))


def problems(printed: list[Printed]) -> list[str]:
    """What a reader would see that the page does not show."""
    found = []
    for each, following in zip(printed, [*printed[1:], None], strict=True):
        shown = each.command.shown
        asked = following is not None and following.command.line == "echo $?"
        said = any(f"exit {each.code}:" in line for line in shown)
        text = "\n".join(each.lines)
        if each.code and not asked and not said:
            found.append(f"$ {each.command.line}\nends with {each.code}:\n{text}")
        elif lost := difference(shown, each.lines):
            found.append(f"$ {each.command.line}\ndoes not print: {lost}\nbut:\n{text}")
    return found


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 30)
def test_tutorial_in_an_empty_home_and_a_new_environment_shows_what_the_page_shows(tmp_path):
    faulthandler.cancel_dump_traceback_later()  # on a busy machine it may take its time
    doings, _ = parts()
    folder, home = tmp_path / "tutorial", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    env = {key: value for key, value in os.environ.items() if key.startswith(KEPT)}
    env |= {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    printed = played(doings, folder, env)
    found = problems(printed)
    assert not found, "\n\n".join(found)
    assert {"run", "replay", "explore"} <= {each.command.line.split()[1] for each in printed}
    assert (folder / "failure.html").stat().st_size > 10_000


@pytest.mark.vllm_rs
@pytest.mark.timeout(300)
def test_tutorial_on_real_frontends_shows_what_the_page_shows(tmp_path):
    for release in ("0.28.0", "0.29.0"):
        if available(release) is None:
            pytest.skip(f"no binary of the frontend {release}")
    before, doings = parts()
    folder = tmp_path / "tutorial"
    folder.mkdir()
    files = [doing for doing in before if isinstance(doing, WrittenFile)]
    runs = [doing for doing in doings if isinstance(doing, Command) and "pip" not in doing.line]
    assert len(runs) == 2
    ours = shutil.which("wavecheck", path=str(Path(sys.executable).parent))
    assert ours is not None
    env = {**os.environ, "PATH": f"{Path(ours).parent}{os.pathsep}{os.environ['PATH']}"}
    found = problems(played([*files, *runs], folder, env))
    assert not found, "\n\n".join(found)


def test_tutorial_writes_a_scenario_of_at_most_fifteen_lines():
    (written,) = [doing for doing in parts()[0] if isinstance(doing, WrittenFile)]
    assert len(written.text.splitlines()) <= 15


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["a", "c"], ["a", "b"]),
        (["a", "c"], ["a", "b", "c"]),
        (["a"], ["a", "b"]),
        (["a", "…", "c"], ["a", "b"]),
        (["…", "b", "a", "…"], ["a", "b"]),
        (["b … (0.01 s)"], ["b x (soon)"]),
    ],
)
def test_line_that_the_page_shows_and_nobody_printed_is_found(shown, printed):
    assert difference(shown, printed) is not None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ([], ["anything"]),
        (["a", "b"], ["a", "b"]),
        (["…", "c", "…"], ["a", "b", "c"]),
        (["…", "b", "c"], ["b", "x", "b", "c"]),
        (["… b (0.01 s)", "2 passed in 0.10s"], ["a b (12.5 s)", "2 passed in 3.42s"]),
    ],
)
def test_ellipsis_stands_for_words_and_lines_and_durations_vary(shown, printed):
    assert difference(shown, printed) is None


def test_command_that_fails_unannounced_is_a_problem():
    silent = Command("false")
    assert problems([Printed(silent, [], 1)]) != []
    assert problems([Printed(silent, [], 1), Printed(Command("echo $?"), ["1"], 0)]) == []
    told = Command("wavecheck run", ["…; exit 1: violated"])
    assert problems([Printed(told, ["x; exit 1: violated"], 1)]) == []
    assert problems([Printed(told, ["x; exit 1: violated"], 2)]) != []
