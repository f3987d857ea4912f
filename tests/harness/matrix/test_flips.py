"""Where a promise was mended or broken."""

from __future__ import annotations

from client.protocol.profiles import RELEASES
from harness.matrix.flips import flips
from harness.matrix.model import Column, Flip, Table
from tests.harness.matrix.conftest import ROW, cell, table


def changes(*cells: object) -> list[tuple[str, str, str]]:
    found = flips(table(*cells), RELEASES)  # type: ignore[arg-type]
    return [(flip.before, flip.after, flip.direction) for flip in found]


def test_promise_that_is_kept_from_a_release_on_was_fixed_there() -> None:
    cells = [cell("0.23.0", "known"), cell("0.24.0", "known"), cell("0.25.0", "held")]
    assert flips(table(*cells), RELEASES) == [
        Flip(ROW.id, "wave.never-rewinds", "0.24.0", "0.25.0", "fixed")
    ]


def test_promise_that_is_broken_and_mended_again_flips_twice() -> None:
    cells = [cell("0.23.0", "held"), cell("0.24.0", "regression"), cell("0.25.0", "held")]
    assert changes(*cells) == [("0.23.0", "0.24.0", "broken"), ("0.24.0", "0.25.0", "fixed")]


def test_columns_are_compared_by_age_not_as_they_stand() -> None:
    assert changes(cell("0.25.0", "held"), cell("0.24.0", "known")) == [
        ("0.24.0", "0.25.0", "fixed")
    ]


def test_release_that_judges_nothing_is_passed_over() -> None:
    """Not judged, in error or unstable: none of them says where a promise changed."""
    for status in ("not_judged", "error", "unstable"):
        cells = [cell("0.23.0", "known"), cell("0.24.0", status), cell("0.25.0", "held")]
        assert changes(*cells) == [("0.23.0", "0.25.0", "fixed")]


def test_cell_that_did_not_exercise_the_promise_proves_no_fix() -> None:
    assert changes(cell("0.24.0", "known"), cell("0.25.0", "held", held=())) == []


def test_blind_cell_counts_as_kept_since_that_is_what_was_seen() -> None:
    assert changes(cell("0.23.0", "known"), cell("0.24.0", "blind")) == [
        ("0.23.0", "0.24.0", "fixed")
    ]


def test_builds_and_reference_frontends_take_no_part() -> None:
    build = Column("./vllm-rs", "0.25.0", False, "x")
    cells = (cell("0.24.0", "known"), cell("./vllm-rs", "held"))
    whole = table(cells[0])
    mixed = Table((*whole.columns, build), (ROW,), {(c.scenario, c.frontend): c for c in cells})
    assert flips(mixed, RELEASES) == []
