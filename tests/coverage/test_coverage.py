"""Lines are left out of coverage for a reason, or not at all."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRAGMA = "pragma: no "
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
REPORT = SETTINGS["report"]


@pytest.mark.parametrize(
    ("line", "out"),
    [
        ("x = 1  # pragma: no cover", False),
        ("x = 1  # pragma: no cover - ", False),
        ("x = 1  # pragma: no cover - only on Windows", True),
        ("x = 1  # pragma: no cover - a fault of pyzmq", True),
        ("if TYPE_CHECKING:", True),
        ("    assert_never(event)", True),
        ("    case _:\n        assert_never(event)", True),
        ("    case _:\n        return None", False),
        ("x = 1", False),
    ],
)
def test_a_line_is_left_out_only_with_a_reason(line, out):
    patterns = [*REPORT["exclude_lines"], *REPORT["exclude_also"]]
    assert any(re.search(pattern, line) for pattern in patterns) is out


def test_no_line_of_what_is_measured_is_marked_without_a_reason():
    reason = re.compile(r"pragma: no (cover|branch) - \w[\w ]{2}")
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for top in ("client", "mock_engines", "harness/invariants")
        for path in sorted((ROOT / top).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PRAGMA in line and not reason.search(line)
    ]
    assert bare == []


def test_branches_and_child_processes_are_measured():
    assert SETTINGS["run"]["branch"]
    assert "subprocess" in SETTINGS["run"]["patch"]
    assert SETTINGS["run"]["source"] == ["client", "mock_engines", "harness.invariants"]
