"""The pure objects where a rule begins and ends: the step before, the step itself, the one after."""

from __future__ import annotations

import pytest

from client import errors
from client.coordinator import FirstRequest
from client.external_coordinator import (
    AnswerReady,
    Broadcast,
    CoordinatorDied,
    ExternalCoordinatorState,
    Note,
    Publish,
)
from client.protocol.codec_errors import CodecError
from client.protocol.ids import identity_from_rank, rank_from_identity
from client.protocol.messages import (
    ConnectedEngine,
    CoordinatorPublish,
    EngineCoreOutputs,
    ReadyResponse,
    StartDpWave,
    UtilityOutput,
)
from client.protocol.profiles import profile_for
from client.protocol.shown import NAME_CHARS_MAX, cut, name_shown, shown_frames
from client.requests import RequestRegistry
from client.routing import Routing
from client.startup import coordinator_address
from client.utility import (
    NIL,
    FanOut,
    IdList,
    Ok,
    UtilityRegistry,
    check_result_type,
    typed_value,
)

R0, R1 = identity_from_rank(0), identity_from_rank(1)


# --- external coordinator -----------------------------------------------------------------------


def process(release="0.32.0", *, count=2, moe=True, subscribers=None):
    profile = profile_for(release)
    return ExternalCoordinatorState(
        profile, count, wave_coordination=moe, now=100.0, subscribers=subscribers
    )


def load(engine, *, wave=0, step=0, running=0):
    return EngineCoreOutputs(
        engine,
        scheduler_stats={
            "num_waiting_reqs": 0, "num_running_reqs": running, "kv_cache_usage": 0.0,
            "current_wave": wave, "step_counter": step,
        },
    )  # fmt: skip


def complete(wave, engine=0):
    return EngineCoreOutputs(engine, wave_complete=wave)


def begun(wave, engine=0):
    return EngineCoreOutputs(engine, start_wave=wave)


def test_process_begins_paused_at_wave_0_without_load_and_not_serving():
    state = process()
    assert not state.started
    assert state.snapshot().current_wave == 0
    assert state.snapshot().engines_running is False
    assert state.counts() == ((0, 0, 0), (0, 0, 0))
    assert state.on_timeout(105.0) == [
        Publish(CoordinatorPublish(((0, 0, 0), (0, 0, 0)), 0, False))
    ]


@pytest.mark.parametrize("subscribers", [1, 2, 3])
def test_process_serves_once_as_many_subscribed_as_there_are_engines(subscribers):
    state = process(count=2, subscribers=subscribers)
    for _ in range(subscribers - 1):
        assert state.on_back_subscription([b"\x01"]) == []
        assert not state.started
    assert state.on_back_subscription([b"\x01"]) == [AnswerReady()]
    assert state.started


def test_process_that_waits_for_no_engine_serves_at_the_first_subscription():
    state = process(subscribers=0)
    assert state.on_back_subscription([b"\x01"]) == [AnswerReady()]
    assert state.started


@pytest.mark.parametrize("frames", [[], [b"\x02"], [b"\x01", b"\x01"], [b"\x00", b"\x00"]])
def test_process_that_serves_not_yet_dies_of_a_strange_subscription_and_later_notes_it(frames):
    state = process(subscribers=1)
    with pytest.raises(CoordinatorDied, match="unexpected message on the engines' subscription"):
        state.on_back_subscription(frames)
    state.on_back_subscription([b"\x01"])
    (note,) = state.on_back_subscription(frames)
    assert isinstance(note, Note)
    assert note.text.endswith(shown_frames(frames))


@pytest.mark.parametrize(("engine", "known"), [(-1, False), (0, True), (1, True), (2, False)])
def test_process_takes_stats_of_its_engines_only(engine, known):
    state = process(count=2)
    effects = state.on_outputs(load(engine, running=1))
    assert (effects == []) is known
    assert (sum(row[1] for row in state.counts()) == 1) is known
    if not known:
        assert effects == [Note(f"stats of engine {engine}, which is none of 2")]


def test_process_takes_the_first_step_of_all_as_a_step_like_others():
    state = process()
    assert state.on_outputs(load(0, wave=0, step=0, running=1)) == []
    assert state.on_outputs(load(1, wave=0, step=0, running=1)) == []
    (publish,) = state.on_timeout(101.0)
    assert publish.message.counts == ((0, 1, 0.0), (0, 1, 0.0))


def test_process_orders_steps_by_wave_then_by_counter():
    state = process()
    state.on_outputs(load(0, wave=1, step=5))
    assert state.on_outputs(load(0, wave=1, step=5)) == []
    assert state.on_outputs(load(0, wave=2, step=0)) == []
    assert state.on_outputs(load(1, wave=1, step=9)) == [
        Note("out-of-order step (1, 9) of engine 1")
    ]
    assert state.on_outputs(load(1, wave=2, step=1)) == []


def test_process_keeps_no_snapshot_of_a_step_that_was_published():
    state = process()
    state.on_outputs(load(0, step=1, running=1))
    state.on_timeout(101.0)
    state.on_outputs(load(0, step=2, running=2))
    (publish,) = state.on_timeout(102.0)
    assert publish.message.counts[0] == (0, 2, 0.0)


def test_process_publishes_the_rest_of_a_step_soon_after_its_snapshot():
    state = process()
    state.on_outputs(load(0, step=1, running=1))
    state.on_outputs(load(0, step=2, running=2))
    state.on_timeout(200.0)
    assert state.next_publish(200.0) == pytest.approx(200.1)  # still changed: no idle pause
    state.on_timeout(200.1)
    assert state.next_publish(200.1) == pytest.approx(205.1)


@pytest.mark.parametrize(
    ("release", "moe", "floor"),
    [
        ("0.26.0", True, True), ("0.26.0", False, True),
        ("0.27.0", True, True), ("0.27.0", False, False),
    ],
)  # fmt: skip
def test_process_waits_for_the_rest_of_a_step_where_steps_count(release, moe, floor):
    state = process(release, moe=moe)
    state.on_outputs(load(0, step=1))
    assert state.next_publish(300.0) == (300.05 if floor else 300.0)


@pytest.mark.parametrize(
    ("release", "moe", "kept"),
    [("0.26.0", False, True), ("0.27.0", True, True), ("0.27.0", False, False)],
)
def test_process_keeps_the_step_before_where_steps_count(release, moe, kept):
    state = process(release, moe=moe)
    state.on_outputs(load(0, step=1, running=1))
    state.on_outputs(load(0, step=2, running=2))
    (publish,) = state.on_timeout(300.0)
    assert publish.message.counts[0][1] == (1 if kept else 2)


@pytest.mark.parametrize(
    ("notice", "after"),
    [
        (complete(3), None), (complete(4), (5, False)), (complete(9), (10, False)),
        (begun(3), None), (begun(4), (4, True)), (begun(5), (5, True)),
    ],
)  # fmt: skip
def test_process_takes_notices_of_its_wave_and_of_later_ones_while_paused(notice, after):
    state = process()
    state.on_outputs(complete(3))
    effects = state.on_outputs(notice)
    now = state.snapshot()
    assert (now.current_wave, now.engines_running) == (after or (4, False))
    publish = [Publish(CoordinatorPublish(None, now.current_wave, now.engines_running))]
    wake = [Broadcast(StartDpWave(now.current_wave, 0))] if notice.start_wave is not None else []
    assert effects == ([*wake, *publish] if after else [])


@pytest.mark.parametrize(("wave", "taken"), [(3, False), (4, False), (5, True)])
def test_process_takes_a_start_of_a_later_wave_only_while_engines_run(wave, taken):
    state = process()
    state.on_outputs(complete(3))
    state.on_outputs(begun(4))
    assert bool(state.on_outputs(begun(wave, 1))) is taken
    assert state.snapshot().current_wave == (wave if taken else 4)
    assert state.snapshot().engines_running


def test_process_wakes_nobody_for_a_first_request_while_engines_run():
    state = process("0.32.0")
    state.on_outputs(begun(0))
    assert state.on_first_request(FirstRequest(1, 0)) == []


def test_process_sends_stats_and_notice_of_one_message_both():
    state = process()
    outputs = EngineCoreOutputs(
        1, scheduler_stats=load(1, running=3).scheduler_stats, wave_complete=0
    )
    assert state.on_outputs(outputs) == [Publish(CoordinatorPublish(None, 1, False))]
    assert state.counts()[1] == (0, 3, 0.0)


# --- registries -----------------------------------------------------------------------------------


def test_admissions_are_numbered_from_one_also_under_one_id():
    registry = RequestRegistry([R0, R1])
    first = registry.register("a", R0, "sink")
    registry.release(first)
    second = registry.register("a", R1, "sink")
    third = registry.register("b", R1, "sink")
    assert [each.serial for each in (first, second, third)] == [1, 2, 3]


def test_closed_registry_admits_nothing_and_names_what_closed_it():
    registry = RequestRegistry([R0])
    registry.close(errors.ClientClosed())
    with pytest.raises(errors.ClientClosed):
        registry.register("a", R0, "sink")
    assert registry.in_flight() == ()


@pytest.mark.parametrize("position", [-1, 2, 3])
def test_fan_out_takes_an_outcome_of_its_engines_only(position):
    fan_out = FanOut([7, 8])
    with pytest.raises(ValueError, match=f"position {position} settles twice or is no engine"):
        fan_out.record(position, Ok(1))
    assert fan_out.open_ranks() == [7, 8]


def test_fan_out_of_no_engine_is_settled_and_empty():
    fan_out = FanOut([])
    assert fan_out.settled
    assert fan_out.results() == []


def test_results_and_descriptions_stand_in_engine_order_whoever_was_first():
    fan_out = FanOut([7, 8, 9])
    for position in (2, 0, 1):
        assert not fan_out.settled
        fan_out.record(position, Ok(f"v{position}"))
    assert fan_out.results() == ["v0", "v1", "v2"]
    assert fan_out.describe() == [(7, "ok 'v0'"), (8, "ok 'v1'"), (9, "ok 'v2'")]


def test_call_ids_count_on_from_where_they_are_told_to():
    registry = UtilityRegistry(first=-3)
    assert [registry.allocate("a"), registry.allocate("b")] == [-3, -2]


ANYTHING = [None, True, False, 0, 7, 0.5, "", "a", [], [1], (1,), [2, 1], ["x"], [True], {}, b""]
EXACT = {
    bool: ([True, False], "bool"),
    int: ([0, 7], "int"),
    float: ([0.5], "float"),
    str: (["", "a"], "str"),
    list: ([[], [1], (1,), [2, 1], ["x"], [True]], "list"),
    NIL: ([None], "nil"),
    IdList: ([[], [1], (1,), [2, 1]], "list of int"),
}


@pytest.mark.parametrize("result_type", EXACT, ids=lambda each: each.__name__)
def test_value_of_exactly_the_result_type_is_taken(result_type):
    taken, wanted = EXACT[result_type]
    shown = [repr(value) for value in taken]
    for value in ANYTHING:
        reply = UtilityOutput(1, None, value)
        if repr(value) in shown:
            typed_value(reply, "m", result_type)
            continue
        with pytest.raises(errors.UtilityResultDecode) as caught:
            typed_value(reply, "m", result_type)
        assert f"expected {wanted}, got {value!r}" in str(caught.value)


def test_result_type_decides_the_form_of_an_array():
    assert typed_value(UtilityOutput(1, None, (3, 1)), "m", list) == [3, 1]
    ids = typed_value(UtilityOutput(1, None, (3, 1, 2)), "m", IdList)
    assert (type(ids), ids) == (IdList, [1, 2, 3])
    anything = object()
    assert typed_value(UtilityOutput(1, None, anything), "m", object) is anything


def test_failure_message_wins_over_a_value_even_when_it_is_empty():
    with pytest.raises(errors.UtilityCallFailed):
        typed_value(UtilityOutput(1, "", 5), "m", int)


@pytest.mark.parametrize("wrong", [list[int], dict, bytes, tuple, "int", None])
def test_result_type_that_no_reply_has_is_refused_before_the_call(wrong):
    with pytest.raises(TypeError, match="is none of bool, int, float, str, list, NoneType, IdList"):
        check_result_type(wrong)
    for known in (*EXACT, object):
        check_result_type(known)


# --- routing ------------------------------------------------------------------------------------


def stats(running, waiting):
    return {"num_running_reqs": running, "num_waiting_reqs": waiting}


@pytest.mark.parametrize(
    ("weight", "in_flight", "running", "waiting", "score"),
    [
        (0, 0, 0, 0, 0), (0, 5, 2, 1, 5), (0, 2, 2, 1, 3), (0, 3, 2, 1, 3), (3, 5, 2, 1, 8),
        (3, 0, 2, 2, 10), (3, 0, 0, 3, 12),
    ],
)  # fmt: skip
def test_score_is_the_larger_view_of_the_load_plus_the_weight_of_who_waits(
    weight, in_flight, running, waiting, score
):
    routing = Routing([R0, R1], waiting_weight=weight)
    assert routing.score(R0, in_flight) == in_flight
    assert routing.apply_stats(0, stats(running, waiting)) is True
    assert routing.score(R0, in_flight) == score
    assert routing.score(R1, in_flight) == in_flight


def test_stats_without_counts_report_no_load():
    routing = Routing([R0], waiting_weight=3)
    assert routing.apply_stats(0, {}) is True
    assert routing.score(R0, 4) == 4


@pytest.mark.parametrize("index", [-1, 1, 65_536, 65_537])
def test_stats_of_no_connected_engine_are_ignored(index):
    routing = Routing([R0], waiting_weight=0)
    assert routing.apply_stats(index, stats(9, 9)) is False
    assert routing.score(R0, 1) == 1


@pytest.mark.parametrize("rank", [0, 65_535])
def test_rank_at_either_end_is_routed_to(rank):
    identity = identity_from_rank(rank)
    routing = Routing([identity], waiting_weight=0)
    assert routing.choose(rank, lambda engine: 0) == identity
    assert routing.apply_stats(rank, stats(1, 0)) is True


# --- identities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [-65_537, -1, 65_536, 65_537, 2**32])
def test_rank_beyond_two_bytes_is_refused_with_the_range(rank):
    with pytest.raises(ValueError, match="exceeds") as caught:
        identity_from_rank(rank)
    assert str(caught.value) == (
        f"rank {rank} exceeds the two-byte engine identity limit (0..65535)"
    )


@pytest.mark.parametrize(
    ("rank", "identity"),
    [(0, b"\x00\x00"), (1, b"\x01\x00"), (256, b"\x00\x01"), (65_535, b"\xff\xff")],
)
def test_rank_and_identity_name_each_other(rank, identity):
    assert identity_from_rank(rank) == identity
    assert rank_from_identity(identity) == rank


@pytest.mark.parametrize("identity", [b"", b"\x01", b"\x01\x00\x00"])
def test_identity_of_another_length_is_no_rank(identity):
    assert rank_from_identity(identity) is None


def test_engines_that_are_used_no_more_are_no_choice_and_return_without_a_report():
    routing = Routing([R0, R1], waiting_weight=0)
    routing.apply_stats(1, stats(9, 0))
    routing.use([R0])
    assert routing.choose(None, lambda _engine: 5) == R0
    with pytest.raises(errors.InvalidDataParallelRank):
        routing.choose(1, lambda _engine: 0)
    routing.use([R0, R1])
    assert routing.score(R1, 2) == 2


# --- what is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "shown"),
    [
        ([], "[]"),
        ([b"", b"\x01"], "[empty, 01]"),
        ([b"\x01" * 32], f"[{'01' * 32}]"),
        ([b"\x01" * 33], f"[{'01' * 32}…(33 bytes)]"),
        ([b"\x01" * 70_000], f"[{'01' * 32}…(70,000 bytes)]"),
        ([b"\x01"] * 4, "[01, 01, 01, 01]"),
        ([b"\x01"] * 1_005, "[01, 01, 01, 01, and 1,001 more]"),
    ],
)
def test_frames_are_shown_by_their_beginning_and_their_number(frames, shown):
    assert shown_frames(frames) == shown


@pytest.mark.parametrize(
    ("length", "shown"), [(1_000, "x" * 1_000), (1_001, "x" * 1_000 + "… (1,001 characters)")]
)
def test_text_is_quoted_up_to_its_bound_and_says_how_long_it_was(length, shown):
    assert cut("x" * length) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("chatcmpl-" + "0" * 32 + "-0123abcd", "chatcmpl-" + "0" * 32 + "-0123abcd"),
        ("sleep", "sleep"),
        ("", "''"),
        ("a b", "'a b'"),
        ("a\n#1", r"'a\n#1'"),
        ("a\u202eb", r"'a\u202eb'"),
        ("a\ud800", r"'a\ud800'"),
        ("a" * 300_000 + "z" * 200_000, f"{'a' * 32}…{'z' * 32}"),
        (f"{' ' * 70}x", f"'{' ' * 32}…{' ' * 31}x'"),
    ],
)
def test_name_is_shown_as_one_short_word(name, shown):
    assert name_shown(name) == shown
    assert len(shown) <= NAME_CHARS_MAX + 3


def test_error_of_the_codec_that_the_client_does_not_know_is_refused():
    with pytest.raises(TypeError, match="unknown codec error"):
        errors.from_codec(CodecError("odd"))


@pytest.mark.parametrize(
    ("reported", "configured", "used"),
    [
        ((None, None), None, None),
        ((None, None), "ours", "ours"),
        ((None, "second"), "ours", "second"),
        (("first", "second"), "ours", "first"),
        ((7, "second"), None, "second"),
    ],
)
def test_external_coordinator_is_where_the_first_engine_says_that_it_is(reported, configured, used):
    engines = tuple(
        ConnectedEngine(identity_from_rank(rank), ReadyResponse({"dp_stats_address": address}))
        for rank, address in enumerate(reported)
    )
    assert coordinator_address(engines, configured) == used
