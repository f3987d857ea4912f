"""Carries a ``link`` step out on a frontend whose sends can be faulted."""

from __future__ import annotations

from harness.faults import FaultTransport
from harness.scenario.model import LinkStep
from harness.targets.base import Frontend, TargetError


async def links_confirmed(frontend: Frontend) -> None:
    """Return once faults that somebody else carries out are in force; at once for our own."""
    confirmed = getattr(getattr(frontend, "faults", None), "confirmed", None)
    if confirmed is not None:
        await confirmed()


def apply_link_step(frontend: Frontend, step: LinkStep | None) -> None:
    """Set or clear link faults; ``None`` clears all (healing), also where there are none.

    Raises:
        TargetError: a fault is asked for and this frontend's sends cannot be faulted.
    """
    faults: FaultTransport | None = getattr(frontend, "faults", None)
    if faults is not None:
        if step is None:
            faults.clear()
        else:
            faults.apply(step)
    elif step is not None:
        msg = "this target cannot fault single sends"
        raise TargetError(msg)
