"""The classes that a client is built from. A mutant replaces one of them by a subclass."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from client.abort_worker import AbortWorker
from client.aggregation import Aggregation
from client.aio import TaskSet
from client.coordinator import CoordinatorState, ExternalView
from client.errors import ClientError
from client.external_coordinator import ExternalCoordinatorState
from client.fan_out_call import FanOutCall
from client.guards import AdmissionGuard, UtilityGuard
from client.handshake import HandshakeState
from client.inner import ClientInner
from client.output_stream import OutputChannel, OutputStream
from client.protocol.codec import Codec
from client.protocol.messages import UtilityOutput
from client.rank_metadata import RankTexts
from client.requests import AbortGrouping, RequestRegistry
from client.routing import Routing
from client.scaling import Scaling
from client.streams import StreamState
from client.utility import FanOut, UtilityRegistry

Waiter = asyncio.Future[UtilityOutput | ClientError]
"""What one engine's part of a utility call waits for. It carries errors as results, so that a
waiter that nobody awaits any more leaves no complaint of asyncio behind."""


@dataclass(frozen=True, slots=True)
class Components:
    """One class for each pure object, guard, stream, shell and rule.

    Attributes:
        inner: hands out outputs, and fails closed.
        tasks: owns the client's tasks; utility calls have their own.
        external_view, external_coordinator: what a client knows of the external coordinator, and
            what that one, a process of its own, decides.
        rank_texts: reads the rank in an HTTP header or in gRPC metadata, at the server's edge.
    """

    requests: type[RequestRegistry[OutputChannel]] = RequestRegistry
    abort_grouping: type[AbortGrouping] = AbortGrouping
    abort_worker: type[AbortWorker] = AbortWorker
    admission_guard: type[AdmissionGuard] = AdmissionGuard
    stream: type[OutputStream] = OutputStream
    channel: type[OutputChannel] = OutputChannel
    stream_state: type[StreamState] = StreamState
    utilities: type[UtilityRegistry[Waiter]] = UtilityRegistry
    utility_guard: type[UtilityGuard] = UtilityGuard
    fan_out: type[FanOut[Any]] = FanOut
    fan_out_call: type[FanOutCall[Any]] = FanOutCall
    aggregation: type[Aggregation] = Aggregation
    routing: type[Routing] = Routing
    rank_texts: type[RankTexts] = RankTexts
    coordinator: type[CoordinatorState] = CoordinatorState
    external_view: type[ExternalView] = ExternalView
    external_coordinator: type[ExternalCoordinatorState] = ExternalCoordinatorState
    handshake: type[HandshakeState] = HandshakeState
    scaling: type[Scaling] = Scaling
    codec: type[Codec] = Codec
    inner: type[ClientInner] = ClientInner
    tasks: type[TaskSet] = TaskSet
