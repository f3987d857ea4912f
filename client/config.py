"""What a client needs to know before it opens a socket, and the rules that this must keep.

Source: Rust ``engine-core-client/src/config.rs`` (validation since 0.28, PR #51178); protocol
page, section 7.4.
"""

from __future__ import annotations

from dataclasses import dataclass

from client.errors import (
    ClientError,
    InvalidClientConfig,
    UnexpectedHandshakeMessage,
    UnsupportedExternalCoordinator,
)
from client.protocol.ids import RANKS_MAX
from client.protocol.profiles import Profile

READY_TIMEOUT_S = 600.0
"""Default timeout of one startup receive (vLLM ``VLLM_ENGINE_READY_TIMEOUT_S``)."""
INDEX_MAX = (1 << 64) - 1
"""Engine indices are added as 64-bit numbers; beyond this the sum overflows."""


@dataclass(frozen=True, slots=True)
class InProcessCoordinator:
    """Addresses that the in-process coordinator binds: XPUB and PULL."""

    input_address: str
    output_address: str


@dataclass(frozen=True, slots=True)
class ExternalCoordinatorAddress:
    """An external coordinator's front address. A handshake owner refuses it."""

    address: str


@dataclass(frozen=True, slots=True)
class HandshakeOwner:
    """The client runs the startup handshake for all engines of the deployment."""

    handshake_address: str
    input_address: str
    output_address: str
    engine_count: int
    data_parallel_size: int
    coordinator: InProcessCoordinator | ExternalCoordinatorAddress | None = None


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The engines were started by somebody else; identities follow from start and count.

    ``coordinator_address`` is overridden by the first non-nil ``dp_stats_address`` that an
    engine reports, which also works alone.
    """

    input_address: str
    output_address: str
    engine_start_index: int
    engine_count: int
    data_parallel_size: int
    coordinator_address: str | None = None


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Settings of one client.

    Attributes:
        client_index: stamped on every ADD and utility call.
        ready_timeout_s: timeout of each single receive of startup, in seconds.
        utility_timeout_s: overall timeout of each utility call; ``None`` (as in every release)
            waits for as long as an engine is silent.
    """

    profile: Profile
    mode: HandshakeOwner | Bootstrapped
    client_index: int = 0
    ready_timeout_s: float = READY_TIMEOUT_S
    utility_timeout_s: float | None = None


def validate(config: ClientConfig) -> None:
    """Check the topology before any socket work.

    Releases up to 0.27 check nothing but the engine count; what would make an identity wrap is
    refused in every profile, because an identity is never truncated here.

    Raises:
        InvalidClientConfig: a rule of section 7.4 is broken (≥ 0.28).
        UnexpectedHandshakeMessage: the same for the two rules that ≤ 0.27 has.
        UnsupportedExternalCoordinator: a handshake owner was given an external coordinator.
    """
    mode, profile = config.mode, config.profile
    if isinstance(mode, HandshakeOwner) and isinstance(
        mode.coordinator, ExternalCoordinatorAddress
    ):
        raise UnsupportedExternalCoordinator
    reason = broken_rule(mode) if profile.config_validated else _broken_identity_rule(mode)
    if reason is not None:
        raise _error(reason, profile)


def _error(reason: str, profile: Profile) -> ClientError:
    if profile.config_validated:
        return InvalidClientConfig(reason, wrapped=profile.config_error_wrapped)
    return UnexpectedHandshakeMessage(reason)


def broken_rule(mode: HandshakeOwner | Bootstrapped) -> str | None:
    """Return the text of the first rule that is broken, ``None`` if all hold."""
    size, count = mode.data_parallel_size, mode.engine_count
    if size < 1:
        return "data parallel size must be at least 1"
    if size > RANKS_MAX:
        return f"data parallel size ({size}) exceeds the two-byte engine identity limit"
    if count < 1:
        return "engine count must be at least 1"
    if isinstance(mode, HandshakeOwner):
        if count != size:
            return (
                f"engine count ({count}) must equal data parallel size ({size}) when the client "
                "owns the handshake; to connect to a part of a deployment, bootstrapped mode "
                "is the way"
            )
        return None
    start = mode.engine_start_index
    if start < 0:
        return f"engine start index ({start}) must be at least 0"
    if start + count > INDEX_MAX:
        return "engine start index + engine count overflows"
    if start + count > size:
        return (
            f"connected engine range [{start}, {start + count}) exceeds data parallel size ({size})"
        )
    return None


def _broken_identity_rule(mode: HandshakeOwner | Bootstrapped) -> str | None:
    if mode.engine_count < 1:
        return "expected engine_count >= 1"
    if isinstance(mode, HandshakeOwner):
        return None
    start = mode.engine_start_index
    if not 0 <= start < RANKS_MAX:
        return "engine_start_index exceeds the two-byte engine identity limit"
    if start + mode.engine_count > RANKS_MAX:
        return "engine_start_index + engine_count exceeds the two-byte engine identity limit"
    return None
