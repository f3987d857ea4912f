"""One schedule or trial of a scenario, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass

from harness.play import Played
from harness.results import ExpectationResult, VerdictResult
from harness.tape import Replayer, Tape
from harness.trace.render import render
from harness.verdict import VIOLATED


@dataclass(frozen=True, slots=True)
class Attempt:
    """One schedule or trial.

    Attributes:
        stalls: what its schedule is made of, where it is FIFO order but for given stalls.
    """

    played: Played
    tape: Tape | None
    digest: str
    stalls: tuple[int, ...] | None = None

    @property
    def expectations(self) -> list[ExpectationResult]:
        """Results of the scenario's own steps."""
        return [
            ExpectationResult(r.step, r.outcome.status, r.outcome.expected, r.outcome.seen)
            for r in self.played.story.results
        ]

    @property
    def verdicts(self) -> list[VerdictResult]:
        """Verdicts in the form of a report."""
        return [
            VerdictResult(
                v.invariant, v.level, v.verdict, v.reason, v.exercised, v.message, v.expected,
                v.seen, v.witness,
            )
            for v in self.played.verdicts
        ]  # fmt: skip

    @property
    def violated(self) -> bool:
        """Whether it shows a violation of a ``must`` or an expectation."""
        return any(r.outcome.status == VIOLATED for r in self.played.story.results) or any(
            v.verdict == VIOLATED and v.level == "must" for v in self.played.verdicts
        )

    def event_lines(self, numbers: tuple[int, ...]) -> tuple[str, ...]:
        """Witness events as text, in order."""
        records = self.played.records
        # A real clock starts long before the run does; a simulated one with it.
        start_us = records[0].time_us if records and self.tape is None else 0
        return tuple(
            render(records[n], start_us=start_us) for n in sorted(set(numbers)) if n < len(records)
        )


class Again(Replayer):
    """Decides as a tape did; lets a recorder add the labels."""

    def begin(self) -> None:
        """The tape is at its start already."""


def expectation_name(step: int) -> str:
    """What a failed expectation is called in a failure file."""
    return f"expectation at step {step}"
