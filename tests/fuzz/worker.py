"""One block of a campaign, in a process of its own."""

from __future__ import annotations

from tests.fuzz import driver, registry
from tests.fuzz.model import Input

Job = tuple[str, int, int, int]
"""Family, number of the block, seed, inputs."""
Done = tuple[int, int, dict[str, int], list[tuple[Input, str]], int]
"""Number of the block, inputs, outcomes, findings, peak memory in bytes."""


def run(job: Job) -> Done:
    """Draw and check the inputs of one block."""
    name, number, seed, inputs = job
    family = registry.family(name)
    try:
        tally = driver.block(family, number, seed, inputs)
    finally:
        family.close()
    return number, tally.inputs, dict(tally.outcomes), tally.findings, driver.peak_bytes()
