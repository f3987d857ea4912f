"""Startup, decided: HELLO → INIT → READY, the subscription gate, registrations.

Theory of operation. Startup is a walk through stages, and each stage reads one socket only::

    HELLO ──all said hello──► SUBSCRIPTIONS ──enough messages──► READY ──all──► REGISTRATION ──► DONE
      └───────── no coordinator ───────────────────────────────────┘
    (bootstrapped mode begins at REGISTRATION)

What arrives on another socket waits there until its stage. The gate counts *messages*, not
engines: one engine that subscribes twice opens it for two. Without a coordinator a READY may
overlap with the HELLOs of slower engines; with one, no engine can be ready before the gate.

Sources: Rust ``engine-core-client/src/transport.rs``; Python ``v1/engine/utils.py``; protocol
page, section 3.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import assert_never

import msgspec

from client.errors import (
    ClientError,
    HandshakeTimeout,
    InputRegistrationTimeout,
    UnexpectedHandshakeMessage,
    from_codec,
)
from client.protocol.codec import Codec
from client.protocol.codec_errors import DecodeError, HandshakeStatusError
from client.protocol.ids import Identity, rank_from_identity
from client.protocol.messages import (
    SUBSCRIBE_ALL,
    UNSUBSCRIBE_ALL,
    ConnectedEngine,
    Hello,
    Ready,
    ReadyResponse,
)
from client.protocol.profiles import Profile
from client.protocol.shown import shown_frames


class Stage(enum.Enum):
    """Where startup is; the value is how a timeout names it."""

    HELLO = "HELLO"
    SUBSCRIPTIONS = "coordinator engine subscriptions"
    READY = "READY"
    REGISTRATION = "input registration"
    DONE = "done"


class SendInit(msgspec.Struct, frozen=True):
    """Answer this engine's HELLO with INIT."""

    identity: Identity


class OpenGate(msgspec.Struct, frozen=True):
    """Publish ``READY`` on the coordinator socket, once."""


Effect = SendInit | OpenGate


class HandshakeState:
    """Decides on every startup message. A refused message changes nothing."""

    def __init__(
        self,
        codec: Codec,
        profile: Profile,
        *,
        engine_count: int = 0,
        expected: Sequence[Identity] | None = None,
        coordinator: bool = False,
    ) -> None:
        """Begin.

        Args:
            codec: decodes bodies.
            profile: how strict the release is.
            engine_count: how many engines say HELLO (handshake owner).
            expected: bootstrapped mode: the identities that register, in index order.
            coordinator: there is an in-process coordinator, hence a gate.
        """
        self._codec = codec
        self._profile = profile
        self._coordinator = coordinator
        self._order = None if expected is None else tuple(expected)
        self._engine_count = engine_count if expected is None else len(expected)
        self._known: set[Identity] = set(expected or ())
        self._ready: set[Identity] = set()
        self._subscriptions = 0
        self._registered: dict[Identity, ReadyResponse] = {}
        self.stage = Stage.HELLO if expected is None else Stage.REGISTRATION

    def timeout_error(self, timeout_s: float) -> ClientError:
        """The error of a receive at this stage that took too long."""
        if self.stage is Stage.REGISTRATION:
            return InputRegistrationTimeout(timeout_s)
        return HandshakeTimeout(self.stage.value, timeout_s)

    # --- handshake socket ---

    def on_handshake(self, frames: Sequence[bytes]) -> list[Effect]:
        """Take a message of the handshake ROUTER: identity, body.

        Raises:
            UnexpectedHandshakeMessage: wrong shape, status, engine or moment.
            Decode: the body is not a handshake map.
        """
        if len(frames) != 2:
            msg = f"expected 2 handshake frames, got {len(frames)}"
            raise UnexpectedHandshakeMessage(msg)
        identity = Identity(frames[0])
        try:
            message = self._codec.decode_hello_or_ready(frames[1])
        except HandshakeStatusError as error:
            msg = f"unexpected handshake status from engine {identity.hex()}: {error.reason}"
            raise UnexpectedHandshakeMessage(msg) from error
        except DecodeError as error:
            raise from_codec(error) from error
        match message:
            case Hello():
                return self._on_hello(identity)
            case Ready():
                return self._on_ready(identity)
            case _:
                assert_never(message)

    def _on_hello(self, identity: Identity) -> list[Effect]:
        shown = identity.hex()
        if self.stage is not Stage.HELLO:
            msg = f"duplicate HELLO from engine {shown} after INIT phase"
            raise UnexpectedHandshakeMessage(msg)
        if identity in self._known:
            msg = f"duplicate engine id {shown} in HELLO"
            raise UnexpectedHandshakeMessage(msg)
        if self._profile.two_byte_identity_required and rank_from_identity(identity) is None:
            msg = f"expected a two-byte engine id, got 0x{shown}"
            raise UnexpectedHandshakeMessage(msg)
        self._known.add(identity)
        if len(self._known) == self._engine_count:
            self.stage = Stage.SUBSCRIPTIONS if self._coordinator else Stage.READY
            self._leave_ready_if_complete()
        return [SendInit(identity)]

    def _on_ready(self, identity: Identity) -> list[Effect]:
        shown = identity.hex()
        if self._coordinator and self.stage is Stage.HELLO:
            msg = f"READY from engine {shown} before coordinator startup gate"
            raise UnexpectedHandshakeMessage(msg)
        if identity not in self._known or identity in self._ready:
            msg = f"unexpected or duplicate engine id {shown} in READY"
            raise UnexpectedHandshakeMessage(msg)
        self._ready.add(identity)
        self._leave_ready_if_complete()
        return []

    def _leave_ready_if_complete(self) -> None:
        if self.stage is Stage.READY and len(self._ready) == self._engine_count:
            self.stage = Stage.REGISTRATION

    # --- coordinator socket ---

    def on_subscription(self, frames: Sequence[bytes]) -> list[Effect]:
        """Take a message of the coordinator XPUB while the gate is shut.

        Raises:
            UnexpectedHandshakeMessage: anything but one frame that (un)subscribes.
        """
        if list(frames) == [UNSUBSCRIBE_ALL]:
            return []  # only lost time: the gate goes on waiting for subscriptions
        if list(frames) != [SUBSCRIBE_ALL]:
            msg = f"expected coordinator subscription, got frames {shown_frames(frames)}"
            raise UnexpectedHandshakeMessage(msg)
        self._subscriptions += 1
        if self._subscriptions < self._engine_count:
            return []
        self.stage = Stage.READY
        return [OpenGate()]

    # --- input socket ---

    def on_registration(self, frames: Sequence[bytes]) -> list[Effect]:
        """Take a message of the input ROUTER: identity, ready response.

        Raises:
            UnexpectedHandshakeMessage: wrong shape or engine, empty body (≥ 0.23), or LoRA
                values that contradict each other (≥ 0.29).
            Decode: the body is no ready response of this release.
        """
        if len(frames) != 2:
            msg = f"expected 2 input registration frames, got {len(frames)}"
            raise UnexpectedHandshakeMessage(msg)
        identity = Identity(frames[0])
        if identity not in self._known or identity in self._registered:
            msg = f"unexpected engine id {identity.hex()} in input registration"
            raise UnexpectedHandshakeMessage(msg)
        ready = self._ready_response(identity, frames[1])
        self._check_lora(ready)
        self._registered[identity] = ready
        if len(self._registered) == self._engine_count:
            self.stage = Stage.DONE
        return []

    def _ready_response(self, identity: Identity, body: bytes) -> ReadyResponse:
        if not body:
            if self._profile.empty_registration_accepted:
                return ReadyResponse()
            msg = f"expected a ready response from engine {identity.hex()}, got empty payload"
            raise UnexpectedHandshakeMessage(msg)
        try:
            return self._codec.decode_ready_response(body)
        except DecodeError as error:
            raise from_codec(error) from error

    def _check_lora(self, ready: ReadyResponse) -> None:
        if not self._profile.checks_lora_consistency:
            return
        supports, most = ready.get("supports_lora"), ready.get("max_loras")
        if bool(supports) != (isinstance(most, int) and most > 0):
            msg = f"supports_lora is {supports} but max_loras is {most}"
            raise UnexpectedHandshakeMessage(msg)
        for other in self._registered.values():
            theirs = (other.get("supports_lora"), other.get("max_loras"))
            if theirs != (supports, most):
                msg = f"engines differ in LoRA support: {theirs} and {(supports, most)}"
                raise UnexpectedHandshakeMessage(msg)

    def engines(self) -> tuple[ConnectedEngine, ...]:
        """All engines, in engine order: by identity bytes, or by index when bootstrapped."""
        order = self._order if self._order is not None else sorted(self._registered)
        return tuple(ConnectedEngine(each, self._registered[each]) for each in order)
