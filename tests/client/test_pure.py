"""The pure objects, rule by rule."""

from __future__ import annotations

import pytest

from client import errors
from client.aggregation import Aggregation
from client.coordinator import CoordinatorState, ExternalView, FirstRequest
from client.external_coordinator import (
    AnswerReady,
    Broadcast,
    CoordinatorDied,
    ExternalCoordinatorState,
    Note,
    Publish,
)
from client.protocol.ids import identity_from_rank
from client.protocol.messages import (
    CoordinatorPublish,
    EngineCoreOutput,
    EngineCoreOutputs,
    FinishReason,
    FirstRequestNotice,
    StartDpWave,
    UtilityOutput,
)
from client.protocol.profiles import profile_for
from client.requests import AbortGrouping, RequestRegistry
from client.routing import Routing
from client.streams import End, Pending, StreamPhase, StreamState
from client.utility import Failed, FanOut, Ok, UtilityRegistry

R0, R1, R256 = (identity_from_rank(rank) for rank in (0, 1, 256))


# --- coordinator ----------------------------------------------------------------------------


def coordinator(wave=0, running=False, starts=True):
    state = CoordinatorState(frontend_starts_waves=starts)
    state.current_wave, state.engines_running = wave, running
    return state


@pytest.mark.parametrize(
    ("before", "notice", "after", "broadcast"),
    [
        # The table of the protocol page, 11.1, row by row.
        ((0, True), ("start", 0, 1), (0, True), None),
        ((0, True), ("complete", 0, 0), (1, False), None),
        ((1, False), ("start", 0, 1), (1, False), None),
        ((1, False), ("complete", 0, 0), (1, False), None),
        ((1, False), ("start", 1, 1), (1, True), StartDpWave(1, 1)),
        ((1, True), ("start", 1, 0), (1, True), None),
        ((1, True), ("complete", 5, 0), (6, False), None),
        ((6, False), ("start", 9, 1), (9, True), StartDpWave(9, 1)),
        ((9, True), ("complete", 3, 0), (9, True), None),
        ((9, True), ("complete", 9, 1), (10, False), None),
        ((10, False), ("start", 10, 77), (10, True), StartDpWave(10, 77)),
    ],
)
def test_wave_notice_moves_the_coordinator_as_observed(before, notice, after, broadcast):
    state = coordinator(*before)
    kind, wave, engine = notice
    sent = state.on_start_wave(wave, engine) if kind == "start" else state.on_wave_complete(wave)
    assert (state.current_wave, state.engines_running) == after
    assert sent == broadcast


@pytest.mark.parametrize(
    ("current", "request_wave", "expected"),
    [(4, 4, (4, 2)), (4, 3, (4, None)), (4, 5, (4, 2))],
)
def test_first_request_starts_the_current_wave_and_never_moves_it(current, request_wave, expected):
    state = coordinator(current)
    sent = state.on_first_request(FirstRequest(2, request_wave))
    assert (sent.wave, sent.exclude_engine_index) == expected
    assert (state.current_wave, state.engines_running) == (4, True)


def test_notify_flips_running_at_once_so_ten_requests_make_one_broadcast():
    state = coordinator(3)
    told = [state.notify_first_request(rank) for rank in range(10)]
    assert told == [FirstRequest(0, 3)] + [None] * 9
    assert coordinator(3, starts=False).notify_first_request(0) is None


def test_external_view_replaces_and_notifies_once():
    view = ExternalView(frontend_starts_waves=True)
    view.apply(CoordinatorPublish([[9, 9]], 5, False))
    assert view.notify_first_request(1) == FirstRequestNotice(1, 5)
    assert view.notify_first_request(0) is None
    view.apply(CoordinatorPublish(None, 3, False))
    assert (view.current_wave, view.engines_running) == (3, False)
    assert ExternalView(frontend_starts_waves=False).notify_first_request(0) is None


# --- external coordinator process -----------------------------------------------------------


def process(release="0.32.0", count=2, moe=True):
    state = ExternalCoordinatorState(profile_for(release), count, wave_coordination=moe, now=100.0)
    state.started = True
    return state


def load(engine, *, wave=0, step=0, waiting=0, running=0, kv=0.0):
    return EngineCoreOutputs(
        engine,
        scheduler_stats={
            "num_waiting_reqs": waiting, "num_running_reqs": running, "kv_cache_usage": kv,
            "current_wave": wave, "step_counter": step,
        },
    )  # fmt: skip


def test_process_publishes_a_tenth_of_a_second_after_a_change_and_after_five_without():
    state = process()
    assert state.next_publish(100.0) == 105.0
    assert state.on_outputs(load(1, waiting=2, running=3, kv=0.5)) == []
    assert state.next_publish(100.0) == 100.1
    assert state.next_publish(100.2) == pytest.approx(100.25)  # floor: the step may go on
    counts = ((0, 0, 0), (2, 3, 0.5))
    assert state.on_timeout(100.25) == [Publish(CoordinatorPublish(counts, 0, False))]
    assert state.next_publish(100.25) == 105.25


def test_process_publishes_the_last_step_before_counts_of_the_next_one():
    state = process("0.26.0")
    state.on_outputs(load(0, step=1, running=1))
    state.on_outputs(load(1, step=1, running=1))
    state.on_outputs(load(0, step=2, running=9))
    assert state.next_publish(200.0) == 200.0  # a snapshot is pending: no floor
    (first,) = state.on_timeout(200.0)
    assert first.message.counts == ((0, 1), (0, 1))
    (second,) = state.on_timeout(200.1)
    assert second.message.counts == ((0, 9), (0, 1))


def test_process_for_dense_engines_keeps_no_step_snapshot_and_no_floor_since_0_27():
    state = process("0.27.0", moe=False)
    state.on_outputs(load(0, step=1, running=1))
    state.on_outputs(load(0, step=2, running=2))
    assert state.next_publish(200.0) == 200.0
    (publish,) = state.on_timeout(200.0)
    assert publish.message.counts == ((0, 2, 0.0), (0, 0, 0))
    assert state.on_outputs(EngineCoreOutputs(0, start_wave=3)) == []
    assert state.on_first_request(FirstRequest(0, 0)) == []
    assert state.snapshot().current_wave == 0


def test_process_notes_what_is_odd_and_goes_on():
    state = process()
    assert isinstance(state.on_outputs(load(7))[0], Note)
    state.on_outputs(load(0, step=5))
    assert isinstance(state.on_outputs(load(1, step=4))[0], Note)
    assert isinstance(state.on_back_subscription([b"x"])[0], Note)


def test_process_starts_once_all_engines_subscribed_and_answers_late_ones():
    state = process()
    state.started = False
    assert state.on_back_subscription([b"\x01"]) == []
    assert state.on_back_subscription([b"\x00"]) == []
    assert state.on_back_subscription([b"\x01"]) == [AnswerReady()]
    assert state.on_back_subscription([b"\x01"]) == [AnswerReady()]
    other = process()
    other.started = False
    with pytest.raises(CoordinatorDied):
        other.on_back_subscription([b"x"])


def test_process_wave_notices_follow_the_in_process_rules_and_publish_at_once():
    state = process()
    assert state.on_outputs(EngineCoreOutputs(1, wave_complete=3)) == [
        Publish(CoordinatorPublish(None, 4, False))
    ]
    assert state.on_outputs(EngineCoreOutputs(1, wave_complete=3)) == []
    assert state.on_outputs(EngineCoreOutputs(1, start_wave=4)) == [
        Broadcast(StartDpWave(4, 1)), Publish(CoordinatorPublish(None, 4, True)),
    ]  # fmt: skip
    assert state.on_outputs(EngineCoreOutputs(1, start_wave=4)) == []


@pytest.mark.parametrize(
    ("release", "marks", "knows"),
    [("0.28.0", True, True), ("0.29.0", False, True), ("0.33.0", False, False)],
)
@pytest.mark.parametrize(("wave", "exclude"), [(4, 2), (3, None), (5, 2)])
def test_process_first_request_by_release(release, marks, knows, wave, exclude):
    state = process(release)
    state.on_outputs(EngineCoreOutputs(0, wave_complete=3))
    effects = state.on_first_request(FirstRequest(2, wave))
    if not knows:
        assert isinstance(effects[0], Note)
        return
    assert effects[0] == Broadcast(StartDpWave(4, exclude))
    assert effects[1:] == ([Publish(CoordinatorPublish(None, 4, True))] if marks else [])
    assert state.engines_running is marks
    if marks:
        assert state.on_first_request(FirstRequest(2, 4)) == []


def test_process_scales_its_counts():
    state = process()
    state.on_outputs(load(1, running=1))
    state.on_scale(3)
    assert state.counts() == ((0, 0, 0), (0, 1, 0.0), (0, 0, 0))
    state.on_scale(1)
    assert state.counts() == ((0, 0, 0),)


@pytest.mark.parametrize(
    "outputs",
    [
        EngineCoreOutputs(0, (EngineCoreOutput("a", (1,)),)),
        EngineCoreOutputs(0, utility_output=UtilityOutput(1)),
    ],
)
def test_process_dies_of_outputs(outputs):
    with pytest.raises(CoordinatorDied):
        process().on_outputs(outputs)


# --- routing --------------------------------------------------------------------------------


def counts(**loads):
    known = {identity_from_rank(int(rank[1:])): load for rank, load in loads.items()}
    return lambda engine: known.get(engine, 0)


def stats(running, waiting):
    return {"num_running_reqs": running, "num_waiting_reqs": waiting}


def test_ties_go_to_the_smallest_identity_bytes():
    routing = Routing([R1, R256, identity_from_rank(2)], waiting_weight=0)
    assert routing.choose(None, counts()) == R256
    assert routing.connected_ranks() == [256, 1, 2]


@pytest.mark.parametrize(("weight", "score"), [(0, 5), (3, 11)])
def test_score_is_the_larger_load_plus_weighted_waiting(weight, score):
    routing = Routing([R0, R1], waiting_weight=weight)
    assert routing.score(R0, 4) == 4
    assert routing.apply_stats(0, stats(3, 2))
    assert routing.score(R0, 4) == score
    assert routing.score(R0, 9) == 9 + 2 * weight
    assert routing.choose(None, counts(r0=0, r1=4)) == R1


@pytest.mark.parametrize("index", [-1, 5, 65536, 65537, 2**32])
def test_stats_of_no_connected_engine_move_no_score(index):
    routing = Routing([R0, R1], waiting_weight=0)
    assert not routing.apply_stats(index, stats(9, 9))
    assert (routing.score(R0, 0), routing.score(R1, 0)) == (0, 0)


@pytest.mark.parametrize("rank", [2, -1, 65535, 65536, 65537, 2**32])
def test_rank_that_is_not_connected_is_refused_never_aliased(rank):
    routing = Routing([R0, R1], waiting_weight=0)
    with pytest.raises(errors.InvalidDataParallelRank) as caught:
        routing.choose(rank, counts())
    assert caught.value.connected_ranks == (0, 1)
    assert routing.choose(1, counts(r1=50)) == R1


# --- registries -----------------------------------------------------------------------------


def test_registration_holds_its_id_until_release_and_departure():
    registry = RequestRegistry([R0, R1])
    first = registry.register("a", R1, "sink")
    assert (registry.in_flight(), registry.count(R1)) == (("a",), 1)
    with pytest.raises(errors.DuplicateRequestId):
        registry.register("a", R0, "other")
    assert registry.release(first, departing=True)
    assert not registry.release(first)
    assert (registry.in_flight(), registry.count(R1)) == ((), 0)
    with pytest.raises(errors.DuplicateRequestId):
        registry.check_free("a")
    registry.departed(first)
    second = registry.register("a", R0, "sink")
    assert not registry.release(first)
    assert registry.get("a") is second
    registry.departed(second)
    assert registry.get("a") is second


def test_closed_registry_raises_its_first_error_and_returns_what_was_in_flight():
    registry = RequestRegistry([R0])
    entry = registry.register("a", R0, "sink")
    assert registry.close(errors.EngineCoreDead()) == [entry]
    assert registry.close(errors.ClientClosed()) == []
    assert registry.count(R0) == 0
    with pytest.raises(errors.EngineCoreDead):
        registry.check_free("b")
    assert isinstance(registry.closed_by, errors.EngineCoreDead)


def test_aborts_are_grouped_in_identity_byte_order():
    grouping = AbortGrouping([R1, R256])
    aborted = [("a", R1), ("b", R256), ("c", R1)]
    assert grouping.group(aborted, one_frame_per_engine=True) == [
        (R256, ("b",)), (R1, ("a", "c")),
    ]  # fmt: skip
    assert grouping.group(aborted, one_frame_per_engine=False) == [
        (R1, ("a",)), (R256, ("b",)), (R1, ("c",)),
    ]  # fmt: skip


def test_utility_ids_count_from_one_and_resolve_once():
    registry = UtilityRegistry()
    assert [registry.allocate(name) for name in "abc"] == [1, 2, 3]
    assert registry.resolve(2) == "b"
    assert [registry.resolve(call_id) for call_id in (2, -1, 99)] == [None] * 3
    assert registry.release(1)
    assert not registry.release(1)
    assert registry.pending() == (3,)
    assert registry.close(errors.EngineCoreDead()) == ["c"]
    assert registry.close(errors.ClientClosed()) == []
    with pytest.raises(errors.EngineCoreDead):
        registry.allocate("d")


def test_fan_out_is_settled_by_the_last_and_shows_the_first_in_engine_order():
    fan_out = FanOut([7, 8, 9])
    one, two = errors.UtilityCallFailed("m", 1, "one"), errors.UtilityCallFailed("m", 2, "two")
    fan_out.record(2, Failed(two))
    fan_out.record(1, Failed(one))
    assert not fan_out.settled
    assert fan_out.open_ranks() == [7]
    assert fan_out.describe() == [(8, str(one)), (9, str(two))]
    fan_out.record(0, Ok(5))
    assert fan_out.settled
    with pytest.raises(errors.UtilityCallFailed, match="one"):
        fan_out.results()
    for position in (0, 3):
        with pytest.raises(ValueError, match="settles twice or is no engine"):
            fan_out.record(position, Ok(1))


# --- streams --------------------------------------------------------------------------------


def test_stream_ends_after_its_final_output_and_drops_what_follows():
    state = StreamState("a")
    assert state.take() == Pending()
    last = EngineCoreOutput("a", (2,), finish_reason=FinishReason.ERROR)
    state.push(EngineCoreOutput("a", (1,)))
    state.push(last)
    state.push(EngineCoreOutput("a", (3,)))
    state.fail(errors.ClientClosed())
    state.close()
    assert state.complete
    assert state.take() == EngineCoreOutput("a", (1,))
    assert state.phase is StreamPhase.RUNNING
    assert state.take() == last
    assert state.phase is StreamPhase.FINISHED
    assert state.take() == End()
    assert not state.drop()


def test_stream_closed_without_a_final_output_says_so_once():
    state = StreamState("a")
    state.push(EngineCoreOutput("a", (1,)))
    state.close()
    state.take()
    assert isinstance(state.take(), errors.RequestStreamClosed)
    assert state.phase is StreamPhase.UNEXPECTED_CLOSE
    assert state.take() == End()
    assert not state.drop()


def test_stream_dropped_before_its_end_was_read_asks_for_one_abort():
    state = StreamState("a")
    state.push(EngineCoreOutput("a", (1,), finish_reason=FinishReason.STOP))
    assert state.drop()
    assert not state.drop()
    assert state.take() == End()
    failed = StreamState("b")
    failed.fail(errors.EngineCoreDead())
    assert isinstance(failed.take(), errors.EngineCoreDead)
    assert failed.phase is StreamPhase.CLOSED_WITH_ERROR
    assert not failed.drop()


# --- aggregation ----------------------------------------------------------------------------


def test_consensus_wants_equal_values_of_equal_type():
    rules = Aggregation()
    assert rules.consensus("m", ["v", "v"]) == "v"
    for values, text in (
        ([True, False], "[true, false]"), ([], "[]"), ([1, True], "[1, true]"),
        (["a", None], '["a", nil]'), ([[1], [2]], "[[1], [2]]"),
    ):  # fmt: skip
        with pytest.raises(errors.InconsistentUtilityResults) as caught:
            rules.consensus("m", values)
        assert (caught.value.method, caught.value.values) == ("m", text)


def test_conjunction_is_true_only_when_all_are_and_needs_one():
    rules = Aggregation()
    assert rules.conjunction("m", [True, True])
    assert not rules.conjunction("m", [True, False])
    with pytest.raises(errors.InconsistentUtilityResults, match=r"\[\]"):
        rules.conjunction("m", [])


def test_flatten_concatenates_arrays_and_keeps_single_items():
    assert Aggregation().flatten([[5], 6, None, [], [[1]]]) == [5, 6, None, [1]]
