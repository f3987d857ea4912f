"""Invariant engine.utility-effects-settled."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping

from harness.invariants._fanouts import FanOutBook
from harness.invariants._run import RunInvariant, event_types
from harness.invariants.base import Kind, Level, RunContext
from harness.trace.events import Record
from mock_engines.events import EngineDied, EngineRemoved, UtilityApplied

_COUNTER = "_resets"


class UtilityEffectsSettled(RunInvariant):
    """After a failed admin call the engines are equal again.

    Statement: If a utility call that changes state failed, then at the final fence every engine
        has gone through the same changes, undone ones included, as far as their state tells.
    Reason: A group that is half paused, or half without an adapter, gives answers that depend on
        the engine that a request happens to meet.
    Source: vllm#52671 (compensation as the reason to wait for all engines); fault U2 and B37,
        B38 of the catalogue of public faults: no release compensates by itself.
    Limits: A wish, not a promise. States are compared by the keys that utilities changed, caches
        that were reset apart; an engine that died is left out.
    """

    id = "engine.utility-effects-settled"
    level = Level.SHOULD
    kind = Kind.EVENTUALLY
    needs = frozenset({"see.wire", "see.results"})
    handles = event_types((UtilityApplied, EngineDied, EngineRemoved))

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.fans = context.shelf.book(FanOutBook, context)
        self._states: dict[int, dict[str, str]] = {rank: {} for rank in context.ranks}
        self._last: dict[int, Record] = {}
        self._touched: dict[int, None] = {}
        self._dead: dict[int, None] = {}

    def see(self, record: Record) -> None:
        """Keep each engine's state."""
        event = record.event
        if isinstance(event, EngineDied | EngineRemoved):
            self._dead[event.engine] = None
        else:
            assert isinstance(event, UtilityApplied)
            self._touched[event.call_id] = None
            self._last[event.engine] = record
            state = self._states.setdefault(event.engine, {})
            state.update(_pairs(event.state))

    def at_rest(self) -> None:
        """Compare the engines, if some state-changing call failed."""
        failed = [
            fan
            for fan in self.fans.fans.values()
            if fan.end is not None
            and fan.end.outcome == "failed"
            and any(call_id in self._touched for call_id in fan.calls)
        ]
        if not failed or self.fenced is None:
            return
        self.exercised += len(failed)
        live = [rank for rank in self._states if rank not in self._dead]
        keys = dict.fromkeys(key for rank in live for key in self._states[rank])
        for key in keys:
            values = {rank: _settled(self._states[rank].get(key)) for rank in live}
            if len({repr(value) for value in values.values()}) > 1:
                shown = ", ".join(f"engine {rank}: {value!r}" for rank, value in values.items())
                self.violate(
                    f"{failed[0].event.method} failed and left the engines apart",
                    expected=f"one value of {key} at all engines",
                    seen=shown,
                    witness=(
                        *(fan.ended for fan in failed if fan.ended is not None),
                        *(self._last[rank] for rank in live if rank in self._last),
                    ),
                )
                return


@functools.lru_cache(maxsize=1_024)
def _pairs(text: str) -> Mapping[str, str]:
    """Read ``state``: ``key=repr`` pairs with commas between. Counters of resets are no state.

    Kept: it is the same in every schedule. Nobody changes the result.
    """
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError:
        return {"state": text}
    if not isinstance(call, ast.Call):
        return {"state": text}
    return {
        item.arg: ast.unparse(item.value)
        for item in call.keywords
        if item.arg is not None and not item.arg.endswith(_COUNTER)
    }


_OFF = frozenset({"None", "False", "[]", "{}", "''", "0"})


def _settled(value: str | None) -> str | None:
    """A key that was never set equals one that is empty or off."""
    return None if value in _OFF else value
