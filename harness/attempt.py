"""One schedule or trial of a scenario, and what it shows."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import msgspec

from harness.capture.listening import Listening
from harness.invariants.base import Verdict
from harness.play import Played
from harness.results import ExpectationResult, VerdictResult
from harness.tape import Replayer, Tape
from harness.trace.render import render
from harness.verdict import VIOLATED


@functools.lru_cache(maxsize=64)
def _results_of(verdicts: tuple[Verdict, ...]) -> tuple[VerdictResult, ...]:
    """Kept: they are the same for many schedules in a row."""
    return tuple([VerdictResult(*msgspec.structs.astuple(verdict)) for verdict in verdicts])


@functools.lru_cache(maxsize=64)
def _wished(verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    return tuple(v for v in verdicts if v.verdict == VIOLATED and v.level != "must")


@functools.lru_cache(maxsize=64)
def _breaks_a_must(verdicts: tuple[Verdict, ...]) -> bool:
    return any(v.verdict == VIOLATED and v.level == "must" for v in verdicts)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One schedule or trial.

    Attributes:
        stalls: what its schedule is made of, where it is FIFO order but for given stalls.
        listening: who listened at the engines' sockets, where it cannot be played again.
    """

    played: Played
    tape: Tape | None
    digest: str
    stalls: tuple[int, ...] | None = None
    listening: Listening | None = None

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
        return list(self.results)

    @property
    def results(self) -> tuple[VerdictResult, ...]:
        """The same, shared by all attempts whose verdicts are alike."""
        return _results_of(self.played.verdicts)

    @property
    def wished(self) -> tuple[Verdict, ...]:
        """Violations of a ``should``."""
        return _wished(self.played.verdicts)

    @property
    def violated(self) -> bool:
        """Whether it shows a violation of a ``must`` or an expectation."""
        return _breaks_a_must(self.played.verdicts) or any(
            r.outcome.status == VIOLATED for r in self.played.story.results
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
