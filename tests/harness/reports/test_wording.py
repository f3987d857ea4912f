"""How numbers of things read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.reports.wording import counted

ROOT = Path(__file__).resolve().parents[3]
SHOWN = ("harness/cli", "harness/reports", "harness/scenario")


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("scenario",), "1 scenario"),
        (0, ("scenario",), "0 scenarios"),
        (1200, ("cell",), "1200 cells"),
        (2, ("story", "stories"), "2 stories"),
    ],
)
def test_one_is_singular_and_all_else_plural(number, words, said):
    assert counted(number, *words) == said


def test_no_text_puts_a_plural_behind_a_number_that_may_be_one():
    nouns = r"(?:scenario|frontend|cell|file|problem|engine|schedule|trial|message|storie)s"
    wrong = re.compile(rf"\{{len\([^{{}}]*\)\}} {nouns}\b")
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in SHOWN
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in wrong.finditer(path.read_text(encoding="utf-8"))
    ]
    # Where the number is more than one by the condition before it.
    allowed = {"harness/cli/bisect_cmd.py"}
    assert [one for one in found if one.partition(":")[0] not in allowed] == []
