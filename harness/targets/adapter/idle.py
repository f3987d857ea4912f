"""Adapter processes between two runs: a reusable one is kept, and ends with us at the latest.

One process for many runs saves its start, which is most of the time of a short scenario. A
process of which anything went wrong, or that was interrupted, never comes back here.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from dataclasses import dataclass

from harness.targets.adapter.greeting import greet
from harness.targets.adapter.lines import Greeting
from harness.targets.adapter.process import AdapterProcess
from harness.targets.base import TargetError


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an adapter is started: equal recipes start equal adapters.

    Attributes:
        command: words, the first an absolute path.
        environment: added to ours.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def make(self) -> AdapterProcess:
        """A process that is not started yet."""
        given: Mapping[str, str] = {**os.environ, **dict(self.environment)}
        return AdapterProcess(self.command, given)


_idle: dict[Recipe, list[tuple[AdapterProcess, Greeting]]] = {}


async def take(recipe: Recipe) -> tuple[AdapterProcess, Greeting]:
    """Return a process that said hello and is attached to nothing: an idle one, or a new one.

    Raises:
        TargetError: it cannot be started, or its hello is no good; or an idle one ended, or spoke
            out of turn (the next one is new).
    """
    if _idle.get(recipe):
        process, greeting = _idle[recipe].pop()
        if (said := process.out_of_turn()) is not None:
            process.fail("wrote between two runs" if said else "ended between two runs", said)
            process.close()
            raise TargetError(str(process.failure))
        return process, greeting
    process = recipe.make()
    process.start()
    try:
        return process, await greet(process)
    except BaseException:
        process.close(patient=False)
        raise


def give_back(recipe: Recipe, process: AdapterProcess, greeting: Greeting) -> None:
    """Keep a detached process for the next run of its recipe."""
    _idle.setdefault(recipe, []).append((process, greeting))


def close_idle() -> None:
    """End all processes that are kept."""
    while _idle:
        _, kept = _idle.popitem()
        for process, _greeting in kept:
            process.close()


atexit.register(close_idle)
