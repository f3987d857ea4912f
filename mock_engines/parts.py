"""The classes that mock engines are built from. A mutant replaces one of them by a subclass."""

from __future__ import annotations

from dataclasses import dataclass

from mock_engines.waves import AutoWaves


@dataclass(frozen=True, slots=True)
class EngineParts:
    """One class for each rule set that a cluster follows.

    Attributes:
        waves: when a wave starts and completes.
    """

    waves: type[AutoWaves] = AutoWaves
