"""The mutants, found by scanning this package: one class in one file, a folder for each family."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil

from client.protocol.profiles import Profile
from harness.mutants.base import Mutant


class UnknownMutantError(ValueError):
    """There is no mutant of this id; the message names those that are spelt alike."""

    def __init__(self, mutant_id: str) -> None:
        self.mutant_id = mutant_id
        near = difflib.get_close_matches(mutant_id, [mutant.id for mutant in discover()])
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        text = f"unknown mutant {mutant_id!r}{hint} (wavecheck list mutants shows all)"
        super().__init__(text)


@functools.cache
def discover() -> tuple[type[Mutant], ...]:
    """Import every module of this package, folders too, and return its mutants, sorted by id.

    Raises:
        RuntimeError: two classes have one id; the message names both files.
    """
    found: dict[str, type[Mutant]] = {}
    infos = pkgutil.walk_packages(__path__, prefix=f"{__name__}.")
    for info in sorted(infos, key=lambda item: item.name):
        module = importlib.import_module(info.name)
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__ or not issubclass(cls, Mutant) or cls is Mutant:
                continue
            if cls.id in found:
                files = f"{found[cls.id].__module__} and {cls.__module__}"
                msg = f"mutant id {cls.id!r} is used twice: {files}"
                raise RuntimeError(msg)
            found[cls.id] = cls
    return tuple(found[key] for key in sorted(found))


def seen_from_outside() -> tuple[type[Mutant], ...]:
    """Return the mutants whose fault a black box shows; a frontend that carries one is caught."""
    return tuple(mutant for mutant in discover() if mutant.visible() == "black-box")


def unseen_note(mutant_id: str | None, profile: Profile, *, black_box: bool) -> str:
    """Say that a target with this mutant cannot look broken, and why; ``""`` if it can.

    Args:
        mutant_id: of the mutant that the target carries, if any.
        profile: of the release that it speaks or imitates.
        black_box: whether it is judged from outside alone.
    """
    if mutant_id is None:
        return ""
    why = find_mutant(mutant_id).unseen_because(profile, black_box=black_box)
    return f"the mutant {mutant_id} cannot be seen here: {why}" if why else ""


def find_mutant(mutant_id: str) -> type[Mutant]:
    """Return the mutant of this id.

    Raises:
        UnknownMutantError: there is none.
    """
    for mutant in discover():
        if mutant.id == mutant_id:
            return mutant
    raise UnknownMutantError(mutant_id)
