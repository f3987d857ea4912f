"""What invariants share: calls, requests, fan-outs and waves, followed through a trace."""

from packaging.version import Version

from client.events import UtilityRegistered
from client.protocol.ids import FENCE_METHOD
from harness.invariants._adds import AddBook
from harness.invariants._calls import CallBook
from harness.invariants._fanouts import UNREADABLE, FanOutBook, engine_order, parse
from harness.invariants._ranks import Asked, asked
from harness.invariants._run import Book, FrontendState
from harness.invariants._waves import WaveBook, restarts_coordinator
from harness.invariants.base import RunContext
from harness.trace.events import AbortRequested, Event, HealthSample, Record, StepBegan
from mock_engines.events import EngineDied, RawSent
from tests.support.traces import (
    BLACK,
    WHITE,
    abort,
    add,
    call,
    complete,
    done,
    failed,
    leave,
    out,
    scenario,
    seen,
    start,
    utility,
)


def context(*, black: bool = False, ranks: tuple[int, ...] = (0, 1), **parts: object) -> RunContext:
    story = scenario(topology={"ranks": list(ranks), **parts.pop("topology", {})}, **parts)  # type: ignore[dict-item]
    return RunContext(story, Version("0.33.0"), BLACK if black else WHITE, ranks)


def feed(book: Book, *events: Event) -> list[Record]:
    records = [Record(seq, 0, event) for seq, event in enumerate(events)]
    for record in records:
        book.feed(record)
    return records


def test_a_caller_that_left_or_asked_for_an_abort_no_longer_wants_its_call():
    book = CallBook()
    records = feed(
        book,
        call("a"),
        call("b"),
        call("c", external="x"),
        leave("a"),
        AbortRequested(("b", "x", "stranger")),
        done("b"),
        leave("b"),
    )
    a, b, c = (book.calls[op] for op in "abc")
    assert (a.left, a.gone, a.wanted) == (records[3], records[3], False)
    assert (b.abort_asked, b.ended, b.left) == (records[4], records[5], None)
    assert (c.abort_asked, c.open, c.wanted) == (records[4], True, False)


def test_a_request_belongs_to_a_call_by_external_id_then_id_then_stem():
    book = CallBook()
    feed(book, call("a", external="x"), call("b", external="y-0123abcd"))
    ops = [
        [found.op for found in book.of_request(*names)]
        for names in (("z", "x"), ("x", None), ("x-0123abcd", None), ("y-0123abcd", None), ("z",))
    ]
    assert ops == [["a"], ["a"], ["a"], ["b"], []]


def test_an_add_ends_by_finish_abort_or_the_death_of_its_engine():
    book = AddBook()
    records = feed(
        book,
        add(0, "a"),
        add(0, "b"),
        add(1, "c"),
        add(0, "d"),
        out(1, "a", finish="stop"),  # through another engine's socket
        abort(0, "b", "stranger"),
        EngineDied(1, "close"),
        out(0, "stranger", finish="stop"),
    )
    a, b, c, d = book.episodes
    assert a.finish is records[4]
    assert b.aborts == [records[5]]
    assert c.died is records[6]
    assert [e.open for e in (a, b, c, d)] == [False, False, False, True]


def test_an_id_that_is_used_again_begins_another_episode():
    book = AddBook()
    feed(book, add(0, "a"), out(0, "a", finish="stop"), add(0, "a"))
    assert [episode.open for episode in book.by_id["a"]] == [False, True]
    assert book.at("a", 0) is book.episodes[1]
    assert book.at("a", 1) is None


def test_fences_and_waiters_of_no_call_are_left_out():
    book = FanOutBook(context())
    feed(
        book,
        UtilityRegistered(1, 0, FENCE_METHOD),
        UtilityRegistered(2, 0, "sleep"),
        seen(0, 2, "sleep"),
        utility("u"),
    )
    assert book.by_call == {}
    assert book.foreign == {2}
    assert book.fans["u"].calls == {}


def test_waiters_follow_their_call_in_one_go():
    book = FanOutBook(context())
    feed(
        book,
        utility("u"),
        UtilityRegistered(1, 0, "is_sleeping"),
        utility("v"),
        UtilityRegistered(2, 1, "is_sleeping"),
        UtilityRegistered(3, 0, "is_sleeping"),
        UtilityRegistered(4, 1, "is_sleeping"),
    )
    assert book.fans["u"].calls == {1: 0, 2: 1}
    assert book.fans["v"].calls == {3: 0, 4: 1}
    assert not book.fans["v"].ambiguous


def test_the_api_s_name_of_a_method_may_differ_from_the_wire():
    book = FanOutBook(context(black=True))
    feed(book, utility("u", "pause"), seen(0, 1, "pause_generation"), seen(1, 2, "other"))
    assert book.fans["u"].calls == {1: 0}
    assert book.fans["u"].call_at(1) is None


def test_values_are_read_as_json_would_carry_them():
    assert parse("[(1, 'a'), None]") == [[1, "a"], None]
    assert parse("<object>") is UNREADABLE


def test_engine_order_is_by_identity_bytes_or_by_index():
    assert engine_order(context(ranks=(1, 2, 256))) == (256, 1, 2)
    bootstrapped = {"transport": "bootstrapped"}
    assert engine_order(context(ranks=(1, 2, 256), topology=bootstrapped)) == (1, 2, 256)


def test_the_highest_wave_is_the_one_that_somebody_announced():
    book = WaveBook(context())
    records = feed(book, start(0, 3), complete(1, 3), complete(0, 1))
    assert (book.highest, book.by) == (4, records[1])
    assert list(book.starts) == [3]
    assert list(book.completes) == [3, 1]
    assert not book.opaque


def test_a_flood_against_a_black_box_announces_waves_that_it_does_not_show():
    flood = {"flood": {"start": 5, "count": 30, "count_real": 1000}}
    steps = [{"engine": {"engine": 0, "do": flood}}]
    assert WaveBook(context(black=True, steps=steps)).highest == 1005
    assert WaveBook(context(steps=steps)).highest == 0


def test_scripted_bytes_and_publishes_make_waves_opaque():
    raw = {"coordinator": {"publish_raw": ["00"]}}
    book = WaveBook(context(steps=[raw, {"fence": True}]))
    feed(book, StepBegan(1, "fence"), StepBegan(0, "coordinator"))
    assert book.opaque
    assert not restarts_coordinator(context(steps=[raw]), Record(0, 0, StepBegan(0, "coordinator")))
    other = WaveBook(context())
    feed(other, RawSent(0, "main", ("00",)))
    assert not other.opaque


def test_a_black_box_is_suspected_where_a_white_one_says_so():
    events = (EngineDied(0, "sentinel"), HealthSample(True, None, ""))
    black, white = FrontendState(white=False), FrontendState(white=True)
    feed(black, *events)
    feed(white, *events)
    assert (black.sound, white.sound) == (False, True)


def test_the_rank_of_a_call_is_read_as_its_surface_reads_it():
    assert asked(call("a", rank=3)) == Asked(3)
    assert asked(call("a", text=("+2", "x"), surface="grpc")) == Asked(2)
    assert asked(call("a", text=("x", "2"), surface="http")) == Asked()
    assert asked(call("a", text=("x", "2"), surface="grpc")) == Asked(refused=True)


def test_the_first_end_of_a_call_stands_and_an_end_of_no_call_is_none():
    book = CallBook()
    records = feed(book, call("a"), done("a"), failed("a"), done("stranger"))
    assert book.calls["a"].ended is records[1]
    assert list(book.calls) == ["a"]


def test_a_utility_call_is_left_when_its_caller_leaves_first():
    book = FanOutBook(context())
    records = feed(book, utility("u"), leave("u"), leave("u"))
    assert book.fans["u"].left is records[1]


def test_a_publish_without_a_wave_and_a_step_that_the_scenario_has_not_announce_none():
    odd = {"coordinator": {"publish": [[], "high", True]}}
    book = WaveBook(context(steps=[odd, {"fence": True}]))
    feed(book, StepBegan(0, "coordinator"), StepBegan(7, "coordinator"))
    assert (book.highest, book.by, book.opaque) == (0, None, False)
    book = WaveBook(context(steps=[{"coordinator": {"publish": [[], 4, True]}}]))
    records = feed(book, StepBegan(0, "coordinator"))
    assert (book.highest, book.by) == (4, records[0])
