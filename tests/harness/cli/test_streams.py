"""Where output goes: readers that leave, full disks, terminals that know ASCII only, colours."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.cli import catalogue
from harness.cli.output import Output

if TYPE_CHECKING:
    from tests.harness.cli.conftest import Invoke

ROOT = Path(__file__).parents[3]
FULL = Path("/dev/full")


def wavecheck(
    *words: str, stdout: Any = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list", "mutants"], ["list", "mutants", "--json", "-"]])
def test_reader_that_leaves_is_no_violation(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = wavecheck(*words, stdout=writing, PYTHONUNBUFFERED="1")
    finally:
        os.close(writing)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    assert b"error:" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_is_told_as_such(unbuffered: str) -> None:
    with FULL.open("wb") as full:
        done = wavecheck("list", "mutants", stdout=full, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr.decode()) == (
        3,
        "error: cannot write to standard output: No space left on device\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [["list", "mutants"], ["schema", "scenario"]])
def test_output_that_is_open_for_reading_only_is_told_as_such(words: list[str]) -> None:
    with Path(os.devnull).open("rb") as reading:
        done = wavecheck(*words, stdout=reading)
    assert (done.returncode, done.stderr.decode()) == (
        3,
        "error: cannot write to standard output: Bad file descriptor\n",
    )


def failing(error: OSError) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EBADF, "Bad file descriptor"),
        OSError(errno.ELOOP, "Too many levels of symbolic links"),
        OSError(errno.ENAMETOOLONG, "File name too long", "/proc/none/of/theirs"),
        OSError(errno.ENAMETOOLONG, "File name too long", 7),
    ],
)
def test_error_that_neither_output_nor_a_name_of_the_command_line_explains_is_a_fault_of_ours(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setitem(catalogue.CATALOGUES, "mutants", failing(error))
    done = invoke("list", "mutants")
    assert done.exit_code == 3
    assert "a fault in wavecheck" in done.output


@pytest.mark.parametrize("name", ["mutants", "mutants.yaml", "mutants/x/y"])
@pytest.mark.parametrize("folder", ["", "/somewhere/", "./"])
def test_error_of_a_name_on_the_command_line_is_bad_input(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, folder: str, name: str
) -> None:
    if folder == "/somewhere/":
        name = name.partition("/")[0]
    error = OSError(errno.ELOOP, "Too many levels of symbolic links", f"{folder}{name}")
    monkeypatch.setitem(catalogue.CATALOGUES, "mutants", failing(error))
    done = invoke("list", "mutants")
    assert done.exit_code == 2
    assert "Too many levels of symbolic links" in done.output


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


@pytest.mark.slow
def test_terminal_that_knows_ascii_only_gets_everything_escaped(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("title: t\npromise: p\nrefs: [vllm#1]\nsteps×: 1\n", encoding="utf-8")
    path = path.rename(tmp_path / "×.yaml")
    done = wavecheck("validate", str(path), **ASCII)
    assert done.returncode == 2
    assert b"unknown key" in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr
    done = wavecheck("validate", str(path), "--json", "-", **ASCII)
    assert json.loads(done.stdout.decode("ascii"))["summary"]["invalid"] == 1


def test_no_color_leaves_no_escape_at_all(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in invoke("list", "mutants").output
    assert "\x1b" not in invoke("run", "no-such-scenario").output


def test_long_title_is_wrapped_on_a_terminal_and_nowhere_else(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": "an.id", "title": "word " * 30 + "end"}]
    monkeypatch.setitem(catalogue.CATALOGUES, "mutants", lambda: rows)
    assert len(invoke("list", "mutants").stdout.splitlines()) == 1
    monkeypatch.setattr(Output, "columns", 60)
    lines = invoke("list", "mutants").stdout.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("an.id  word word")
    assert all(line.startswith(" " * 7 + "word") for line in lines[1:])
