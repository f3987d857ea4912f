"""``python -m tests.coverage``: which branches of the client, the engines and the invariants are run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
FLOOR = 100.0
"""Percent of lines and branches below which this fails."""
SINCE = (3, 12)
"""Python before that does not tell a tracer that an exception was thrown into a coroutine, so that
lines which run behind one are counted for another function, or for none."""
TESTS = (
    "tests/client",
    "tests/mock_engines",
    "tests/harness/invariants",
    "tests/harness/test_deadlock_reports.py",
    "tests/harness/test_elastic.py",
    "tests/harness/test_every_action.py",
    "tests/harness/test_lockstep.py",
    "tests/fuzz/test_limits.py",
    "tests/golden",
    "tests/parity",
    "tests/properties",
)
"""Tests of these packages; all others go through the command line or real frontends."""
MEASURED = (
    ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not vllm_rs", *TESTS),
    ("-m", "harness", "run", "--target", "sim", "--jobs", "1"),
    (
        "-m",
        "harness",
        "run",
        "--target",
        "sim",
        "--jobs",
        "1",
        "--schedules",
        "3",
        "--strategy",
        "random",
    ),
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--html", type=click.Path(file_okay=False, path_type=Path), help="Pages to look at, too."
)
@click.option("--floor", default=FLOOR, show_default=True, help="Percent below which this fails.")
def main(html: Path | None, floor: float) -> None:
    """Run tests and simulated runs, and show what they leave out. 0; 1: below the floor; 2: this Python cannot tell;
    3: one of them failed."""
    if sys.version_info[:2] < SINCE:
        click.echo(
            f"Python {sys.version.split()[0]} loses lines of coroutines to which an exception is"
            " thrown; measure with 3.12 or later: make coverage PY=python3.13",
            err=True,
        )
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "coverage"
        for words in MEASURED:
            code = measure(data, folder, *words)
            if code:
                click.echo(f"{' '.join(words)} ended with {code}: nothing can be said", err=True)
                sys.exit(3)
        coverage(data, "combine", "--quiet", folder)
        if html is not None:
            coverage(data, "html", "--directory", str(html))
        sys.exit(1 if coverage(data, "report", f"--fail-under={floor}") else 0)


def measure(data: Path, folder: str, *words: str) -> int:
    """Run a part under coverage, with its results in a folder that goes."""
    if words[1] == "harness":
        words = (*words, "--out", f"{folder}/out")
    return coverage(data, "run", "--parallel-mode", *words)


def coverage(data: Path, *words: str) -> int:
    """Call coverage with the settings of pyproject.toml; its exit code."""
    command = [sys.executable, "-m", "coverage", *words]
    environment = {**os.environ, "COVERAGE_FILE": str(data)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    main()
