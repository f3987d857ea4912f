"""Compares what the frontend says it serves with the requests that we know to be open.

``/load`` counts a request of the generating routes from the end of its head, so a half-sent one
counts too, until the last byte of its answer has been handed to the connection, or the caller has
left. It does not count other routes, nor gRPC.

Source: measured on 0.22.0 … 0.33.0; vLLM ``rust/src/server/src/middleware/load.rs``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.targets.vllm_rs.http_surfaces import HTTP_SURFACES

COUNTED = frozenset(surface.path for surface in HTTP_SURFACES.values() if surface.since)
"""Paths that ``/load`` counts, as far as a release has them."""


@dataclass(slots=True)
class OpenRequests:
    """Our side of the balance.

    Attributes:
        open: requests to counted routes whose callers neither have a whole answer nor left.
        unread: those of them whose caller does not read; the frontend may be done with them.
    """

    open: int = 0
    unread: int = 0

    @contextmanager
    def request(self, path: str) -> Iterator[None]:
        """Count a request while the body runs. ``path`` may have a query."""
        counted = path.partition("?")[0] in COUNTED
        self.open += counted
        try:
            yield
        finally:
            self.open -= counted

    @contextmanager
    def not_reading(self) -> Iterator[None]:
        """Count a caller as one who does not read while the body runs."""
        self.unread += 1
        try:
            yield
        finally:
            self.unread -= 1

    def agrees(self, load: int | None) -> bool:
        """Whether the frontend's count may be that of these requests at rest."""
        return load is not None and self.open - self.unread <= load <= self.open

    def __str__(self) -> str:
        return f"{self.open} open, {self.unread} of them unread"
