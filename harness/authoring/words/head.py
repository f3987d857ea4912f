"""Words for the head of a file: known faults, trials, what stays open, what is explored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.authoring.words.told import Told, codes, listed
from harness.reports.wording import counted
from harness.scenario.model import Known, Measured, Scenario, Trials
from harness.verdict import EXPECTATION

PROGRAMS = {
    "vllm-rs": "real frontends",
    "vllm-py": "vLLM's Python classes",
    "protocol": "whoever follows the rules of the release",
}
ONE_IN = "1 in 1,000"
"""How unlikely a miss of all trials must be."""
MEASURED = Told(
    Measured,
    lambda row: f"{row.violations} of {counted(row.trials, 'trial')} at {row.release}",
    of_head=("release", "trials", "violations"),
)


def window(known: Any) -> str:
    """The releases that have a fault, by its bounds."""
    if known.introduced_in is None and known.fixed_in is None:
        return "every release"
    bounds = []
    if known.introduced_in is not None:
        bounds.append(f"from {known.introduced_in} on")
    if known.fixed_in is not None:
        bounds.append(f"before {known.fixed_in}")
    return " and ".join(bounds)


def _known(known: Any) -> str:
    what = "an expectation of this file" if known.invariant == EXPECTATION else known.invariant
    return f"{what} is violated by {PROGRAMS[known.target]}, {window(known)}: {known.reason} ({known.link})"


KNOWN = Told(
    Known,
    _known,
    of_head=("target", "invariant", "introduced_in", "fixed_in", "reason", "link"),
    clauses={
        "measured": lambda rows: (
            f"seen in {listed(MEASURED.say(row) for row in rows)}" if rows else ""
        )
    },
)
TRIALS = Told(
    Trials,
    lambda trials: (
        f"a race: on a real target one trial misses it with a chance of {trials.miss:g}, "
        f"so it is played until a miss of all is less likely than {ONE_IN}, at most {trials.max} times"
    ),
    of_head=("miss", "max"),
)
SCENARIO = Told(
    Scenario,
    lambda scenario: scenario.title,
    of_head=(
        *("title", "promise", "refs", "profiles", "known", "invariants", "topology", "engines"),
        "steps",
    ),
    clauses={
        "format": lambda number: f"the file is of format {number}",
        "needs": lambda names: (
            f"it asks for {codes(names)} beyond what its content implies" if names else ""
        ),
        "trials": TRIALS.say,
        "connect_fails": lambda fails: (
            "startup is expected to fail, and the steps run all the same" if fails else ""
        ),
        "explore": lambda labels: (
            f"in simulation only the order of {codes(labels)} is explored; "
            "everything else runs as soon as it can"
            if labels
            else ""
        ),
        "open_at_end": lambda names: (
            f"{codes(names)} may stay open at the end, on purpose" if names else ""
        ),
    },
)
TELLERS = (SCENARIO, KNOWN, MEASURED, TRIALS)


def further(scenario: Scenario) -> list[str]:
    """What else the head of a file says, a sentence each."""
    return [f"{text[:1].upper()}{text[1:]}." for text in SCENARIO.parts(scenario)[1:]]


def known_text(known: Iterable[Known]) -> list[str]:
    """Known faults, one phrase each."""
    return [KNOWN.say(entry) for entry in known]
