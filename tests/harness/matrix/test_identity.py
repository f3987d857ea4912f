"""A finished cell is known by everything that it depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.matrix import identity
from harness.matrix.identity import cell_key
from harness.version import tool_version
from tests.harness.matrix.conftest import column
from tests.support.stories import load

LOADED = load("steps:\n  - fence: true\n")


def key(loaded=LOADED, on=None, repeat=1, budget=30.0):
    return cell_key(loaded, on or column("0.24.0"), repeat=repeat, race_budget_s=budget)


@pytest.mark.parametrize(
    "changed",
    [
        {"loaded": load("steps:\n  - fence: true\n# a word\n")},
        {"loaded": load("steps:\n  - fence: true\n", name="stories/other")},
        {"on": column("0.25.0")},
        {"on": replace(column("0.24.0"), release="0.25.0")},
        {"on": replace(column("0.24.0"), identity="of another build")},
        {"repeat": 2},
        {"budget": 1.0},
    ],
)
def test_key_differs_where_a_cell_may(changed):
    assert key(**changed) != key()


def test_key_is_the_same_for_the_same_cell_wherever_the_file_lies():
    assert key(replace(LOADED, path=LOADED.path.absolute())) == key()


def test_key_depends_on_the_code_of_the_tool(monkeypatch):
    before = key()
    monkeypatch.setattr(identity, "tool_identity", lambda: "another")
    assert key() != before


def test_identity_of_the_tool_names_its_version_and_covers_its_code():
    version, _, digest = identity.tool_identity().partition("+")
    assert version == tool_version().partition("+")[0]
    assert len(digest.rpartition("+")[2]) == 64
