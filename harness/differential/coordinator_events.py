"""What happens to an external coordinator, from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.strategies.shuffle import Stream


@dataclass(frozen=True, slots=True)
class Event:
    """``what`` with ``args``, after ``after`` thousandths of the time to the next publish.

    Waves are relative to the coordinator's. ``quiet``: nothing comes before the publish.
    """

    what: str
    args: tuple[Any, ...]
    after: int


def make_events(seed: int, number: int, engines: int, *, skips_unknown: bool) -> list[Event]:
    """Return the events of one sequence."""
    below = Stream(seed, number).below

    def event() -> Event:
        engine, delta = below(engines), (0, 0, 1, -1)[below(4)]
        after = (0, 10, 500, 999)[below(4)]
        match below(16):
            case 0 | 1 | 2 | 3 | 4:
                outside = skips_unknown and below(12) == 0
                index = engines + 4 if outside else engine
                args = (index, delta, below(4), below(5), below(5), below(11) / 10)
                return Event("stats", args, after)
            case 5 | 6:
                return Event("complete", (engine, delta), after)
            case 7 | 8:
                return Event("start", (engine, delta), after)
            case 9 | 10:
                return Event("first", (None if below(4) == 0 else engine, delta), after)
            case 11:
                return Event("subscription", ((b"\1", b"\0", b"odd")[below(3)],), after)
            case 12:
                return Event("scale", (engines + below(3),), after)
            case 13 if below(30) == 0:
                return Event("reply", (engine,), after)
        return Event("quiet", (), 0)

    return [event() for _ in range(5 + below(40))]
