"""The page of findings and the chapter behind it say the same."""

from __future__ import annotations

import re
from pathlib import Path

from client.protocol.profiles import NEWEST, profile_for
from harness.verdict import predicted
from tests.support.collection import every_scenario

PAGE = (Path(__file__).parents[2] / "docs" / "findings.md").read_text(encoding="utf-8")
ALL = {loaded.id: loaded for loaded in every_scenario()}
OPEN = sorted(
    name
    for name, loaded in ALL.items()
    if any(known.target == "vllm-rs" for known in loaded.scenario.known)
    and predicted(
        [known for known in loaded.scenario.known if known.target == "vllm-rs"],
        profile_for(NEWEST).version,
    )
)


def entries() -> list[str]:
    """Scenario ids of the table's rows."""
    names = re.findall(r"^\| \[([\w/-]+)\]\(#", PAGE, flags=re.MULTILINE)
    return sorted(name if "/" in name else f"findings/{name}" for name in names)


def test_every_fault_that_is_open_in_the_newest_release_has_an_entry_and_no_other():
    assert entries() == OPEN


def test_every_entry_has_a_section_with_its_command_that_says_since_when():
    for name in entries():
        section = re.search(
            rf"^## {re.escape(name.rpartition('/')[2])}\n(.*?)(?=^## |\Z)",
            PAGE,
            re.MULTILINE | re.DOTALL,
        )
        assert section is not None, name
        command = f"`wavecheck run {name} --target vllm-rs --frontend {NEWEST}`"
        for part in (f"- **Run**: {command}", "**Observed**", "**Right**", "**Since**"):
            assert part in section[1], (name, part)


def test_findings_were_measured_on_the_newest_release_ten_times_of_ten():
    for name in OPEN:
        for known in ALL[name].scenario.known:
            if known.target != "vllm-rs" or known.fixed_in is not None:
                continue
            rows = [row for row in known.measured if row.release == NEWEST]
            assert rows, name
            assert all(row.trials >= 10 for row in rows), name
            if ALL[name].scenario.trials is None:
                assert all(row.violations == row.trials for row in rows), name
