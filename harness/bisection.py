"""Finds the release between which and the next a promise was broken or mended. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

FIXED, BROKEN = "fixed", "broken"

Judge = Callable[[str], bool | None]
"""Whether a release breaks the promise; ``None``: it does not judge it. Called once for each."""


class BisectionError(Exception):
    """The ends do not fit: both keep or both break it, or one is not what it was said to be."""


class NothingJudgedError(BisectionError):
    """An end that was named, or every release, does not judge the promise."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of it.

    Attributes:
        last, first: the last release on the one side, the first on the other, by age.
        direction: ``fixed`` (``first`` is good) or ``broken`` (``first`` is bad).
        between: releases between the two that do not judge it; empty: the answer is exact.
    """

    last: str
    first: str
    direction: str
    between: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the two are next to each other."""
        return not self.between


class Bisection:
    """One search.

    Attributes:
        tried: every release that was asked, in order, and whether it is bad (``None``: not
            judged).
    """

    def __init__(self, releases: Sequence[str], judge: Judge) -> None:
        """``releases``: oldest first."""
        self._releases = list(releases)
        self._judge = judge
        self.tried: dict[str, bool | None] = {}

    def _bad(self, release: str) -> bool | None:
        if release not in self.tried:
            self.tried[release] = self._judge(release)
        return self.tried[release]

    def search(self, good: str | None = None, bad: str | None = None) -> Found:
        """Verify the ends, then halve what is between them.

        An end that is not named is the oldest or the newest release that judges the promise;
        where one end is named, whichever of the two differs from it, the oldest first.

        Raises:
            BisectionError: the ends do not fit.
            NothingJudgedError: a named end does not judge the promise, or no release does.
        """
        named = {release: is_bad for release, is_bad in ((good, False), (bad, True)) if release}
        if good is not None and good == bad:
            msg = f"{good} cannot be both the good and the bad end"
            raise BisectionError(msg)
        for release, is_bad in named.items():
            self._verify(release, is_bad)
        ends = list(named) if len(named) == 2 else self._ends(next(iter(named), None))
        low, high = sorted(self._releases.index(release) for release in ends)
        return self._halve(low, high)

    def _verify(self, release: str, said: bool) -> None:
        found = self._bad(release)
        flag = "--bad" if said else "--good"
        if found is None:
            msg = f"{flag} {release}: this release does not judge the scenario"
            raise NothingJudgedError(msg)
        if found is not said:
            msg = f"{flag} {release}: this release is {'bad' if found else 'good'}"
            raise BisectionError(msg)

    def _ends(self, given: str | None) -> list[str]:
        """Two releases that differ; one of them is ``given``, if anything is.

        Raises:
            BisectionError: there are none.
            NothingJudgedError: no release judges the promise.
        """
        oldest = self._first_judged(self._releases)
        if given is not None and self._bad(oldest) != self._bad(given):
            return [oldest, given]
        newest = self._first_judged(reversed(self._releases))
        other = oldest if given is None else given
        if self._bad(newest) != self._bad(other):
            return [other, newest]
        named = [release for release in self._releases if release in {oldest, given, newest}]
        told = " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
        verb = ("is", "are both", "are all")[len(named) - 1]
        what = "bad" if self._bad(oldest) else "good"
        msg = f"{told} {verb} {what}: there is nothing to bisect"
        raise BisectionError(msg)

    def _first_judged(self, releases: Iterable[str]) -> str:
        for release in releases:
            if self._bad(release) is not None:
                return release
        msg = "no release judges the scenario"
        raise NothingJudgedError(msg)

    def _halve(self, low: int, high: int) -> Found:
        while (middle := self._middle(low, high)) is not None:
            found = self._bad(self._releases[middle])
            if found is None:
                continue
            if found == self._bad(self._releases[low]):
                low = middle
            else:
                high = middle
        return Found(
            last=self._releases[low],
            first=self._releases[high],
            direction=FIXED if self._bad(self._releases[low]) else BROKEN,
            between=tuple(self._releases[low + 1 : high]),
        )

    def _middle(self, low: int, high: int) -> int | None:
        """The release nearest to the middle that is not known to judge nothing."""
        centre = (low + high) // 2
        left = [
            index
            for index in range(low + 1, high)
            if self.tried.get(self._releases[index], False) is not None
        ]
        return min(left, key=lambda index: (abs(index - centre), index), default=None)
