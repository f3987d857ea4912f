"""What a command asks a target for: its kind, and how its frontend is had and started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

REFERENCE = "reference"
"""A ``frontend`` that is our own server: ``reference``, or ``reference:<release>``."""


def is_reference(frontend: str | None) -> bool:
    """Whether a frontend is our own server: it can carry a mutant and has no known faults."""
    return frontend is not None and frontend.partition(":")[0] == REFERENCE


def names_a_path(frontend: str) -> bool:
    """Whether a frontend is a file, not a release."""
    return os.sep in frontend or Path(frontend).is_file()


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """Everything that opening a target depends on; equal requests open equal targets.

    Attributes:
        kind: one of ``registry.KINDS``.
        frontend: a release, a path to a binary, or ``reference`` (our own server) with an
            optional release behind a colon (``reference:0.28.0``); ``None`` for the newest.
        profile: release whose promises are judged, where the frontend does not fix it.
        arguments: given to the frontend's process as they are, behind our own.
        environment: names and values added to the environment of the frontend's process.
        mutant: known bug of a reference *frontend*; one of the reference client is no matter
            of the target.
        attach: address of a frontend that somebody else started, or ``None``.
        adapter: command line of an adapter, or ``None``.
    """

    kind: str = "sim"
    frontend: str | None = None
    profile: str | None = None
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mutant: str | None = None
    attach: str | None = None
    adapter: str | None = None
