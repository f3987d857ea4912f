"""Which target can do and show what, as rows of a table: read from the targets' own sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from client.protocol.profiles import RELEASES
from harness.targets import client_frontend
from harness.targets.capabilities import CAPABILITIES
from harness.targets.reference import SimTarget, ZmqTarget
from harness.targets.vllm_py import client_part, coordinator_part
from harness.targets.vllm_rs.capabilities import capabilities as of_release
from harness.targets.vllm_rs.reference import reference_capabilities

YES, NO = "yes", "–"
Sets = Callable[[str], frozenset[str]]
"""Capabilities by release."""

_REFERENCE = client_frontend.CAPABILITIES
COLUMNS: Mapping[str, Sets] = {
    "`sim`": lambda _release: _REFERENCE | SimTarget.extra,
    "`zmq`": lambda _release: _REFERENCE | ZmqTarget.extra,
    "`vllm-rs`": of_release,
    "`vllm-rs`, reference": reference_capabilities,
    "`vllm-py`": lambda _release: client_part.CAPABILITIES | coordinator_part.CAPABILITIES,
    "`adapter`, Python": lambda _release: _REFERENCE,
}
"""Targets, in order. Other adapters say themselves what they can do."""
HEAD = ("capability", *COLUMNS, "meaning")


def cell(name: str, sets: Sets, releases: Iterable[str] = RELEASES) -> str:
    """Whether a target has a capability: always, never, or since which release."""
    having = [release for release in releases if name in sets(release)]
    every = list(releases)
    if not having:
        return NO
    if len(having) == len(every):
        return YES
    first = every.index(having[0])
    if having == every[first:]:
        return f"≥ {having[0]}"
    return ", ".join(having)


def rows() -> list[tuple[str, ...]]:
    """One row for each capability."""
    return [
        (f"`{name}`", *(cell(name, sets) for sets in COLUMNS.values()), meaning)
        for name, meaning in CAPABILITIES.items()
    ]
