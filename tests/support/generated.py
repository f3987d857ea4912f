"""Generated scenarios in batches, each with a seed, as a hunt draws them."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from harness.generate.drafts import Can, Draft, drafts
from harness.generate.mending import scenario_of
from harness.scenario.model import Scenario

EXAMPLES = 10


def drawn(can: Can, number: int) -> list[Draft]:
    """The drafts of one batch."""
    found: list[Draft] = []

    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drafts(can))
    def draw(draft: Draft) -> None:
        found.append(draft)

    draw()
    return found


def made(can: Can, number: int) -> list[tuple[Scenario, dict[str, Any]]]:
    """What becomes of them, as models and as data."""
    return [one for draft in drawn(can, number) if (one := scenario_of(draft, can)) is not None]


def scenarios(can: Can, number: int) -> list[Scenario]:
    """What becomes of them."""
    return [scenario for scenario, _ in made(can, number)]
