"""The closed tree of errors that callers of the client see.

::

    ClientError
    ├── StartupError
    │   ├── HandshakeTimeout, InputRegistrationTimeout, UnexpectedHandshakeMessage
    │   └── InvalidClientConfig, UnsupportedExternalCoordinator
    ├── FatalError                      closes the client; the first one is the health error
    │   ├── Decode ── ExtValueDecode
    │   ├── Transport, EngineCoreDead, DispatcherClosed, ClientClosed
    │   └── UnexpectedCoordinatorOutput, UnexpectedDispatcherOutput,
    │       UnsupportedCoordinatorEngineId
    ├── RequestError
    │   ├── Encode, UnsupportedField, ControlClosed
    │   └── DuplicateRequestId, InvalidDataParallelRank, InvalidRankMetadata, RequestStreamClosed,
    │       ScaleRefused
    └── UtilityError
        ├── UtilityCallFailed, UtilityResultDecode, UtilityCallClosed
        └── UtilityCallTimeout, InconsistentUtilityResults, ProfileAlreadyActive

Class names are those of the Rust variants, so that one expectation matches both. ``Decode`` and
``Transport`` are fatal on a receive path and are an ordinary outcome elsewhere (startup, a send).

Source: Rust ``engine-core-client/src/error.rs``; protocol page, section 17.
"""

# ruff: noqa: N818  (names are those of the Rust variants)
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from client.protocol.codec_errors import (
    CodecError,
    DecodeError,
    EncodeError,
    ExtValueDecodeError,
)


class ClientError(Exception):
    """Base of everything that the client raises on purpose.

    Attributes:
        since: first release whose client has this error; ``""`` = no release has it, it is ours.
    """

    since: ClassVar[str] = "0.22.0"

    def again(self) -> Self:
        """Return an equal error without traceback and context.

        A sticky error is raised many times. Raising one object would collect frames in its
        traceback, and frames keep clients alive.
        """
        copy = type(self).__new__(type(self), *self.args)
        copy.__dict__.update(self.__dict__)
        return copy


# --- startup --------------------------------------------------------------------------------


class StartupError(ClientError):
    """The client could not be connected."""


class HandshakeTimeout(StartupError):
    """Nothing arrived at a handshake stage in time.

    Attributes:
        stage: ``HELLO``, ``coordinator engine subscriptions`` or ``READY``.
        timeout_s: the timeout of one receive, in seconds.
    """

    def __init__(self, stage: str, timeout_s: float) -> None:
        self.stage = stage
        self.timeout_s = timeout_s
        super().__init__(f"timed out while waiting for {stage} after {timeout_s:g}s")


class InputRegistrationTimeout(StartupError):
    """An engine did not register on the input socket in time."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        super().__init__(f"input registration timed out after {timeout_s:g}s")


class UnexpectedHandshakeMessage(StartupError):
    """A startup message that the protocol does not allow at this point."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"unexpected startup handshake message: {reason}")


class InvalidClientConfig(StartupError):
    """A topology rule of section 7.4 is broken; nothing was opened.

    0.28 reports the bare reason, later releases wrap it (``wrapped``).
    """

    since: ClassVar[str] = "0.28.0"

    def __init__(self, reason: str, *, wrapped: bool = True) -> None:
        self.reason = reason
        prefix = "invalid engine-core client configuration: " if wrapped else ""
        super().__init__(prefix + reason)


class UnsupportedExternalCoordinator(StartupError):
    """An external coordinator was configured for a client that owns the handshake."""

    def __init__(self) -> None:
        super().__init__(
            "external coordinator mode is not supported when the client owns the handshake; "
            "use bootstrapped mode"
        )


# --- fatal ----------------------------------------------------------------------------------


class FatalError(ClientError):
    """Closes the client when it happens on a receive path (fail closed)."""


class Decode(FatalError):
    """A body is not msgpack or has an invalid shape or type.

    Attributes:
        message_type: the message at fault.
        field: the struct or field at fault.
    """

    def __init__(self, message_type: str, field: str, text: str) -> None:
        self.message_type = message_type
        self.field = field
        super().__init__(text)


class ExtValueDecode(Decode):
    """A tensor's reference or length is invalid."""


class Transport(FatalError):
    """A socket operation failed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"transport error: {reason}")


class EngineCoreDead(FatalError):
    """An engine sent its last word."""

    def __init__(self) -> None:
        super().__init__("engine core reported fatal failure")


class DispatcherClosed(FatalError):
    """The task that hands out outputs ended by a fault of ours."""

    def __init__(self, reason: str = "") -> None:
        super().__init__("output dispatcher closed" + (f": {reason}" if reason else ""))


class ClientClosed(FatalError):
    """The client was shut down."""

    def __init__(self) -> None:
        super().__init__("client is closed")


class UnexpectedCoordinatorOutput(FatalError):
    """Something other than a wave notice or stats came on the coordinator path."""

    def __init__(self, what: str) -> None:
        super().__init__(f"unexpected non-control output on coordinator path: {what}")


class UnexpectedDispatcherOutput(FatalError):
    """A wave notice, or nothing known, came on the main output path."""

    def __init__(self, what: str) -> None:
        super().__init__(f"unexpected output on main dispatcher path: {what}")


class UnsupportedCoordinatorEngineId(FatalError):
    """A wake-up would have to name an engine whose identity is no rank (≤ 0.24 admits those)."""

    def __init__(self, identity: bytes) -> None:
        super().__init__(f"coordinator needs a two-byte engine id, got 0x{identity.hex()}")


# --- requests -------------------------------------------------------------------------------


class RequestError(ClientError):
    """One request failed; the client goes on."""


class Encode(RequestError):
    """A payload cannot be put on the wire."""


class UnsupportedField(RequestError):
    """The request sets a field that this client does not carry."""

    def __init__(self, field: str, message_type: str) -> None:
        super().__init__(f"unsupported field `{field}` in {message_type}")


class ControlClosed(RequestError):
    """The coordinator's task is gone, so it cannot be told of a first request (≤ 0.32)."""

    def __init__(self) -> None:
        super().__init__("coordinator control channel closed")


class DuplicateRequestId(RequestError):
    """The id is in flight; nothing was sent."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        super().__init__(f"request id {request_id!r} is already in flight")


class InvalidDataParallelRank(RequestError):
    """No connected engine has the rank that was asked for; nothing was sent.

    Attributes:
        connected_ranks: all of them, in order of identity bytes.
    """

    def __init__(self, rank: int, connected_ranks: Iterable[int]) -> None:
        self.rank = rank
        self.connected_ranks = tuple(connected_ranks)
        listed = ", ".join(str(each) for each in self.connected_ranks)
        super().__init__(f"data parallel rank {rank} is not connected; connected ranks: [{listed}]")


class InvalidRankMetadata(RequestError):
    """The rank metadata of a gRPC call is no unsigned 32-bit integer (INVALID_ARGUMENT)."""

    since: ClassVar[str] = "0.28.0"

    def __init__(self, text: str) -> None:
        super().__init__(text)


class RequestStreamClosed(RequestError):
    """The engine says that the request is over, but never sent a final output."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        super().__init__(f"output stream for {request_id} closed unexpectedly")


class ScaleRefused(RequestError):
    """The number of engines cannot be changed like that; nothing was sent."""

    since: ClassVar[str] = ""

    def __init__(self, size: int, reason: str) -> None:
        super().__init__(f"cannot go to {size} engines: {reason}")


# --- utilities ------------------------------------------------------------------------------


class UtilityError(ClientError):
    """One utility call failed; the client goes on."""


class UtilityCallFailed(UtilityError):
    """An engine answered with a failure message."""

    def __init__(self, method: str, call_id: int, failure: str) -> None:
        self.method = method
        self.call_id = call_id
        self.failure = failure
        super().__init__(f"utility call `{method}` failed (call_id={call_id}): {failure}")


class UtilityResultDecode(UtilityError):
    """An engine answered with a value of another type than the method has."""

    def __init__(self, method: str, call_id: int, reason: str) -> None:
        self.method = method
        self.call_id = call_id
        super().__init__(
            f"utility call `{method}` returned an invalid result (call_id={call_id}): {reason}"
        )


class UtilityCallClosed(UtilityError):
    """The waiter lost the side that would have settled it."""

    def __init__(self, method: str, call_id: int) -> None:
        super().__init__(f"utility call `{method}` closed unexpectedly (call_id={call_id})")


class UtilityCallTimeout(UtilityError):
    """The overall timeout of a utility call passed. No release has one; it is off by default.

    Attributes:
        settled: ``(rank, how)`` of engines that had answered, in engine order.
        open_ranks: ranks that had not.
    """

    since: ClassVar[str] = ""

    def __init__(
        self,
        method: str,
        timeout_s: float,
        settled: Sequence[tuple[int, str]],
        open_ranks: Sequence[int],
    ) -> None:
        self.settled = tuple(settled)
        self.open_ranks = tuple(open_ranks)
        done = "; ".join(f"engine {rank}: {how}" for rank, how in settled) or "no engine settled"
        waiting = "; ".join(f"engine {rank}: silent" for rank in open_ranks)
        super().__init__(
            f"utility call `{method}` timed out after {timeout_s:g}s ({done}; {waiting})"
        )


class InconsistentUtilityResults(UtilityError):
    """Engines disagree where they must agree, or there is no result at all.

    Attributes:
        values: the values in engine order, as the text shows them.
    """

    since: ClassVar[str] = "0.23.0"

    def __init__(self, method: str, values: str) -> None:
        self.method = method
        self.values = values
        super().__init__(
            f"utility call `{method}` returned inconsistent results across engines: {values}"
        )


class ProfileAlreadyActive(UtilityError):
    """Profiling was started twice without a stop; nothing was sent."""

    since: ClassVar[str] = "0.32.0"

    def __init__(self) -> None:
        super().__init__("profiling is already active")


def error_tree(root: type[ClientError] = ClientError) -> list[type[ClientError]]:
    """All classes of the tree, parents before children, in order of definition."""
    found = [root]
    for child in root.__subclasses__():
        found.extend(error_tree(child))
    return found


def from_codec(error: CodecError) -> ClientError:
    """Turn what the codec refused into the client's error, text unchanged."""
    match error:
        case EncodeError():
            return Encode(str(error))
        case ExtValueDecodeError():
            return ExtValueDecode(error.message_type, error.field, str(error))
        case DecodeError():
            return Decode(error.message_type, error.field, str(error))
        case _:
            msg = f"unknown codec error {error!r}"
            raise TypeError(msg)
