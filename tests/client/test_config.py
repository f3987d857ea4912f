"""Configuration rules, the rank parsers, and the error tree."""

from __future__ import annotations

import pytest

from client import errors
from client.config import (
    Bootstrapped,
    ClientConfig,
    ExternalCoordinatorAddress,
    HandshakeOwner,
    validate,
)
from client.errors import ClientError, error_tree
from client.protocol.profiles import RELEASES, profile_for
from client.rank_metadata import parse_rank_header, parse_rank_metadata


def owner(count, size, coordinator=None):
    return HandshakeOwner("h", "i", "o", count, size, coordinator)


def part(start, count, size):
    return Bootstrapped("i", "o", start, count, size)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (owner(0, 0), "data parallel size must be at least 1"),
        (owner(65537, 65537),
         "data parallel size (65537) exceeds the two-byte engine identity limit"),
        (owner(0, 1), "engine count must be at least 1"),
        (part(0, 0, 1), "engine count must be at least 1"),
        (owner(1, 2), "engine count (1) must equal data parallel size (2) when the client owns "
         "the handshake; to connect to a part of a deployment, bootstrapped mode is the way"),
        (part(-1, 1, 2), "engine start index (-1) must be at least 0"),
        (part(2**64 - 1, 1, 2), "engine start index + engine count overflows"),
        (part(2**64 - 2, 1, 2), "connected engine range [18446744073709551614, "
         "18446744073709551615) exceeds data parallel size (2)"),
        (part(1, 2, 2), "connected engine range [1, 3) exceeds data parallel size (2)"),
        (owner(3, 2), "engine count (3) must equal data parallel size (2) when the client owns "
         "the handshake; to connect to a part of a deployment, bootstrapped mode is the way"),
    ],
)  # fmt: skip
def test_broken_topology_rule_has_its_message(mode, reason):
    for release, text in (
        ("0.28.0", reason),
        ("0.29.0", f"invalid engine-core client configuration: {reason}"),
    ):
        with pytest.raises(errors.InvalidClientConfig) as caught:
            validate(ClientConfig(profile_for(release), mode))
        assert str(caught.value) == text


@pytest.mark.parametrize(
    "mode", [owner(1, 1), owner(2, 2), owner(int("300"), int("300")), owner(65536, 65536), part(0, 1, 1),
             part(0, 65536, 65536), part(65535, 1, 65536), part(1, 1, 3), part(300, 300, 600)],
)  # fmt: skip
@pytest.mark.parametrize("release", RELEASES)
def test_sound_topology_is_accepted_by_every_release(mode, release):
    validate(ClientConfig(profile_for(release), mode))


@pytest.mark.parametrize(
    ("mode", "fragment"),
    [
        (owner(0, 2), "expected engine_count >= 1"),
        (part(65536, 1, 1), "engine_start_index exceeds the two-byte engine identity limit"),
        (part(-1, 1, 1), "engine_start_index exceeds the two-byte engine identity limit"),
        (part(65535, 2, 1), "two-byte engine identity limit"),
        (part(0, 65537, 1), r"engine_start_index \+ engine_count exceeds the two-byte"),
    ],
)
def test_identity_never_wraps_even_where_the_release_checked_nothing(mode, fragment):
    with pytest.raises(errors.UnexpectedHandshakeMessage, match=fragment):
        validate(ClientConfig(profile_for("0.27.1"), mode))
    validate(ClientConfig(profile_for("0.27.1"), part(1, 2, 1)))


def test_handshake_owner_refuses_an_external_coordinator():
    mode = owner(1, 1, ExternalCoordinatorAddress("x"))
    with pytest.raises(errors.UnsupportedExternalCoordinator, match="external coordinator mode"):
        validate(ClientConfig(profile_for("0.33.0"), mode))


@pytest.mark.parametrize(
    ("raw", "rank"),
    [
        (None, None), ([], None), ("3", 3), (" 3\t", 3), ("+1", 1), ("01", 1), (b"7", 7),
        (["2", "9"], 2), ("4294967295", 2**32 - 1), ("65536", 65536),
    ],
)  # fmt: skip
def test_rank_that_rust_parses_is_read_from_metadata_and_header(raw, rank):
    assert parse_rank_metadata(raw) == rank
    assert parse_rank_header(raw) == rank


@pytest.mark.parametrize(
    "raw",
    ["", " ", "abc", "-1", "-0", "+", "++1", "1.0", "0x1", "1_0", "4294967296", "\u0663",
     "1 2", b"\xff1", "3\n", "1\u00a0"],
)  # fmt: skip
def test_rank_that_rust_does_not_parse_is_an_error_in_metadata_and_ignored_in_a_header(raw):
    with pytest.raises(errors.InvalidRankMetadata) as caught:
        parse_rank_metadata(raw)
    assert str(caught.value) == "x-data-parallel-rank metadata must be an unsigned 32-bit integer"
    assert parse_rank_header(raw) is None


def test_every_error_names_the_first_release_that_has_it():
    for cls in error_tree():
        assert cls.since == "" or cls.since in RELEASES, cls
    assert errors.UtilityCallTimeout.since == ""
    assert errors.ProfileAlreadyActive.since == "0.32.0"


def test_sticky_error_is_raised_as_an_equal_copy_without_traceback():
    first = errors.Decode("EngineCoreOutputs", "x", "text")
    with pytest.raises(errors.Decode) as caught:
        raise first
    again = caught.value.again()
    assert again is not first
    assert (type(again), str(again), again.field) == (errors.Decode, "text", "x")
    assert again.__traceback__ is None
    assert first.__traceback__ is not None


def test_error_classes_have_the_names_of_the_rust_variants():
    names = {cls.__name__ for cls in error_tree()}
    assert {
        "UtilityCallFailed", "UtilityResultDecode", "UtilityCallClosed", "UtilityCallTimeout",
        "InconsistentUtilityResults", "DuplicateRequestId", "InvalidDataParallelRank",
        "RequestStreamClosed", "EngineCoreDead", "Decode", "ExtValueDecode", "Encode", "Transport",
        "ClientClosed", "DispatcherClosed", "HandshakeTimeout", "InputRegistrationTimeout",
        "UnexpectedHandshakeMessage", "InvalidClientConfig", "UnexpectedCoordinatorOutput",
        "UnexpectedDispatcherOutput", "UnsupportedCoordinatorEngineId",
        "UnsupportedExternalCoordinator", "UnsupportedField", "ControlClosed",
        "ProfileAlreadyActive",
    } <= names  # fmt: skip
    assert issubclass(errors.UtilityCallTimeout, ClientError)


def test_each_receive_of_startup_waits_ten_minutes_by_default():
    config = ClientConfig(profile_for("0.33.0"), owner(1, 1))
    assert config.ready_timeout_s == 600.0
    assert (config.client_index, config.utility_timeout_s) == (0, None)


def test_timeout_of_a_utility_call_says_so_when_no_engine_had_settled():
    assert str(errors.UtilityCallTimeout("m", 2.0, [], [0, 3])) == (
        "utility call `m` timed out after 2s (no engine settled; engine 0: silent; engine 3: silent)"
    )
