"""A link step reaches the faults of a frontend, or says that there are none."""

from __future__ import annotations

import pytest

from harness.faults import FaultTransport, LinkFault
from harness.links_step import apply_link_step
from harness.scenario.model import LinkStep
from harness.targets.base import TargetError


class Faulted:
    """A frontend whose sends can be faulted; nothing is sent here."""

    def __init__(self):
        self.faults = FaultTransport(None, None)  # type: ignore[arg-type]

    @property
    def now(self):
        return self.faults._faults


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (LinkStep(fail="x"), LinkFault("all", "any", fail="x")),
        (LinkStep(engine=3, frames="add", hold="g"), LinkFault(3, "add", hold="g")),
        (
            LinkStep(engine="coordinator", hold_after="g"),
            LinkFault("coordinator", "any", hold_after="g"),
        ),
    ],
)
def test_link_step_adds_the_fault_that_it_names(step, fault):
    frontend = Faulted()
    apply_link_step(frontend, step)
    assert frontend.now == [fault]


def test_link_step_clears_the_faults_of_one_engine():
    frontend = Faulted()
    for engine in (0, 1):
        apply_link_step(frontend, LinkStep(engine=engine, fail="x"))
    apply_link_step(frontend, LinkStep(engine=0, clear=True))
    assert frontend.now == [LinkFault(1, "any", fail="x")]


def test_healing_clears_the_faults_of_all_engines():
    frontend = Faulted()
    apply_link_step(frontend, LinkStep(engine=0, fail="x"))
    apply_link_step(frontend, LinkStep(engine="coordinator", fail="x"))
    apply_link_step(frontend, None)
    assert frontend.now == []


def test_link_step_on_a_frontend_without_faults_is_refused_and_healing_is_not():
    with pytest.raises(TargetError, match=r"^this target cannot fault single sends$"):
        apply_link_step(object(), LinkStep(fail="x"))
    apply_link_step(object(), None)
