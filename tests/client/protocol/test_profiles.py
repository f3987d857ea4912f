"""The table of releases."""

from __future__ import annotations

import dataclasses

import pytest
from packaging.version import Version

from client.protocol.messages import EngineCoreOutput, EngineCoreOutputs, EngineCoreRequest
from client.protocol.profiles import (
    NEWEST,
    PROFILES,
    RELEASES,
    UnknownReleaseError,
    profile_for,
)


def test_releases_are_sorted_and_each_has_a_profile():
    assert list(RELEASES) == sorted(RELEASES, key=Version)
    assert tuple(PROFILES) == RELEASES
    assert len(RELEASES) == 15
    assert (NEWEST, profile_for(NEWEST).release) == ("0.33.0", "0.33.0")


def test_unknown_release_is_refused_with_the_known_ones():
    with pytest.raises(UnknownReleaseError, match=r"'0\.34\.0'; known: 0\.22\.0, .*0\.33\.0"):
        profile_for("0.34.0")


def test_profile_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile_for(NEWEST).release = "x"


@pytest.mark.parametrize(
    ("field", "by_release"),
    [
        ("request_fields", {"0.22.0": 20, "0.28.0": 21, "0.31.0": 22}),
        ("output_fields", {"0.22.0": 13, "0.26.0": 14, "0.28.0": 16, "0.29.0": 17, "0.31.0": 18, "0.33.0": 19}),
        ("output_fields_max", {"0.22.0": 13, "0.26.0": 14, "0.28.0": 16, "0.29.0": 17, "0.31.0": None}),
        ("outputs_fields", {"0.22.0": 8, "0.32.0": 9}),
        ("outputs_fields_max", {"0.22.0": 8, "0.32.0": 9}),
        ("has_ec_transfer", {"0.22.0": False, "0.26.0": True}),
        ("logprobs_tuple_max", {"0.22.0": 4, "0.29.0": None}),
        ("logprobs_rank_min", {"0.22.0": 1, "0.31.0": 0}),
        ("unknown_dtype_is_decode_error", {"0.22.0": False, "0.30.0": True}),
        ("two_byte_identity_required", {"0.22.0": False, "0.25.0": True}),
        ("unclassified_is_decode_error", {"0.22.0": False, "0.25.0": True}),
        ("empty_registration_accepted", {"0.22.0": True, "0.23.0": False}),
        ("checks_lora_consistency", {"0.22.0": False, "0.29.0": True}),
        ("frontend_starts_waves", {"0.22.0": True, "0.33.0": False}),
        ("engine_starts_current_wave", {"0.22.0": False, "0.33.0": True}),
        ("waiting_weight", {"0.22.0": 3, "0.27.0": 0}),
        ("rank_checked_u16", {"0.22.0": False, "0.28.0": True}),
        ("config_validated", {"0.22.0": False, "0.28.0": True}),
        ("config_error_wrapped", {"0.22.0": False, "0.29.0": True}),
        ("publish_counts_fields", {"0.22.0": 2, "0.27.0": 3}),
        ("pause_method", {"0.22.0": "pause_scheduler", "0.33.0": "pause_generation"}),
        ("wake_up_returns_bool", {"0.22.0": False, "0.31.0": True}),
        ("groups_aborts", {"0.22.0": False, "0.24.0": True}),
        ("lora_request_fields", {"0.22.0": 7, "0.33.0": 6}),
        ("external_coordinator_start_index", {"0.22.0": False, "0.24.0": True}),
        ("external_coordinator_marks_running", {"0.22.0": True, "0.29.0": False}),
        ("late_subscriber_hears_waves", {"0.22.0": False, "0.32.0": True}),
        ("request_error_field", {"0.22.0": False, "0.33.0": True}),
        ("outbound_aux_frames", {"0.22.0": False, "0.27.0": True}),
        ("gate_counts_messages", {"0.22.0": True}),
    ],
)  # fmt: skip
def test_profile_value_changes_only_at_its_release(field, by_release):
    expected, wanted = None, {}
    for release in RELEASES:
        expected = by_release.get(release, expected)
        wanted[release] = expected
    assert {release: getattr(profile_for(release), field) for release in RELEASES} == wanted


@pytest.mark.parametrize("release", RELEASES)
def test_field_names_are_those_of_the_messages(release):
    profile = profile_for(release)
    request = list(EngineCoreRequest.__struct_fields__)
    output = list(EngineCoreOutput.__struct_fields__)
    assert list(profile.request_field_names) == request[: profile.request_fields]
    assert list(profile.output_field_names) == [
        n for n in output if n in profile.output_field_names
    ]
    assert profile.output_fields == len(profile.output_field_names)
    assert profile.outputs_fields <= len(EngineCoreOutputs.__struct_fields__)
    assert profile.typed_output_fields <= set(profile.output_field_names)


@pytest.mark.parametrize("release", RELEASES)
def test_required_ready_keys_are_sent_by_engines(release):
    profile = profile_for(release)
    assert profile.ready_required <= set(profile.ready_keys)


def test_methods_that_are_joined_grow_with_the_releases():
    oldest, newest = profile_for("0.22.0"), profile_for(NEWEST)
    assert oldest.and_methods == {"reset_prefix_cache", "add_lora", "remove_lora"}
    assert newest.and_methods == oldest.and_methods | {"wake_up"}
    assert newest.consensus_methods == {
        "is_sleeping",
        "is_scheduler_paused",
        "get_weight_version",
    }
    for release in RELEASES:
        profile = profile_for(release)
        assert not profile.consensus_methods & profile.and_methods
        assert "is_sleeping" in profile.consensus_methods
