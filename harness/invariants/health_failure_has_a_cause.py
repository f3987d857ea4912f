"""Invariant health.failure-has-a-cause."""

from __future__ import annotations

from client.events import HealthFailed
from client.protocol.ids import U32_MAX
from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import coordinator_step
from harness.invariants.base import RunContext
from harness.trace.events import Event, Record, StepBegan
from mock_engines.events import EngineDied, OutputSent, RawSent, StatsSent, WaveNoticeSent

CLOSED = "ClientClosed"
"""The error of a client that was shut down, which needs no cause."""


class FailureHasACause(RunInvariant):
    """Messages that are late, double or meant for nobody harm nobody.

    Statement: A client fails only if it was shut down, or if before that an engine said its last
        word, an engine or the coordinator spoke by scripted bytes, a message carried a number that
        its field cannot hold, or a link to the coordinator failed.
    Reason: A failure closes everything for every caller and every engine. What an engine may say
        at any time, such as the answer to somebody who has left, must not bring it about.
    Source: fault class of the blast radius; protocol page, sections 5.2, 5.3 and 9.2; the Python
        client of 0.33.0, whose receiver ends with a reply that nobody waits for.
    Limits: Reference client only. Whether a cause is the cause is not asked. Engines that join in
        a way of their own, or are of another release, are left out.
    """

    id = "health.failure-has-a-cause"
    needs = frozenset({"see.client-events"})
    handles = event_types(
        (HealthFailed, RawSent, EngineDied, OutputSent, StatsSent, WaveNoticeSent, StepBegan)
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._cause = not context.once(_is_plain)
        self._before: Record | None = None

    def see(self, record: Record) -> None:
        """Look for a cause; judge the first failure."""
        event = record.event
        if event.__class__ is StepBegan:  # first: most of them are
            self._cause = self._cause or self._by_script(record)
            return
        if event.__class__ is HealthFailed:
            if event.first and event.error != CLOSED:
                self._failed(record, event)
            return
        if isinstance(event, _SENT):
            self._before = record
            self.exercised += 1
        self._cause = self._cause or _may_be_fatal(event)

    def _by_script(self, record: Record) -> bool:
        step = coordinator_step(self.context, record)
        return step is not None and (step.publish is not None or step.publish_raw is not None)

    def _failed(self, record: Record, event: HealthFailed) -> None:
        self.exercised += 1
        if not self._cause:
            self.violate(
                f"the client failed with {event.error}, and nobody did anything fatal",
                expected="a client that is sound",
                seen=f"{event.error}: {event.message}",
                witness=(record,) if self._before is None else (self._before, record),
            )


_SENT = (OutputSent, StatsSent, WaveNoticeSent)


def _may_be_fatal(event: Event) -> bool:
    match event:
        case RawSent() | EngineDied(how="sentinel"):
            return True
        case OutputSent(tokens=tokens):
            return any(not 0 <= token <= U32_MAX for token in tokens)
        case StatsSent(running=running, waiting=waiting):
            return min(running, waiting) < 0
        case WaveNoticeSent(wave=wave):
            return not 0 <= wave <= U32_MAX
        case _:
            return False


def _is_plain(context: RunContext) -> bool:
    """Whether engines are of the client's release and join so, and no coordinator link fails."""
    scenario = context.scenario
    if scenario.topology.engine_release is not None:
        return False
    if any(spec.join.model_fields_set - {"gate"} for spec in scenario.engines):
        return False
    links = [step.link for step in scenario.steps if step.link is not None]
    return not any(link.engine == "coordinator" and link.fail is not None for link in links)
