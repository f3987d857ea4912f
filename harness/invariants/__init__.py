"""The invariants, found by scanning this package: one class in one file, sorted by id."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil

from harness.invariants.base import Invariant


@functools.cache
def discover() -> tuple[type[Invariant], ...]:
    """Import every module of this package and return its invariants, sorted by id.

    Raises:
        RuntimeError: two classes have one id; the message names both files.
    """
    found: dict[str, type[Invariant]] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__ or not hasattr(cls, "id"):
                continue
            if not issubclass(cls, Invariant):
                continue
            if cls.id in found:
                files = f"{found[cls.id].__module__} and {cls.__module__}"
                msg = f"invariant id {cls.id!r} is used twice: {files}"
                raise RuntimeError(msg)
            found[cls.id] = cls
    return tuple(found[key] for key in sorted(found))
