"""The reference frontend in place of a binary: how it is found, started, and what it can do.

It is a console script of this package with the command line of the binary, so everything else
of the target stays as it is.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path

from client.protocol.profiles import NEWEST
from harness.targets.base import TargetError
from harness.targets.request import REFERENCE
from harness.targets.vllm_rs.capabilities import capabilities
from harness.targets.vllm_rs.releases import UnknownFrontendError, known_release

PROGRAM = "wavecheck-frontend"
_CARRIED = frozenset(
    {
        *("op.generate", "op.cancel", "op.drop", "op.abort", "op.rank", "op.rank-text"),
        *("op.kv-transfer", "op.utility", "op.server-info", "op.shutdown", "op.connect-error"),
        *("surface.http", "surface.http-stream", "surface.grpc", "surface.grpc-stream"),
        *("see.wire", "see.results", "see.health", "see.health-error", "see.failure", "see.log"),
        *("see.process", "coordinator.none", "coordinator.in-process"),
        *("transport.handshake-owner", "topology.any-ranks", "fault.engine-vanish"),
        *("fault.engine-stall", "fault.engine-rejoin", "fault.signal"),
    }
)
"""What it carries out. Named one by one: what the real frontend learns to do, this one does not."""


def reference_release(frontend: str, profile: str | None) -> str:
    """Return the release that ``reference`` or ``reference:<release>`` imitates.

    Args:
        frontend: as given on the command line.
        profile: release of ``--profile``; decides where the frontend names none.

    Raises:
        UnknownFrontendError: no such release, or the two contradict each other.
    """
    _, colon, named = frontend.partition(":")
    if not colon:
        return NEWEST if profile is None else known_release(profile)
    release = known_release(named)
    if profile not in (None, release):
        msg = f"--profile {profile} contradicts the frontend {REFERENCE}:{release}"
        raise UnknownFrontendError(msg)
    return release


def reference_program() -> Path:
    """Return the console script.

    Raises:
        TargetError: it is not installed, as in a checkout that was never installed.
    """
    path = Path(sysconfig.get_path("scripts"), PROGRAM)
    if not path.is_file():
        msg = f"{path} is missing; install this package into the running Python again"
        raise TargetError(msg)
    try:
        import aiohttp  # noqa: F401
    except ImportError as error:
        msg = "the reference frontend needs aiohttp: pip install wavecheck[frontend]"
        raise TargetError(msg) from error
    return path


def reference_arguments(release: str, mutant: str | None) -> Sequence[str]:
    """Return what it is told beside the binary's own options."""
    return ("--release", release, *(() if mutant is None else ("--mutant", mutant)))


def reference_capabilities(release: str) -> frozenset[str]:
    """Return what it can do and show, imitating a release."""
    return capabilities(release) & _CARRIED
