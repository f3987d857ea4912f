"""The in-flight registry: who has which request, and what is still to be told to engines.

Theory of operation. A request id is free, in flight, or *departing*. It is in flight from
registration until its release, whatever the cause. A released request whose ABORT has not been
handed to the transport yet is departing: its id stays taken, because an ABORT that leaves after
a second ADD of the same id would hit the wrong request. Registrations carry a serial number, so
that a late drop of an old stream can never release a newer request of the same name.

Sources: Rust ``engine-core-client/src/client/state.rs``; PR #52671; protocol page, sections 6.1
and 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from client.errors import ClientError, DuplicateRequestId
from client.protocol.ids import Identity, RequestId

Sink = TypeVar("Sink")


@dataclass(slots=True, eq=False)
class Registration(Generic[Sink]):
    """One admission of one request.

    Attributes:
        serial: number of this admission, from 1.
        sink: where its outputs go.
        sent: the send of its ADD has ended.
        abort_due: it was aborted while its ADD was on the way; ABORT must follow the ADD.
    """

    serial: int
    request_id: RequestId
    engine: Identity
    sink: Sink
    sent: bool = False
    abort_due: bool = False


class RequestRegistry(Generic[Sink]):
    """Request id → registration, with the number of requests in flight for each engine."""

    def __init__(self, engines: Iterable[Identity]) -> None:
        self._engines = tuple(engines)
        self._in_flight: dict[RequestId, Registration[Sink]] = {}
        self._departing: dict[RequestId, Registration[Sink]] = {}
        self._counts: dict[Identity, int] = dict.fromkeys(self._engines, 0)
        self._serial = 0
        self._closed_by: ClientError | None = None

    @property
    def closed_by(self) -> ClientError | None:
        """The sticky error that closed it."""
        return self._closed_by

    def check_free(self, request_id: RequestId) -> None:
        """Check that an id can be registered.

        Raises:
            DuplicateRequestId: it is in flight or departing.
            ClientError: the sticky error, once closed.
        """
        if self._closed_by is not None:
            raise self._closed_by.again()
        if request_id in self._in_flight or request_id in self._departing:
            raise DuplicateRequestId(request_id)

    def register(self, request_id: RequestId, engine: Identity, sink: Sink) -> Registration[Sink]:
        """Admit a request to an engine. Raises like ``check_free``."""
        self.check_free(request_id)
        self._serial += 1
        registration = Registration(self._serial, request_id, engine, sink)
        self._in_flight[request_id] = registration
        self._counts[engine] += 1
        return registration

    def admit(self, engines: Iterable[Identity]) -> None:
        """Take requests for these engines from now on; what others have stays counted."""
        self._engines = tuple(dict.fromkeys((*self._engines, *engines)))
        for engine in self._engines:
            self._counts.setdefault(engine, 0)

    def at(self, engines: Iterable[Identity]) -> list[Registration[Sink]]:
        """What is in flight at these engines, oldest first."""
        wanted = set(engines)
        return [each for each in self._in_flight.values() if each.engine in wanted]

    def get(self, request_id: str) -> Registration[Sink] | None:
        """The request in flight under this id."""
        return self._in_flight.get(RequestId(request_id))

    def holds(self, registration: Registration[Sink]) -> bool:
        """Whether exactly this admission is in flight."""
        return self._in_flight.get(registration.request_id) is registration

    def release(self, registration: Registration[Sink], *, departing: bool = False) -> bool:
        """Take a request out; ``False`` if this admission is not in flight any more.

        ``departing`` keeps the id taken until ``departed``.
        """
        if not self.holds(registration):
            return False
        del self._in_flight[registration.request_id]
        self._counts[registration.engine] -= 1
        if departing:
            self._departing[registration.request_id] = registration
        return True

    def departed(self, registration: Registration[Sink]) -> None:
        """Free the id: its ABORT has been handed over, or never will be."""
        if self._departing.get(registration.request_id) is registration:
            del self._departing[registration.request_id]

    def count(self, engine: Identity) -> int:
        """Requests in flight at an engine."""
        return self._counts[engine]

    def in_flight(self) -> tuple[RequestId, ...]:
        """Ids in flight, by engine order, then by id."""
        place = {engine: index for index, engine in enumerate(self._engines)}
        entries = self._in_flight.values()
        return tuple(
            each.request_id
            for each in sorted(entries, key=lambda e: (place[e.engine], e.request_id))
        )

    def departing(self) -> tuple[RequestId, ...]:
        """Ids that are taken although their requests are over, sorted."""
        return tuple(sorted(self._departing))

    def close(self, error: ClientError) -> list[Registration[Sink]]:
        """Refuse everything from now on; return what was in flight, oldest first."""
        if self._closed_by is None:
            self._closed_by = error
        drained = list(self._in_flight.values())
        self._in_flight.clear()
        self._departing.clear()
        self._counts = dict.fromkeys(self._engines, 0)
        return drained


AbortGroup = tuple[Identity, tuple[RequestId, ...]]
"""One ABORT frame: the engine that gets it and the ids that it names."""


class AbortGrouping:
    """Turns aborted requests into frames: each id goes to its owner and to nobody else."""

    def __init__(self, engines: Sequence[Identity]) -> None:
        self._engines = tuple(engines)

    def group(
        self, aborted: Sequence[tuple[RequestId, Identity]], *, one_frame_per_engine: bool
    ) -> list[AbortGroup]:
        """Return the frames in order of identity bytes, ids in the order given.

        Source: Rust abort worker: one frame per id up to 0.23, grouped since 0.24.
        """
        if not one_frame_per_engine:
            return [(engine, (request_id,)) for request_id, engine in aborted]
        grouped: dict[Identity, list[RequestId]] = {}
        for request_id, engine in aborted:
            grouped.setdefault(engine, []).append(request_id)
        return [(engine, tuple(grouped[engine])) for engine in sorted(grouped)]
