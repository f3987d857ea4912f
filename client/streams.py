"""The outputs of one request, decided: what its reader gets next, and whether a drop aborts.

States and moves::

    RUNNING ──final output read──► FINISHED
       ├──────error read──────────► CLOSED_WITH_ERROR
       ├──end without final read──► UNEXPECTED_CLOSE   (read as RequestStreamClosed, once)
       └──dropped─────────────────► DROPPED            (the only move that asks for an ABORT)

Moves happen when the reader *takes* an item, not when it arrives: a stream whose final output
waits unread is still running, and dropping it asks for an abort that then finds nothing to do.

Source: Rust ``engine-core-client/src/client/stream.rs``; protocol page, section 8.1.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import assert_never

import msgspec

from client.errors import ClientError, RequestStreamClosed
from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreOutput


class StreamPhase(enum.Enum):
    """State of a stream, as its reader has seen it."""

    RUNNING = "running"
    FINISHED = "finished"
    CLOSED_WITH_ERROR = "closed with error"
    UNEXPECTED_CLOSE = "closed unexpectedly"
    DROPPED = "dropped"


class End(msgspec.Struct, frozen=True):
    """There is no further item."""


class Pending(msgspec.Struct, frozen=True):
    """Nothing yet; ask again after the next arrival."""


@dataclass(frozen=True, slots=True)
class _Closed:
    """The sending side is gone without a final output."""


Item = EngineCoreOutput | ClientError | End | Pending


class StreamState:
    """Queue between the dispatcher and one reader. Unbounded: the dispatcher never waits."""

    def __init__(self, request_id: RequestId) -> None:
        self.request_id = request_id
        self.phase = StreamPhase.RUNNING
        self._queue: deque[EngineCoreOutput | ClientError | _Closed] = deque()
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether nothing more can arrive: a final output, an error or the close is queued."""
        return self._complete

    def push(self, output: EngineCoreOutput) -> None:
        """Queue an output; outputs behind the final one are dropped."""
        if not self._complete:
            self._queue.append(output)
            self._complete = output.finish_reason is not None

    def fail(self, error: ClientError) -> None:
        """Queue an error behind the outputs that came before it."""
        if not self._complete:
            self._queue.append(error)
            self._complete = True

    def close(self) -> None:
        """The request is over without a final output."""
        if not self._complete:
            self._queue.append(_Closed())
            self._complete = True

    def take(self) -> Item:
        """Return the reader's next item and move on. An error is returned once, then the end."""
        if self.phase is not StreamPhase.RUNNING:
            return End()
        if not self._queue:
            return Pending()
        match item := self._queue.popleft():
            case EngineCoreOutput() as output:
                if output.finish_reason is not None:
                    self.phase = StreamPhase.FINISHED
                return output
            case ClientError() as error:
                self.phase = StreamPhase.CLOSED_WITH_ERROR
                return error
            case _Closed():
                self.phase = StreamPhase.UNEXPECTED_CLOSE
                return RequestStreamClosed(self.request_id)
            case _:
                assert_never(item)

    def drop(self) -> bool:
        """The reader leaves. Whether its request must be aborted; ``False`` from then on."""
        if self.phase is not StreamPhase.RUNNING:
            return False
        self.phase = StreamPhase.DROPPED
        self._queue.clear()
        return True
