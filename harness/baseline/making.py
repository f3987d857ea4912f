"""From results to pins and waivers. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.baseline.gate import Comparison, Kind
from harness.baseline.model import FORMAT, Baseline, Pin, Waiver
from harness.baseline.observed import Observed
from harness.verdict import NOT_JUDGED


@dataclass(frozen=True, slots=True)
class Signature:
    """Who accepts what is violated, why, and until when."""

    owner: str
    reason: str
    expires: dt.date


def window_of(results: Sequence[Observed], *, black_box: bool, asked: str | None) -> dict[str, str]:
    """For each release of a run the releases that its entries are about.

    Args:
        results: of the run.
        black_box: whether one frontend has one release. Of our own client each scenario has the
            newest one to which it applies, so its entries are about all.
        asked: what the user says, or ``None``.
    """
    releases = list(dict.fromkeys(one.release for one in results))
    if asked is not None:
        return dict.fromkeys(releases, asked)
    several = len({one.scenario for one in results}) < len(results)
    exact = black_box or several
    return {release: f"=={release}" if exact else "" for release in releases}


def pins_of(results: Iterable[Observed], windows: dict[str, str]) -> list[Pin]:
    """One pin for each window. What ended in an error says nothing, and is in none."""
    judged: dict[tuple[str, str], set[str]] = {}
    unjudged: dict[tuple[str, str], set[str]] = {}
    for one in results:
        key = (one.target, windows[one.release])
        judged.setdefault(key, set())
        if one.judged:
            judged[key].add(one.scenario)
        elif one.status == NOT_JUDGED:
            unjudged.setdefault(key, set()).add(one.scenario)
    return [
        # In several releases of one window: judged in one of them is not judged in all.
        _pin(key, names - unjudged.get(key, set()), unjudged.get(key, set()))
        for key, names in judged.items()
    ]


def _pin(key: tuple[str, str], judged: set[str], not_judged: set[str]) -> Pin:
    data = {"target": key[0], "releases": key[1]}
    return Pin.model_validate({**data, "judged": sorted(judged), "not_judged": sorted(not_judged)})


def waivers_of(
    results: Iterable[Observed], windows: dict[str, str], signature: Signature
) -> list[Waiver]:
    """One waiver for each violation."""
    made: dict[tuple[str, str, str, str], Waiver] = {}
    for one in results:
        for name in one.broken:
            waiver = Waiver.model_validate(
                {
                    "target": one.target,
                    "releases": windows[one.release],
                    "scenario": one.scenario,
                    "invariant": name,
                    "owner": signature.owner,
                    "reason": signature.reason,
                    "expires": signature.expires,
                }
            )
            made.setdefault(waiver.key, waiver)
    return sorted(made.values(), key=lambda waiver: waiver.key)


def merged(old: Baseline, pins: Sequence[Pin], waivers: Sequence[Waiver]) -> Baseline:
    """A baseline with what a run adds: pins as the run has them, waivers behind those there are."""
    kept = list(old.pins)
    for pin in pins:
        place = next(
            (i for i, one in enumerate(kept) if (one.target, one.releases) == _of(pin)), None
        )
        if place is None:
            kept.append(pin)
            continue
        # Of scenarios that were not played the old word stands.
        played = {*pin.judged, *pin.not_judged}
        judged = {*pin.judged, *(n for n in kept[place].judged if n not in played)}
        unjudged = {*pin.not_judged, *(n for n in kept[place].not_judged if n not in played)}
        kept[place] = _pin(_of(pin), judged, unjudged)
    return Baseline(format=FORMAT, pins=kept, waivers=[*old.waivers, *waivers])


def _of(pin: Pin) -> tuple[str, str]:
    return pin.target, pin.releases


def pruned(old: Baseline, comparison: Comparison) -> tuple[Baseline, set[int], set[str]]:
    """A baseline without what a run shows to be stale.

    Returns:
        It, the numbers of the waivers that went, and the pinned scenarios that are gone.
    """
    stale = {one.waiver for one in comparison.of(Kind.STALE) if one.waiver is not None}
    # Lost are also those that were played and not judged; these have a release.
    lost = [one for one in comparison.of(Kind.LOST) if not one.release]
    gone = {one.scenario for one in lost}
    targets = {one.target for one in lost}
    pins = [
        pin
        if pin.target not in targets
        else _pin(_of(pin), {*pin.judged} - gone, {*pin.not_judged} - gone)
        for pin in old.pins
    ]
    waivers = [waiver for number, waiver in enumerate(old.waivers) if number not in stale]
    return Baseline(format=FORMAT, pins=pins, waivers=waivers), stale, gone
