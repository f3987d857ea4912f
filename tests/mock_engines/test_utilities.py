"""Utility methods of a well-behaved engine: result types by release, and their effects."""

import pytest

from client.protocol.profiles import RELEASES, profile_for
from mock_engines.utilities import UtilityFailedError, UtilityState, call, known_methods

NEWEST = profile_for("0.33.0")


def result(method, *args, release="0.33.0", state=None):
    return call(state or UtilityState(), profile_for(release), method, args).value


@pytest.mark.parametrize("release", RELEASES)
def test_result_types_are_those_of_the_release(release):
    profile = profile_for(release)
    bools = ["is_sleeping", "is_scheduler_paused", "reset_prefix_cache"]
    nils = [
        "reset_mm_cache",
        "reset_encoder_cache",
        "sleep",
        "resume_scheduler",
        profile.pause_method,
    ]
    assert [type(result(method, release=release)) for method in bools] == [bool] * 3
    assert [result(method, release=release) for method in nils] == [None] * 5
    assert result("wake_up", None, release=release) is (
        True if profile.wake_up_returns_bool else None
    )
    assert result("profile", True, None, release=release) is None
    assert result("set_weight_version", "v", release=release) is None
    assert result("get_weight_version", release=release) == "default"
    assert result("add_lora", ["x", 1, "/p"], release=release) is True
    assert result("list_loras", release=release) == []
    assert result("collective_rpc", "m", None, [], {}, release=release) == [None]
    assert ("pause_generation" in known_methods(profile)) is (release == "0.33.0")


@pytest.mark.parametrize(
    ("method", "args", "cause"),
    [
        ("nope", [], "no utility method 'nope'"),
        ("is_sleeping", [1], "takes 0 arguments, got 1"),
        ("sleep", [1, "later"], "invalid pause mode 'later'"),
        ("add_lora", [["x", 0]], "id must be at least 1"),
        ("add_lora", [["x"]], "IndexError"),
        ("add_lora", [{"name": "x"}], "KeyError"),
        ("remove_lora", [None], "TypeError"),
        ("release_kv_cache_memory", [], "needs a completed pause"),
    ],
)
def test_failed_call_names_method_and_cause_and_changes_nothing(method, args, cause):
    state = UtilityState()
    before = state.view()
    with pytest.raises(UtilityFailedError, match=cause) as caught:
        call(state, NEWEST, method, args)
    assert method in str(caught.value)
    assert state.view() == before


def test_pause_generation_is_unknown_before_its_release():
    with pytest.raises(UtilityFailedError, match="no utility method"):
        call(UtilityState(), profile_for("0.32.0"), "pause_generation", [])


def test_loras_are_a_set_that_lists_in_order():
    state = UtilityState()
    for number in (5, 2):
        call(state, NEWEST, "add_lora", [["x", number, "/p"]])
    assert result("list_loras", state=state) == [2, 5]
    assert result("pin_lora", 5, state=state) is True
    assert result("pin_lora", 9, state=state) is False
    assert result("remove_lora", 5, state=state) is True
    assert result("remove_lora", 5, state=state) is False
    assert (state.view()["loras"], state.view()["pinned"]) == ([2], [])


def test_sleep_wakes_by_tags_and_a_plain_pause_reads_as_sleeping():
    state = UtilityState()
    call(state, NEWEST, "sleep", [1, "abort"])
    assert (state.asleep, state.sleep_level) == ({"weights": None, "kv_cache": None}, 1)
    assert result("wake_up", ["weights"], state=state) is False
    assert result("is_sleeping", state=state) is True
    assert result("wake_up", ["kv_cache"], state=state) is True
    assert result("is_sleeping", state=state) is False
    call(state, NEWEST, "pause_generation", ["keep", True])
    assert result("is_sleeping", state=state) is True


@pytest.mark.parametrize(
    ("mode", "paused", "rejects", "aborts", "waits"),
    [
        ("abort", "new", True, True, False),
        ("wait", "new", True, False, True),
        ("keep", "all", False, False, False),
    ],
)
def test_pause_generation_by_mode(mode, paused, rejects, aborts, waits):
    state = UtilityState()
    outcome = call(state, NEWEST, "pause_generation", [mode, True])
    assert (state.paused, state.rejects) == (paused, rejects)
    assert (outcome.abort_running, outcome.wait_drained) == (aborts, waits)
    call(state, NEWEST, "resume_scheduler", [])
    assert (state.paused, state.rejects) == (None, False)


def test_counters_and_flags_show_every_other_effect():
    state = UtilityState()
    for method in ("reset_prefix_cache", "reset_mm_cache", "reset_encoder_cache"):
        call(state, NEWEST, method, [])
    call(state, NEWEST, "profile", [True, None])
    call(state, NEWEST, "set_weight_version", ["v2"])
    call(state, NEWEST, "pause_scheduler", [])
    call(state, NEWEST, "release_kv_cache_memory", [])
    view = state.view()
    assert [view[f"{name}_cache_resets"] for name in ("prefix", "mm", "encoder")] == [1, 1, 1]
    assert (view["profiling"], view["weight_version"]) == (True, "v2")
    assert view["kv_cache_released"] is True
    assert result("collective_rpc", "compute_weight_checksums", state=state) == [{}]


def test_deep_level_of_sleep_is_told_apart_from_a_mere_pause():
    state = UtilityState()
    call(state, NEWEST, "sleep", [0])
    assert (state.asleep, state.sleep_level, state.paused) == ({}, 0, "new")
    call(state, NEWEST, "resume_scheduler", [])
    call(state, NEWEST, "sleep", [2])
    assert (list(state.asleep), state.sleep_level) == (["weights", "kv_cache"], 2)


def test_methods_without_an_effect_are_answered_and_take_no_argument():
    state = UtilityState()
    before = state.view()
    assert result("get_supported_tasks", state=state) == ["generate"]
    assert result("execute_dummy_batch", state=state) is None
    assert state.view() == before
    for method in ("get_supported_tasks", "execute_dummy_batch"):
        with pytest.raises(UtilityFailedError):
            call(state, NEWEST, method, [1])


@pytest.mark.parametrize("message", [{}, "three", {"new_data_parallel_size": 0}])
def test_change_of_size_that_means_nothing_fails_and_names_its_method(message):
    state = UtilityState()
    with pytest.raises(UtilityFailedError, match="call to reinitialize_distributed failed"):
        call(state, NEWEST, "reinitialize_distributed", [message])
    with pytest.raises(UtilityFailedError, match="call to commit_prepared_elastic_ep failed"):
        call(state, NEWEST, "commit_prepared_elastic_ep", [])
