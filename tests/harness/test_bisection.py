"""The search: exact, with few starts, and honest about ends and gaps."""

from __future__ import annotations

import itertools

import pytest

from client.protocol.profiles import RELEASES
from harness.bisection import Bisection, BisectionError, Found, NothingJudgedError


def bisection(bad: dict[str, bool | None]) -> tuple[Bisection, list[str]]:
    asked: list[str] = []

    def judge(release: str) -> bool | None:
        asked.append(release)
        return bad[release]

    return Bisection(list(bad), judge), asked


def releases(first_good: str, *, silent: tuple[str, ...] = ()) -> dict[str, bool | None]:
    place = RELEASES.index(first_good)
    found: dict[str, bool | None] = {name: n < place for n, name in enumerate(RELEASES)}
    return {**found, **dict.fromkeys(silent)}


@pytest.mark.parametrize("first", RELEASES[1:])
@pytest.mark.parametrize("broken", [False, True])
def test_every_flip_of_15_releases_is_found_in_at_most_6_starts(first: str, broken: bool) -> None:
    judged = {name: bad is not broken for name, bad in releases(first).items()}
    search, asked = bisection(judged)
    last = RELEASES[RELEASES.index(first) - 1]
    assert search.search() == Found(last, first, "broken" if broken else "fixed")
    assert len(asked) <= 6
    assert len(set(asked)) == len(asked)
    assert asked[:2] == [RELEASES[0], RELEASES[-1]]


@pytest.mark.parametrize(
    "silent", list(itertools.combinations(["0.24.0", "0.25.0", "0.25.1", "0.26.0"], 2))
)
def test_release_that_judges_nothing_is_passed_over(silent: tuple[str, ...]) -> None:
    """First good 0.25.1. What is silent beside the flip is named, never guessed."""
    search, _ = bisection(releases("0.25.1", silent=silent))
    found = search.search()
    order = [name for name in RELEASES if name not in silent]
    truth = releases("0.25.1")
    first = next(name for name in order if truth[name] is False)
    last = order[order.index(first) - 1]
    inside = RELEASES[RELEASES.index(last) + 1 : RELEASES.index(first)]
    assert (found.last, found.first, found.between) == (last, first, inside)
    assert found.exact is (inside == ())


def test_ends_that_judge_nothing_are_moved_inwards() -> None:
    search, _ = bisection(releases("0.29.0", silent=("0.22.0", "0.22.1", "0.33.0")))
    assert search.search() == Found("0.28.0", "0.29.0", "fixed")
    assert search.tried["0.22.0"] is None


@pytest.mark.parametrize(
    ("good", "bad"),
    [("0.33.0", "0.22.0"), ("0.30.0", None), (None, "0.28.0"), ("0.29.0", "0.28.0")],
)
def test_named_ends_are_verified_and_kept_to(good: str | None, bad: str | None) -> None:
    search, asked = bisection(releases("0.29.0"))
    found = search.search(good, bad)
    assert (found.last, found.first) == ("0.28.0", "0.29.0")
    assert {name for name in (good, bad) if name} <= set(asked)
    named = [RELEASES.index(name) for name in (good, bad) if name]
    if len(named) == 2:
        assert all(min(named) <= RELEASES.index(name) <= max(named) for name in asked)


@pytest.mark.parametrize(
    ("first_good", "good", "bad", "message"),
    [
        ("0.29.0", "0.28.0", None, "--good 0.28.0: this release is bad"),
        ("0.29.0", None, "0.29.0", "--bad 0.29.0: this release is good"),
        ("0.29.0", "0.24.0", "0.33.0", "--good 0.24.0: this release is bad"),
        ("0.22.0", None, None, "0.22.0 and 0.33.0 are both good: there is nothing to bisect"),
        ("0.22.0", "0.25.0", None, "0.22.0, 0.25.0 and 0.33.0 are all good"),
        ("0.22.0", "0.22.0", None, "0.22.0 and 0.33.0 are both good"),
        ("0.29.0", "0.30.0", "0.30.0", "0.30.0 cannot be both the good and the bad end"),
    ],
)
def test_inconsistent_ends_are_refused(
    first_good: str, good: str | None, bad: str | None, message: str
) -> None:
    search, _ = bisection(releases(first_good))
    with pytest.raises(BisectionError, match=message) as caught:
        search.search(good, bad)
    assert not isinstance(caught.value, NothingJudgedError)


def test_named_end_that_judges_nothing_is_no_inconsistency() -> None:
    search, _ = bisection(releases("0.29.0", silent=("0.30.0",)))
    with pytest.raises(NothingJudgedError, match=r"--good 0\.30\.0: this release does not judge"):
        search.search("0.30.0")


def test_nothing_judged_anywhere_is_said() -> None:
    search, asked = bisection(dict.fromkeys(RELEASES))
    with pytest.raises(NothingJudgedError, match="no release judges"):
        search.search()
    assert asked == list(RELEASES)


def test_one_release_alone_has_nothing_to_bisect() -> None:
    search, _ = bisection({"0.33.0": True})
    with pytest.raises(BisectionError, match=r"0\.33\.0 is bad: there is nothing to bisect"):
        search.search()
