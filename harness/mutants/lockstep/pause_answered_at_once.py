"""A pause is answered when it is taken, not when all ranks are at rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.mutants.base import Mutant
from harness.mutants.lockstep.one_phase import HIDDEN
from mock_engines.lockstep.rank import Later, Part, Rank
from mock_engines.parts import EngineParts


class AnswersAtOnce(Rank):
    """Pauses like any other, but does not wait for that."""

    def _answer(self, method: str, args: tuple[Any, ...]) -> Part:
        value = yield from super()._answer(method, args)
        return value.result() if isinstance(value, Later) else value


class PauseAnsweredAtOnce(Mutant):
    """See the module."""

    id = "pause-answered-at-once"
    family = "lockstep"
    title = "a pause is answered before the ranks agree on it"
    bug = "Whoever called changes weights under a step that is under way."
    source = "vLLM ``v1/engine/core.py`` (``_pause_complete``); a seeded fault"
    killed_by = "lockstep.pause-returns-at-rest"
    hidden_because = HIDDEN

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """Replace the loop of a rank."""
        return replace(base, rank=AnswersAtOnce)
