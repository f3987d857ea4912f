"""Commands to a child process that wait for their answer."""

from __future__ import annotations

import asyncio

from mock_engines.outlets import ScriptError


class Commands:
    """Numbers commands, and wakes who waits when their answer comes.

    Some need not be waited for when the engine stalls. These are *let go*: they return at once,
    the engine does them later, and an error of theirs is nobody's but the run's.
    """

    def __init__(self) -> None:
        self._number = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._until_stalled: dict[int, None] = {}
        self._let_go: dict[int, None] = {}

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._waiting)

    def number(self) -> int:
        """Return the number of a new command."""
        self._number += 1
        return self._number

    async def wait(self, number: int, *, until_stalled: bool) -> None:
        """Wait for the answer. Raises ``ScriptError``: the engine could not do it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if until_stalled:
            self._until_stalled[number] = None
        try:
            await future
        finally:
            self._waiting.pop(number, None)
            self._until_stalled.pop(number, None)

    def let_go(self, number: int) -> None:
        """Nobody is to wait for this one."""
        self._let_go[number] = None

    def stalled(self) -> None:
        """The engine stalled: let go of what need not be waited for."""
        for number in tuple(self._until_stalled):
            self.let_go(number)
            _settle(self._waiting[number], None)

    def answered(self, number: int, error: str | None) -> ScriptError | None:
        """Take an answer. Returns an error that nobody waits for."""
        if number in self._let_go:
            del self._let_go[number]
            return None if error is None else ScriptError(error)
        if number in self._waiting:
            _settle(self._waiting[number], error)
        return None

    def end(self) -> None:
        """The process is gone: there is nothing left to wait for."""
        self._until_stalled.clear()
        self._let_go.clear()
        for future in tuple(self._waiting.values()):
            _settle(future, None)


def _settle(future: asyncio.Future[None], error: str | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(ScriptError(error))
