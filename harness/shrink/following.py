"""Schedules near a given one, for code or a scenario that has changed a little since.

Numbers of choices move when a step goes or a message comes; names mostly stay. So what was left
out is left out where it would run next again, the nearest place first, and after that whatever
would run near the old place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from harness.shrink.stage import StalledRun, Stalls

NEAR = 8
"""Places that are tried for one stall if all others have found theirs."""

Play = Callable[[Stalls], StalledRun | None]
"""Plays with given stalls; ``None``: nothing more may be tried, or the run came to nothing."""


def following(stalls: Stalls, names: Sequence[str], play: Play) -> Iterator[StalledRun]:
    """Runs in FIFO order, with the stalls as they were, then with each of them moved.

    Args:
        stalls: the old ones, in order.
        names: what they left out; shorter if some of them came to nothing.
        play: plays a candidate.
    """
    first = play(())
    if first is None:
        return
    yield first
    if not stalls:
        return
    same = play(stalls)
    if same is not None:
        yield same
    seen: set[Stalls] = {(), stalls}
    yield from _moved(first, stalls, names, play, seen)


def _moved(
    base: StalledRun, left: Stalls, names: Sequence[str], play: Play, seen: set[Stalls]
) -> Iterator[StalledRun]:
    wanted = names[0] if names else None
    after = base.stalls[-1] if base.stalls else -1
    for place in nearest(base.heads, left[0], wanted, after)[: NEAR if len(left) > 1 else None]:
        at = (*base.stalls, place)
        run = play(at)
        if run is None:
            continue
        if at not in seen:
            seen.add(at)
            yield run
        if len(left) > 1:
            yield from _moved(run, left[1:], names[1:], play, seen)


def nearest(heads: Sequence[str], old: int, wanted: str | None, after: int = -1) -> list[int]:
    """Places behind ``after``: those of the wanted name first, then by distance to the old one."""
    return sorted(
        range(after + 1, len(heads)),
        key=lambda place: (heads[place] != wanted, abs(place - old), place),
    )
