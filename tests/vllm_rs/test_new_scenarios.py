"""What ``wavecheck new`` writes holds on a real frontend, where the template says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.protocol.profiles import NEWEST
from harness.authoring.order import Order, filled
from harness.authoring.starting import STARTS
from harness.authoring.writing import text_of
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse
from harness.targets.vllm_rs.fetch import available
from harness.verdict import HELD

pytestmark = pytest.mark.vllm_rs


@pytest.mark.parametrize("name", [n for n, start in STARTS.items() if "vllm-rs" in start.targets])
def test_template_holds_on_the_newest_frontend(name: str, tmp_path: Path) -> None:
    if available(NEWEST) is None:
        pytest.skip(f"no binary of the frontend {NEWEST}")
    loaded = parse(text_of(filled(Order(STARTS[name])), None), Path("x.yaml"), name="x")
    options = RunOptions(target="vllm-rs", frontend=NEWEST, out=tmp_path)
    result = run_scenario(loaded, options)
    assert result.status == HELD, (result.error, result.reason, result.expectations)
