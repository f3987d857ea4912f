"""The long run: its load is served, and what would grow is seen."""

from __future__ import annotations

import sys
from random import Random  # noqa: TID251

import pytest

from benchmarks import endurance
from benchmarks.churn import Churn
from benchmarks.footprint import LOOKS, Sample, lines, sample
from client.protocol.profiles import NEWEST, profile_for
from harness.strategies import make_strategy
from harness.targets.base import ProcessUse
from harness.targets.reference import SimTarget
from harness.worlds import SimWorld

ROUNDS = 3


def churned(mutant: str | None = None, *, rounds: int = ROUNDS) -> Churn:
    """Some rounds and the death of an engine, in simulation."""
    world = SimWorld(make_strategy("random", 1, 0))
    churn = Churn(SimTarget(), world, profile_for(NEWEST), Random(1), mutant)

    async def whole() -> None:
        async with churn.running():
            for _ in range(rounds):
                await churn.round(4, 5, 0.5)
            await churn.die(2)

    world.run(whole)
    return churn


def test_each_caller_of_a_round_is_served_and_none_is_left():
    churn = churned()
    assert churn.wrong == []
    assert churn.requests == ROUNDS * 4 * 5
    assert sum(churn.ends.values()) == churn.requests + 2
    assert churn.ends["open at the death", "EngineCoreDead"] == 2
    assert {kind for kind, _ in churn.ends} == {"stays", "leaves", "aborts", "open at the death"}


@pytest.mark.parametrize("mutant", ["load-leaks-with-aborts", "one-token-of-each-output"])
def test_a_client_that_forgets_or_keeps_something_is_seen(mutant):
    assert churned(mutant).wrongs > 0


# --- what is said of samples ----------------------------------------------------------------


def samples(count=40, *, rss=0.0, blocks=0.0, descriptors=0.0, theirs=None) -> list[Sample]:
    """Rounds of a hundred requests; growth is for each round."""
    return [
        Sample(
            requests=100 * n,
            seconds=float(n),
            ours=ProcessUse(int(50e6 + 1024 * rss * n), int(60 + descriptors * n), 1),
            tasks=13,
            blocks=int(200_000 + blocks * n),
            theirs=None if theirs is None else ProcessUse(int(40e6), int(35 + theirs * n), 9),
        )
        for n in range(count)
    ]


def flat(*args, **growth) -> dict[str, bool]:
    return {line.name: line.flat for line in lines(samples(*args, **growth), 500)}


class Closing:
    """A frontend that has one descriptor less at each look, down to some that stay."""

    def __init__(self, *descriptors):
        self.left = list(descriptors)
        self.looks = 0

    async def process_use(self):
        self.looks += 1
        return ProcessUse(0, self.left.pop(0) if len(self.left) > 1 else self.left[0], 1)


@pytest.mark.parametrize(
    ("descriptors", "seen", "looks"),
    [((35,), 35, 1), ((34,), 34, 1), ((37, 36, 35), 35, 3), ((36,), 36, LOOKS)],
)
def test_descriptors_are_those_that_stay(descriptors, seen, looks):
    frontend, world = Closing(*descriptors), SimWorld(make_strategy("fifo", 1, 0))
    before = samples(1, theirs=0)[0]

    async def look():
        ours = await sample(frontend, world, 1, 1.0, None)
        known = Sample(0, 0.0, ours.ours, 0, 0, before.theirs)
        frontend.looks = 0
        return await sample(frontend, world, 1, 1.0, known)

    frontend.left.insert(0, 99)
    assert world.run(look).theirs.descriptors == seen
    assert frontend.looks == looks


def test_samples_that_stay_are_flat():
    assert set(flat().values()) == {True}
    assert set(flat(theirs=0).values()) == {True}
    assert "frontend: memory, KiB" in flat(theirs=0)


@pytest.mark.parametrize(
    ("growth", "name"),
    [
        ({"rss": 7}, "resident memory, KiB"),
        ({"blocks": 110}, "blocks of Python"),
        ({"descriptors": 0.03}, "descriptors"),
        ({"descriptors": 0.03, "theirs": 0}, "descriptors"),
        ({"theirs": 0.03}, "frontend: descriptors"),
    ],
)
def test_what_grows_is_named(growth, name):
    found = flat(**growth)
    assert [key for key, good in found.items() if not good] == [name]


def test_growth_within_the_limit_is_flat():
    assert flat(rss=6)["resident memory, KiB"]


def test_growth_of_the_warm_up_is_left_out():
    early = [*samples(6, rss=1_000), *samples(40)[6:]]
    assert {line.flat for line in lines(early, 500)} == {True}


def test_too_few_samples_say_so():
    with pytest.raises(ValueError, match="7 samples after a warm-up of 500"):
        lines(samples(13), 500)


def test_the_command_says_what_is_too_short(capsys, monkeypatch):
    words = ["endurance", "--minutes", "0.1", "--lives", "1", "--callers", "1", "--each", "1"]
    monkeypatch.setattr(sys, "argv", words)
    assert endurance.main() == 2
    assert "growth shows in 8 or more" in capsys.readouterr().err
