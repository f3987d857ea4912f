"""A tally comes to what merging all attempts at once comes to."""

from itertools import product

from harness.results import VerdictResult
from harness.tally import Part, Tally
from harness.verdict import merge_all


def verdicts(*found):
    return tuple(
        VerdictResult(name, "must", verdict, reason, count)
        for name, (verdict, reason, count) in zip(("a", "b"), found, strict=False)
    )


KINDS = (("held", "", 2), ("not_judged", "never exercised", 0), ("violated", "", 1))


def test_tally_merges_as_all_at_once_whatever_comes_twice_in_a_row():
    alike = [verdicts(*pair) for pair in product(KINDS, repeat=2)]
    for first, second in product(alike, repeat=2):
        runs = [first, first, second, second, first]
        tally = Tally()
        for run in runs:
            tally.add(Part(verdicts=run, played=1))
        # Asked in between, it goes on as if nobody had.
        assert tally.part(()).verdicts == merge_all(runs)
        tally.add(Part(verdicts=second, played=1))
        assert tally.part(()).verdicts == merge_all([*runs, second])
        assert tally.part(()).verdicts == merge_all([*runs, second])
        assert tally.played == 6
