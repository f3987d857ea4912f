"""A request as the mock engine that has it sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class MockRequest:
    """A request that the engine has accepted.

    Attributes:
        sent: tokens that left for it so far.
        started: the scheduler took it up, so a pause for new requests does not hold it back.
        abort_immediately: it is to end before it begins (vLLM: only for clean-up hooks).
        wave: the wave that the frontend stamped on it.
    """

    request_id: str
    external_id: str | None
    client_index: int
    max_tokens: int
    sent: int = 0
    started: bool = False
    abort_immediately: bool = False
    wave: int = 0

    @property
    def token_id(self) -> str:
        """The id that its token values are made of."""
        return self.external_id if self.external_id is not None else self.request_id
