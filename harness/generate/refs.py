"""What a draft says instead of a name: the second engine, the last call, a new gate.

Which ranks, operations and gates there are depends on the rest of a scenario, so a draft points at
them by number, and ``mending`` puts the names in. A number beyond what there is counts round, so
that any draft means something and a smaller number means something simpler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RefKind = Literal[
    "rank",
    "rank-or-all",
    "rank-or-coordinator",
    "wanted-rank",
    "new-call",
    "new-utility",
    "new-request",
    "new-crowd",
    "open-op",
    "open-call",
    "call-id",
    "request",
    "new-gate",
    "closed-gate",
    "called-method",
    "frontend",
]


@dataclass(frozen=True, slots=True)
class Ref:
    """One thing of a kind, counted from 0; of operations the last one is 0.

    The kinds: a rank of the topology, such a rank or ``all`` or the coordinator, a rank that a
    caller asks for (which may be none), names for what is new, an operation or a call that is
    open, any call's id, any call as a rule names it, a gate to wait at, one to open, a method as
    engines know it, a frontend.
    """

    kind: RefKind
    n: int = 0
