"""A campaign in pieces is the campaign: same schedules, same result, same failure file."""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from pathlib import Path

import msgspec
import pytest

from harness import division as division_module
from harness import runner as runner_module
from harness.division import AHEAD, Block, Conclusion, Division, play_piece
from harness.failure import read_failure
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import parse
from harness.strategies import Limits, Seen, make_search, searches
from harness.strategies.shuffle import Stream
from harness.targets.base import TargetError

HOLDS = """
title: t
promise: p
refs: [vllm#1]
steps:
  - call: {id: a, rank: 0}
  - call: {id: b, rank: 1}
  - finish: [a, b]
  - expect: {op: a, outcome: finished}
"""
IN_ORDER = HOLDS + "  - expect: {order: [{event: add, request: a}, {event: add, request: b}]}\n"
"""Some orders of events break this; the order of asyncio does not."""
FAILS = HOLDS.replace("outcome: finished", "outcome: failed")
DIVISIBLE = ("auto", "fifo", "pct", "random", "stall")


def load(text=HOLDS):
    return parse(text, Path("story.yaml"), name="story")


def divided(loaded, options, *, workers=3, order=0):
    """Play in pieces, ``workers`` at once, which end in an order by the seed ``order``.

    Returns:
        The result, and the numbers of schedules of all blocks.
    """
    stream, division, out, blocks = Stream(order), Division(loaded, options), [], []
    while not division.over:
        while len(out) < workers and (piece := division.take(workers)) is not None:
            out.append(pickle.loads(pickle.dumps(piece)))
            blocks += [len(piece.strategies)] if isinstance(piece, Block) else []
        if division.over:
            break
        piece = out.pop(stream.below(len(out)))
        outcome = play_piece(loaded, options, piece)
        division.put(piece.number, pickle.loads(pickle.dumps(outcome)))
    assert division.take(workers) is None
    return division.result, blocks


def alike(result):
    return dataclasses.replace(result, duration_s=0.0)


# --- searches that are asked ahead ------------------------------------------------------------


def plain(strategy):
    """All that a strategy decides by, or what of it the search decides."""
    names = ("seed", "schedule", "at", "_horizon", "_depth")
    return type(strategy).__name__, *(getattr(strategy, name, None) for name in names)


def length(decided):
    """Runs differ in length by what is decided in them, so that whoever mixes them up is caught."""
    return 12 + zlib.crc32(repr(decided).encode()) % (5 if len(decided[3] or ()) < 2 else 1000)


def test_every_search_but_dfs_is_divisible():
    assert {name for name in searches() if make_search(name, 0, Limits()).divisible} == {*DIVISIBLE}


@pytest.mark.parametrize("strategy", DIVISIBLE)
def test_search_says_the_same_ahead_as_one_schedule_after_the_other(strategy):
    limits = Limits(schedules=90, stalls=2)
    patient, hasty = make_search(strategy, 5, limits), make_search(strategy, 5, limits)
    one_by_one, ahead, unseen, most = [], [], [], 0
    while len(one_by_one) < 90 and (decided := patient.next()) is not None:
        one_by_one.append(plain(decided))
        patient.saw(Seen(length(one_by_one[-1])))
    while len(ahead) < 90:
        if not hasty.decided(len(unseen)):
            hasty.saw(Seen(length(unseen.pop(0))))
        elif (decided := hasty.next()) is None:
            break
        else:
            ahead.append(plain(decided))
            unseen.append(ahead[-1])
            most = max(most, len(unseen))
    assert ahead == one_by_one
    assert len(ahead) > 10
    assert most > 3


# --- the same result --------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("strategy", DIVISIBLE)
def test_campaign_that_holds_comes_to_the_same_in_pieces(strategy, order, tmp_path):
    options = RunOptions(strategy=strategy, schedules=70, seed=3, out=tmp_path)
    result, blocks = divided(load(), options, order=order)
    assert alike(result) == alike(run_scenario(load(), options))
    assert (result.status, result.schedules, sum(blocks)) == ("held", 70, 70)
    assert len(blocks) > 5


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("strategy", ["auto", "random", "stall"])
def test_first_violation_is_that_of_the_lowest_schedule_whoever_comes_first(
    strategy, order, tmp_path
):
    options = RunOptions(strategy=strategy, schedules=200, seed=order, out=tmp_path)
    whole = run_scenario(load(IN_ORDER), options)
    Path(whole.failure_file).rename(tmp_path / "whole")
    result, _ = divided(load(IN_ORDER), options, order=order)
    assert alike(result) == alike(whole)
    assert result.status == "violated"
    assert (tmp_path / "whole").read_text() == Path(result.failure_file).read_text()


def test_violations_that_are_compared_are_not_all_in_the_first_schedules(tmp_path):
    """Else the test above would say nothing about what comes before and behind them."""
    options = RunOptions(strategy="stall", schedules=200, out=tmp_path)
    found = [
        run_scenario(load(IN_ORDER), dataclasses.replace(options, seed=seed)).schedules
        for seed in range(4)
    ]
    assert max(found) > 8


def test_search_that_comes_to_its_end_says_so_in_pieces_too(tmp_path):
    options = RunOptions(strategy="stall", schedules=10_000, limits=Limits(stalls=1), out=tmp_path)
    result, _ = divided(load(), options)
    assert alike(result) == alike(run_scenario(load(), options))
    assert result.exhausted
    assert result.explored.startswith("all ")


def test_scenario_that_does_not_apply_is_over_before_it_begins():
    loaded = load(HOLDS.replace("refs:", 'profiles: ">=0.25"\nrefs:'))
    options = RunOptions(strategy="random", schedules=50, profile="0.22.0")
    division = Division(loaded, options)
    assert division.over
    assert division.take(2) is None
    assert alike(division.result) == alike(run_scenario(loaded, options))


# --- what breaks ------------------------------------------------------------------------------


def test_error_in_a_schedule_ends_the_campaign_as_in_one_process(monkeypatch, tmp_path):
    play, count = runner_module.play, [0]

    def breaks(spec, world):
        count[0] += 1
        if count[0] == 20:
            msg = "broken"
            raise TargetError(msg)
        return play(spec, world)

    monkeypatch.setattr(runner_module, "play", breaks)
    options = RunOptions(strategy="random", schedules=50, out=tmp_path)
    whole = run_scenario(load(), options)
    count[0] = 0
    result, _ = divided(load(), options)
    assert alike(result) == alike(whole)
    assert (result.status, result.error) == ("error", "broken")


def test_violation_counts_although_a_later_block_fails(tmp_path):
    options = RunOptions(strategy="random", schedules=50, out=tmp_path)
    loaded = load(FAILS)
    division = Division(loaded, options)
    first, second = division.take(2), division.take(2)
    division.put(second.number, dataclasses.replace(division._base, status="error", error="late"))
    assert not division.over
    assert division.take(2) is None
    division.put(first.number, play_piece(loaded, options, first))
    conclusion = division.take(2)
    assert isinstance(conclusion, Conclusion)
    division.put(conclusion.number, play_piece(loaded, options, conclusion))
    assert alike(division.result) == alike(run_scenario(loaded, options))
    assert division.result.schedules == 1
    assert read_failure(Path(division.result.failure_file)).scenario_id == "story"


def test_pieces_behind_a_violation_are_not_needed_any_more(tmp_path):
    options = RunOptions(strategy="random", schedules=50, out=tmp_path)
    loaded = load(FAILS)
    division = Division(loaded, options)
    first, second, third = (division.take(3) for _ in range(3))
    division.put(second.number, play_piece(loaded, options, second))
    needed = [division.needs(piece.number) for piece in (first, second, third)]
    assert needed == [True, True, False]
    division.put(third.number, play_piece(loaded, options, third))
    division.put(first.number, play_piece(loaded, options, first))
    assert not division.needs(second.number)


def test_schedule_that_goes_otherwise_the_second_time_is_an_error_of_ours(tmp_path):
    options = RunOptions(strategy="random", schedules=50, out=tmp_path)
    loaded = load(FAILS)
    division = Division(loaded, options)
    first = division.take(1)
    division.put(first.number, play_piece(loaded, options, first))
    conclusion = dataclasses.replace(division.take(1), digest="other")
    with pytest.raises(RuntimeError, match="went otherwise when it was played again"):
        play_piece(loaded, options, conclusion)
    assert list(tmp_path.iterdir()) == []


# --- how it is cut ----------------------------------------------------------------------------


def test_blocks_grow_to_half_a_second_and_shrink_towards_the_end(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(division_module.time, "monotonic", lambda: now[0])
    options = RunOptions(strategy="random", schedules=2_000)
    division, sizes = Division(load(), options), []
    while (piece := division.take(2)) is not None:
        sizes.append(len(piece.strategies))
        one = play_piece(load(), options, Block(piece.number, piece.strategies[:1]))
        part = msgspec.structs.replace(
            one.part, played=sizes[-1], digests=one.part.digests * sizes[-1]
        )
        seen = one.seen * sizes[-1]
        division.put(
            piece.number,
            dataclasses.replace(one, part=part, seen=seen, seconds=sizes[-1] * 0.004),
        )
    assert sizes[:3] == [8, 125, 125]
    assert sizes[-1] == 1
    assert sum(sizes) == division.result.schedules == 2_000


def test_nobody_runs_far_ahead_of_a_block_that_hangs():
    division = Division(load(), RunOptions(strategy="random", schedules=100_000))
    taken = []
    while (piece := division.take(2)) is not None:
        taken.append(piece.number)
    assert taken == [*range(2 * AHEAD)]


class Clock:
    """Time that a test lets pass."""

    def __init__(self, at):
        self.at = at

    def now(self):
        return self.at


def test_budget_ends_a_campaign_between_blocks(monkeypatch):
    clock = Clock(0.0)
    monkeypatch.setattr(division_module, "CLOCK", clock)
    options = RunOptions(strategy="random", schedules=10_000, budget_s=5.0)
    division = Division(load(), options)
    first = division.take(1)
    division.put(first.number, play_piece(load(), options, first))
    clock.at = 5.0
    assert division.take(1) is None
    assert (division.result.status, division.result.schedules) == ("held", len(first.strategies))


def test_time_limit_is_for_the_whole_campaign(monkeypatch):
    clock = Clock(100.0)
    monkeypatch.setattr(division_module, "CLOCK", clock)
    division = Division(load(), RunOptions(strategy="random", schedules=50, timeout_s=30.0))
    clock.at = 120.0
    assert division.seconds_left == 10.0
