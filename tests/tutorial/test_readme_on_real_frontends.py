"""The README shows what a real frontend is seen to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.targets.vllm_rs.fetch import available
from tests.support.pages import Command, script, shown_line

OTHER_ORDER = "received collective_rpc after it had ended"
"""Title of the same violation where the second engine is told only after the call has ended."""
ATTEMPTS = 5
"""Runs in which the engines may be told in that other order, which is rare."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.vllm_rs
@pytest.mark.timeout(120)
def test_readme_shows_what_a_run_on_a_real_frontend_prints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    doings = script((ROOT / "README.md").read_text(encoding="utf-8"))
    runs = [each for each in doings if isinstance(each, Command) and each.shown]
    runs = [each for each in runs if "--target vllm-rs" in each.line]
    assert runs
    for run in runs:
        words = run.line.split()[1:]
        release = words[words.index("--frontend") + 1]
        if available(release) is None:
            pytest.skip(f"no binary of the frontend {release}")
        for _ in range(ATTEMPTS):
            printed = CliRunner().invoke(cli, words).output.splitlines()
            if not any(OTHER_ORDER in line for line in printed):
                break
        # The lines of a witness may come in either order: engines are told by separate sends.
        for line in run.shown:
            assert any(shown_line(line).fullmatch(each.rstrip()) for each in printed), line
