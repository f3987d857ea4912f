"""The reference frontend in place of a binary: which release, which program, what it can do."""

from __future__ import annotations

import pytest

from client.protocol.profiles import NEWEST, RELEASES
from harness.targets.base import TargetError
from harness.targets.registry import open_target
from harness.targets.request import TargetRequest
from harness.targets.vllm_rs import reference
from harness.targets.vllm_rs.capabilities import capabilities
from harness.targets.vllm_rs.fetch import resolve
from harness.targets.vllm_rs.releases import UnknownFrontendError


@pytest.mark.parametrize(
    ("frontend", "profile", "release"),
    [
        ("reference", None, NEWEST),
        ("reference", "0.25.0", "0.25.0"),
        ("reference:0.28.0", None, "0.28.0"),
        ("reference:v0.28.0", "0.28.0", "0.28.0"),
    ],
)
def test_reference_imitates_the_release_that_is_named(frontend, profile, release):
    binary = resolve(frontend, profile)
    assert (binary.release, binary.reference) == (release, True)
    assert binary.path.name == "wavecheck-frontend"
    assert release in binary.note


@pytest.mark.parametrize(
    ("frontend", "profile", "message"),
    [
        ("reference:1.0", None, "unknown frontend release '1.0'"),
        ("reference:", None, "unknown frontend release ''"),
        ("reference:0.28.0", "0.25.0", "--profile 0.25.0 contradicts"),
    ],
)
def test_reference_of_no_release_is_refused(frontend, profile, message):
    with pytest.raises(UnknownFrontendError, match=message):
        resolve(frontend, profile)


def test_program_that_is_not_installed_is_an_error_of_the_target(monkeypatch):
    monkeypatch.setattr(reference, "PROGRAM", "wavecheck-frontend-of-nobody")
    with pytest.raises(TargetError, match="is missing; install this package"):
        resolve("reference")


@pytest.mark.parametrize("release", RELEASES)
def test_reference_can_do_nothing_that_the_release_cannot(release):
    can = reference.reference_capabilities(release)
    assert can < capabilities(release) | {"never equal"}
    assert "surface.grpc" in can
    assert ("op.abort" in can) == (release not in ("0.22.0", "0.22.1", "0.23.0"))


def test_target_of_a_reference_has_its_capabilities_and_says_what_it_is():
    target = open_target(TargetRequest("vllm-rs", "reference:0.28.0", mutant="rank-truncated"))
    assert target.info.capabilities == reference.reference_capabilities("0.28.0")
    assert target.info.notes == ("the frontend is our own server, imitating 0.28.0",)
    assert reference.reference_arguments("0.28.0", "rank-truncated") == (
        "--release", "0.28.0", "--mutant", "rank-truncated",
    )  # fmt: skip
    assert reference.reference_arguments("0.28.0", None) == ("--release", "0.28.0")
