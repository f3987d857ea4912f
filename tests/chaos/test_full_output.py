"""Every command that prints, where standard output takes nothing: full, closed early, or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import cli
from tests.chaos.stages import ROOT
from tests.support.failures import MUTANT, SCENARIO, failing_run, failure_file, wavecheck

FULL = Path("/dev/full")
LIMIT_S = 60.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full"),
]
SIGNED = "--owner a --reason b --expires 9d"
STORY = "capture/12-waves --target sim --frontend 0.33.0"
COMMANDS = [
    f"run {SCENARIO}",
    f"run {SCENARIO} --mutant {MUTANT} --jobs 2 --schedules 20",
    f"run {SCENARIO} --json -",
    "list mutants",
    f"mutants {MUTANT}",
    f"explain {SCENARIO}",
    f"explain {SCENARIO} --json -",
    f"matrix {SCENARIO} --frontends reference",
    "bisect --help",  # it plays on real frontends alone
    "baseline list b.yaml",
    "baseline check run.json --baseline b.yaml",
    f"baseline write run.json -o new.yaml {SIGNED}",
    "baseline prune run.json --baseline b.yaml",
    "explore --batches 1",
    "soak stories --seeds 1 --requests 20",
    "replay failure.json",
    "replay failure.json --step",
    "shrink failure.json --budget 1s",
    *(f"report failure.json -o - --format {form}" for form in ("html", "junit", "markdown")),
    *(f"report failure.json -o - --format {form}" for form in ("json", "mermaid", "perfetto")),
    "new y --bare --template wave",
    "new --list",
    "validate story.yaml",
    "validate story.yaml --json -",
    "migrate story.yaml",
    "watch story.yaml",
    "frontend fetch --help",
    "engine --handshake 127.0.0.1:9 --engines 1",
    "decode good.capture",
    "decode good.capture --json -",
    f"capture {STORY} -o -",
    f"capture {STORY} -o new.capture",
    "diff good.capture good.capture",
    "record --from good.capture -o made",
    "record --handshake 127.0.0.1:9 --engines 1 -o made",
    "doctor",
    "completion bash",
    "schema scenario",
    "--version",
    "--help",
    "run --help",
]


def test_every_command_is_tried() -> None:
    assert {line.split()[0] for line in COMMANDS} >= set(cli.commands)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with something to read for each of the commands."""
    monkeypatch.chdir(tmp_path)
    run = failing_run(tmp_path)
    failure_file(run).rename("failure.json")
    for words in (
        f"baseline write run.json -o b.yaml {SIGNED}",
        "new story.yaml --bare --template wave",
        f"capture {STORY} -o good.capture",
    ):
        done = wavecheck(*words.split())
        assert done.exit_code == 0, done.output
    return tmp_path


def printed(line: str, stdout: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *line.split()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=LIMIT_S,
        **more,
    )


@pytest.mark.parametrize("line", COMMANDS)
def test_command_whose_output_finds_no_room_ends_with_3_and_says_so(
    folder: Path, line: str
) -> None:
    with FULL.open("wb") as full:
        done = printed(line, full)
    told = done.stderr.decode()
    assert done.returncode == 3, told
    assert told.endswith("error: cannot write to standard output: No space left on device\n")
    assert "Traceback" not in told


ASKED = [line for line in COMMANDS if line.endswith(("--json -", "-o -")) or "-o - " in line]
RESULTS = [*ASKED, "completion bash", "schema scenario"]


@pytest.mark.parametrize("line", RESULTS)
def test_result_that_is_asked_for_where_there_is_no_standard_output_is_an_error(
    folder: Path, line: str
) -> None:
    """What a command tells besides is missed by nobody who closed it; a result is."""
    done = printed(line, None, preexec_fn=close_stdout)
    assert done.returncode == 3, done.stderr.decode()
    assert done.stderr.endswith(b"cannot write to standard output: Bad file descriptor\n")


def close_stdout() -> None:
    os.close(1)


OPENS = """
import os, sys
from harness.cli import entry
sys.modules["harness.cli.main"] = sys.modules[__name__]
class COMMANDS:
    @staticmethod
    def ahead(args):
        pass
class cli:
    @staticmethod
    def main():
        os._exit(os.open(".", os.O_RDONLY))
entry.main()
"""
"""The command in the place of ours ends with the number of the first file that it opens."""


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_number_of_a_standard_stream_that_is_closed_is_given_to_nothing_else(
    closed: list[int],
) -> None:
    """Else the first socket has it, and what an engine's process prints goes there."""

    def close() -> None:
        for stream in closed:
            os.close(stream)

    words = [sys.executable, "-c", OPENS]
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=close,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode > 2


@pytest.mark.parametrize(
    "line", ["run waves", "list mutants", "report failure.json -o - --format html"]
)
def test_command_whose_reader_leaves_ends_with_141_and_no_word(folder: Path, line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = printed(line, writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
