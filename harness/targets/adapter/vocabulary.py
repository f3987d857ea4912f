"""What an adapter may declare, and what the harness adds because it provides it itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from harness.targets.capabilities import CAPABILITIES

PROVIDED = frozenset(
    {
        *("see.wire", "see.results", "op.generate"),
        *("fault.engine-vanish", "fault.engine-stall", "fault.engine-rejoin"),
        "topology.two-frontends",
    }
)
"""Every adapter has these: engines and a second frontend are ours, a call is the least it can do."""
REFUSED = {
    "op.http": "there is no line for a raw HTTP request",
    "op.grpc": "there is no line for a raw gRPC call",
    "op.frontend-args": "a scenario's arguments are those of a binary",
    "see.log": "what an adapter writes to standard error is not judged",
    "see.metrics": "there is no line for metrics",
    "see.process": "the process that could be seen is the adapter's",
    "see.coordinator-log": "an external coordinator is the harness's own",
    "fault.signal": "a signal would hit the adapter",
    "fault.starved": "the process that would be starved is the adapter's",
    "world.virtual-time": "an adapter lives in real time",
}
"""What no adapter can declare in this version of the protocol, and why."""
WHITE_BOX = "see.client-events"
"""Whoever declares it shows all events of its client; everybody else is a black box."""


def problems(declared: Iterable[str]) -> list[str]:
    """Return what is wrong with an adapter's capabilities, one line each."""
    found = []
    for name in declared:
        if name in REFUSED:
            found.append(f"capability {name!r} cannot be declared: {REFUSED[name]}")
        elif name not in CAPABILITIES:
            found.append(f"there is no capability {name!r}{nearest(name, CAPABILITIES)}")
    return found


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``; nearest: …`` if a known word is near, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; nearest: {near[0]!r}" if near else ""
