"""What a caller reads the outputs of one request from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self, assert_never

from client.aio import resolve
from client.errors import ClientError
from client.protocol.ids import RequestId
from client.protocol.messages import EngineCoreOutput
from client.streams import End, Pending, StreamState


class OutputChannel:
    """Between the dispatcher and a stream: a ``StreamState`` and its one waiting reader.

    The registry holds the channel, never the stream, so that a stream which nobody reads any
    more goes away and says so.
    """

    def __init__(self, request_id: RequestId, state: type[StreamState] = StreamState) -> None:
        self.state = state(request_id)
        self._reader: asyncio.Future[None] | None = None

    def push(self, output: EngineCoreOutput) -> None:
        """Hand over an output."""
        self.state.push(output)
        self._wake()

    def fail(self, error: ClientError) -> None:
        """End with an error, behind the outputs that came before."""
        self.state.fail(error)
        self._wake()

    def close(self) -> None:
        """End without a final output."""
        self.state.close()
        self._wake()

    def wake(self) -> None:
        """Let the reader look again."""
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None:
            resolve(self._reader)

    async def arrival(self) -> None:
        """Wait until something may have arrived."""
        if self._reader is not None:
            msg = f"the stream of {self.state.request_id} is being read by another task"
            raise RuntimeError(msg)
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None


class OutputStream:
    """Outputs of one request, in order; ends after the final one.

    Leaving it early, by ``close``, ``async with``, cancellation of a pending read, or by losing
    the last reference, aborts the request at its engine, once. So a reader that is cancelled
    has closed the stream; it cannot be read on.

    Source: Rust ``client/stream.rs``; PR #52671 (built before the send, so that a cancelled
    ``call`` cleans up too).
    """

    def __init__(
        self,
        request_id: RequestId,
        rank: int,
        channel: OutputChannel,
        ask_for_abort: Callable[[], None],
    ) -> None:
        self.request_id = request_id
        self.rank = rank
        self._channel = channel
        self._ask_for_abort = ask_for_abort
        self._admitted = False

    def admit(self) -> None:
        """``call`` returns the stream; from now on it answers for its request."""
        self._admitted = True

    def __aiter__(self) -> OutputStream:
        return self

    async def __anext__(self) -> EngineCoreOutput:
        """Return the next output.

        Raises:
            StopAsyncIteration: the stream has ended.
            RequestStreamClosed: the engine ended the request without a final output.
            ClientError: the client failed or was closed; raised once.
        """
        while True:
            match item := self._channel.state.take():
                case EngineCoreOutput() as output:
                    return output
                case ClientError() as error:
                    try:
                        raise error
                    finally:
                        del error  # it has this frame in its traceback
                case End():
                    raise StopAsyncIteration
                case Pending():
                    try:
                        await self._channel.arrival()
                    except asyncio.CancelledError:
                        self.close()
                        raise
                case _:
                    assert_never(item)

    def close(self) -> None:
        """Leave. Aborts the request unless its end was read. Idempotent."""
        if self._channel.state.drop():
            self._channel.wake()
            self.on_drop()

    def on_drop(self) -> None:
        """The stream was left while its request may be running."""
        self._ask_for_abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._admitted:
            self.close()
