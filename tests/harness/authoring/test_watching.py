"""From changes to what is played: pure, so every case is a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.authoring.watching import Round, Watched, next_round

OWN = Path("/own")
CODE = Path("/code/harness")
A, B, NEW = OWN / "a.yaml", OWN / "deep" / "b.yml", OWN / "deep" / "new.yaml"
ONE = Path("/elsewhere/one.yaml")
MUTANT = CODE / "mutants" / "mine.py"
BINARY, ADAPTER = Path("/build/vllm-rs"), Path("/client")
WATCHED = Watched(frozenset({ONE}), (OWN,), (CODE,), (BINARY, ADAPTER))


def decide(*changed: Path, gone: frozenset[Path] = frozenset()) -> Round | None:
    return next_round(changed, WATCHED, lambda path: path not in gone)


@pytest.mark.parametrize(
    ("changed", "played"),
    [
        ((A,), (A,)),
        ((A, A), (A,)),
        ((B, A), (A, B)),
        ((NEW,), (NEW,)),
        ((ONE,), (ONE,)),
        ((ONE, A), (ONE, A)),
        ((A, OWN / "notes.txt"), (A,)),
    ],
)
def test_saved_scenario_is_played_itself(
    changed: tuple[Path, ...], played: tuple[Path, ...]
) -> None:
    expected = tuple(sorted(played))
    assert decide(*changed) == Round(expected, expected)


@pytest.mark.parametrize(
    "changed",
    [
        (),
        (ONE.with_name("two.yaml"),),
        (OWN / "schema.json",),
        (OWN / ".a.yaml.swp",),
        (OWN / ".hidden.yaml",),
        (OWN / ".git" / "x.yaml",),
        (OWN / "a.yaml~",),
        (OWN / "tool.py",),
        (CODE / "__pycache__" / "mine.py",),
        (CODE / "mutants" / "mine.cpython-311.pyc",),
        (CODE / "page.html",),
        (BINARY.with_name("vllm-rs.d"),),
        (ADAPTER / "main.pyc",),
    ],
)
def test_change_that_decides_nothing_plays_nothing(changed: tuple[Path, ...]) -> None:
    assert decide(*changed) is None


@pytest.mark.parametrize("changed", [MUTANT, BINARY, ADAPTER / "src" / "main.go"])
def test_changed_code_plays_everything(changed: Path) -> None:
    assert decide(changed) == Round((changed,), everything=True)


def test_changed_code_beside_a_scenario_plays_everything_once() -> None:
    assert decide(A, MUTANT) == Round((MUTANT, A) if MUTANT < A else (A, MUTANT), everything=True)


def test_scenario_that_is_gone_is_told_and_not_played() -> None:
    found = decide(A, B, gone=frozenset({A}))
    assert found == Round((A, B), (B,), gone=(A,))
    only = decide(A, gone=frozenset({A}))
    assert only == Round((A,), (), gone=(A,))
    assert not only.plays


def test_scenario_saved_by_renaming_is_played_although_it_was_removed_first() -> None:
    """Both changes come as one path; what counts is whether it is there now."""
    assert decide(A, OWN / "4913", OWN / "a.yaml~", A) == Round((A,), (A,))


def test_scenario_below_watched_code_is_a_scenario() -> None:
    watched = Watched(folders=(CODE,), code=(CODE,))
    path = CODE / "builtin" / "x.yaml"
    assert next_round([path], watched, lambda _: True) == Round((path,), (path,))
