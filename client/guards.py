"""Guards: what a call has registered leaves the registries however the call ends.

Source: PR #52671 (``UtilityCallGuard``; the stream is built before the send).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from client.errors import ClientError
from client.protocol.ids import CallId


class AdmissionGuard:
    """Owns the registration of one request until ``call`` returns its stream.

    Args:
        roll_back: removes the registration; the request certainly reached no engine.
        abort: removes it and sends ABORT behind the ADD; the request may have reached one.
    """

    def __init__(self, roll_back: Callable[[], None], abort: Callable[[], None]) -> None:
        self._roll_back = roll_back
        self._abort = abort
        self._sending = False

    def sending(self) -> None:
        """The send of ADD begins: if it is cut short, nobody knows whether it left."""
        self._sending = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.on_failure(kind)

    def on_failure(self, kind: type[BaseException]) -> None:
        """``call`` does not return a stream.

        A send that *fails* sent nothing, or its client has failed and tells engines nothing any
        more. Whatever else ends it (cancellation, a closed coroutine, a fault) leaves it open.
        """
        if self._sending and not issubclass(kind, ClientError):
            self._abort()
        else:
            self._roll_back()


class UtilityGuard:
    """Owns the call ids of one utility call; waiters that are left over are removed.

    Args:
        release: removes one waiter, if it is still there.
    """

    def __init__(self, release: Callable[[CallId], None]) -> None:
        self._release = release
        self._call_ids: list[CallId] = []

    def own(self, call_id: CallId) -> None:
        """Answer for one more id."""
        self._call_ids.append(call_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.on_exit(kind)

    def on_exit(self, _kind: type[BaseException] | None) -> None:
        """The call is over: by success, error, failed preparation or cancellation."""
        for call_id in self._call_ids:
            self._release(call_id)
        self._call_ids.clear()
