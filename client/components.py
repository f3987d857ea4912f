"""The classes that a client is built from. A mutant replaces one of them by a subclass."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from client.aggregation import Aggregation
from client.coordinator import CoordinatorState
from client.errors import ClientError
from client.guards import AdmissionGuard, UtilityGuard
from client.output_stream import OutputChannel, OutputStream
from client.protocol.messages import UtilityOutput
from client.requests import AbortGrouping, RequestRegistry
from client.routing import Routing
from client.utility import FanOut, UtilityRegistry

Waiter = asyncio.Future[UtilityOutput | ClientError]
"""What one engine's part of a utility call waits for. It carries errors as results, so that a
waiter that nobody awaits any more leaves no complaint of asyncio behind."""


@dataclass(frozen=True, slots=True)
class Components:
    """One class for each pure object, guard, stream and rule."""

    requests: type[RequestRegistry[OutputChannel]] = RequestRegistry
    abort_grouping: type[AbortGrouping] = AbortGrouping
    admission_guard: type[AdmissionGuard] = AdmissionGuard
    stream: type[OutputStream] = OutputStream
    utilities: type[UtilityRegistry[Waiter]] = UtilityRegistry
    utility_guard: type[UtilityGuard] = UtilityGuard
    fan_out: type[FanOut[Any]] = FanOut
    aggregation: type[Aggregation] = Aggregation
    routing: type[Routing] = Routing
    coordinator: type[CoordinatorState] = CoordinatorState
