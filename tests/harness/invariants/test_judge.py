"""The judge: who is given which record, in which order, and for how long."""

from __future__ import annotations

from typing import ClassVar

from packaging.version import Version

from harness.invariants._run import RunInvariant
from harness.invariants.base import (
    PLAIN_MAX,
    Invariant,
    Judge,
    Level,
    RunContext,
    Verdict,
    bench_for,
    events_of,
)
from harness.trace.events import Event, Fenced, Healed, LogLine, Record, RunEnded
from mock_engines.events import AbortSeen, AddSeen
from tests.support.traces import WHITE, abort, add, scenario, warning

LINE = warning(1)


class Pages:
    """A book that counts ADDs."""

    HANDLES: ClassVar[tuple[type, ...]] = (AddSeen, RunEnded)
    made = 0

    def __init__(self) -> None:
        Pages.made += 1
        self.adds = 0
        self.fed: list[Record] = []

    def feed(self, record: Record) -> None:
        self.adds += isinstance(record.event, AddSeen)
        self.fed.append(record)


class First(RunInvariant):
    """Notes what it sees, and what its book knew then."""

    id = "test.first"
    handles = (AddSeen, LogLine)

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.pages = context.shelf.book(Pages)
        self.seen: list[tuple[Event, int]] = []
        self.rested = 0
        MADE.append(self)

    def see(self, record: Record) -> None:
        self.seen.append((record.event, self.pages.adds))

    def at_rest(self) -> None:
        self.rested += 1


class Second(First):
    """Another reader of the same book, which is violated by the first ADD."""

    id = "test.second"

    def see(self, record: Record) -> None:
        super().see(record)
        if isinstance(record.event, AddSeen):
            self.violate("m", expected="e", seen="s", witness=(record,))


class Plain(Invariant):
    """Reads a run to its very end."""

    id = "test.plain"
    handles = (AddSeen, Healed)

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.seen: list[Event] = []
        MADE.append(self)  # type: ignore[arg-type]

    def on_event(self, record: Record) -> None:
        self.seen.append(record.event)


MADE: list[First] = []


def play(*events: Event, invariants: tuple[type[Invariant], ...]) -> tuple[Judge, list[First]]:
    MADE.clear()
    judge = Judge(invariants, RunContext(scenario(), Version("0.33.0"), WHITE, (0, 1)))
    for seq, event in enumerate(events):
        judge.feed(Record(seq, seq, event))
    return judge, list(MADE)


def test_a_book_is_kept_once_for_all_who_read_it_and_knows_a_record_before_they_see_it():
    Pages.made = 0
    _, (first, second) = play(add(0, "a"), add(0, "b"), invariants=(First, Second))
    assert Pages.made == 1
    assert first.pages is second.pages
    assert first.seen == [(add(0, "a"), 1), (add(0, "b"), 2)]
    assert len(first.pages.fed) == 2


def test_a_violated_checker_sees_no_more_while_its_books_go_on_for_others():
    _, (first, second) = play(add(0, "a"), add(0, "b"), invariants=(First, Second))
    assert [event for event, _ in second.seen] == [add(0, "a")]
    assert (second.pages.adds, len(first.seen)) == (2, 2)


def test_after_the_end_of_a_run_its_checkers_see_log_lines_only_and_books_nothing():
    end = RunEnded(())
    _, (first,) = play(add(0, "a"), end, add(0, "b"), Healed(), LINE, end, invariants=(First,))
    assert [event for event, _ in first.seen] == [add(0, "a"), LINE]
    assert events_of(first.pages.fed) == [add(0, "a"), end]
    assert first.rested == 1


def test_an_invariant_that_is_about_no_run_sees_what_comes_after_the_end():
    _, (plain,) = play(add(0, "a"), RunEnded(()), Healed(), abort(0, "a"), invariants=(Plain,))
    assert plain.seen == [add(0, "a"), Healed()]


def test_the_final_fence_is_known_though_a_checker_does_not_ask_for_fences():
    _, (first,) = play(Fenced("step"), Fenced("end"), invariants=(First,))
    assert first.fenced == Record(1, 1, Fenced("end"))


def test_what_the_scenario_says_is_found_once_for_all_runs_that_share_what_they_keep():
    found: list[RunContext] = []

    def ranks(context: RunContext) -> tuple[int, ...]:
        found.append(context)
        return context.ranks

    class Asking(First):
        def __init__(self, context: RunContext) -> None:
            super().__init__(context)
            assert context.once(ranks) == (0, 1)

    context = RunContext(scenario(), Version("0.33.0"), WHITE, (0, 1))
    for _ in range(3):
        Judge((Asking,), context)
    assert len(found) == 1
    Judge((Asking,), RunContext(scenario(), Version("0.33.0"), WHITE, (0, 1)))
    assert len(found) == 2


def test_two_judges_of_one_context_keep_their_books_apart():
    context = RunContext(scenario(), Version("0.33.0"), WHITE, (0, 1))
    MADE.clear()
    one, two = Judge((First,), context), Judge((First,), context)
    one.feed(Record(0, 0, add(0, "a")))
    two.feed(Record(0, 0, add(0, "a")))
    assert [checker.pages.adds for checker in MADE] == [1, 1]


def test_what_a_judge_was_told_does_not_reach_the_next_one():
    judge, _ = play(add(0, "a"), RunEnded(()), invariants=(First, Second, Plain))
    verdicts = judge.verdicts()
    again, (first, *_rest) = play(add(0, "a"), abort(0, "a"), invariants=(First, Second, Plain))
    assert (first.pages.adds, first.ended) == (1, None)
    assert [v.verdict for v in verdicts] == [v.verdict for v in again.verdicts()]


def test_who_judges_is_chosen_once_for_a_release_and_a_target():
    arguments = ((First, Plain), Version("0.33.0"), WHITE, "auto")
    assert bench_for(*arguments) is bench_for(*arguments)
    poorer = bench_for((First, Plain), Version("0.33.0"), frozenset(), "auto")
    reason = "target lacks see.wire"
    assert poorer.skipped == (
        Verdict("test.first", "must", "not_judged", reason, 0),
        Verdict("test.plain", "must", "not_judged", reason, 0),
    )


def test_invariant_of_one_kind_of_waves_judges_no_other():
    class Together(First):
        id = "test.together"
        for_waves = "lockstep"

    arguments = ((Together,), Version("0.33.0"), WHITE)
    assert bench_for(*arguments, "lockstep").judging == (Together,)
    apart = bench_for(*arguments, "auto")
    assert apart.judging == ()
    assert apart.skipped[0].reason == "only for engines with waves: lockstep"


def test_records_of_a_type_that_nobody_reads_reach_nobody():
    _, (first, plain) = play(abort(0, "a"), invariants=(First, Plain))
    assert AbortSeen not in (*First.handles, *Plain.handles, *Pages.HANDLES)
    assert (first.seen, first.pages.fed, plain.seen) == ([], [], [])


def test_run_that_broke_off_is_judged_by_what_was_seen_to_break_by_then():
    judge, (first, _second) = play(add(0, "a"), invariants=(First, Second))
    kept, broken = judge.verdicts(cut=True)
    assert (kept.verdict, kept.reason) == ("not_judged", "the run broke off")
    assert (broken.verdict, broken.witness) == ("violated", (0,))
    assert first.rested == 0


def test_verdicts_that_are_kept_for_runs_that_are_alike_are_bounded():
    class Counting(First):
        id = "test.counting"

        def see(self, record: Record) -> None:
            super().see(record)
            self.exercised += 1

    kept = bench_for((Counting,), Version("0.33.0"), WHITE, scenario().topology.waves).plain
    for count in range(PLAIN_MAX + 1):
        judge, _ = play(*[add(0, f"r{n}") for n in range(count)], invariants=(Counting,))
        (verdict,) = judge.verdicts()
        assert verdict.exercised == count
        assert len(kept) <= PLAIN_MAX
    assert len(kept) == 1
    judge, _ = play(add(0, "a"), invariants=(Counting,))
    assert judge.verdicts()[0].exercised == 1


def test_run_is_known_to_be_violated_as_soon_as_a_promise_is_seen_to_break():
    class Wish(Second):
        id = "test.wish"
        level = Level.SHOULD

    judge, _ = play(invariants=(First, Wish))
    assert not judge.violated
    judge.feed(Record(0, 0, add(0, "a")))
    assert not judge.violated  # it was only a wish
    judge, _ = play(add(0, "a"), invariants=(First, Second, Wish))
    assert judge.violated
