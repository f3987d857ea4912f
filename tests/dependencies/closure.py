"""Who is installed because of us: the package, its extras, and what they need in turn."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = "wavecheck"
SHIPPED = ("frontend", "explore", "watch", "dask", "differential", "pytest")
"""Extras of people who use the harness; all others are of people who work on it."""
DEVELOPMENT = ("dev",)


def closure(extras: Iterable[str]) -> frozenset[str]:
    """Names of the distributions that an installation with these extras brings here, without ours.

    What another platform or another Python would need besides is not there, and not told.

    Raises:
        RuntimeError: one that is needed here is not installed, so that the list would be a part.
    """
    found: set[tuple[str, str]] = set()
    todo = [(OURS, extra) for extra in ("", *extras)]
    missing = []
    while todo:
        name, extra = todo.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        try:
            here = distribution(name)
        except PackageNotFoundError:
            missing.append(name)
            continue
        todo += [
            (canonicalize_name(need.name), wanted)
            for need in _needs(here, extra)
            for wanted in ("", *need.extras)
        ]
    if missing:
        msg = f"not installed here: {', '.join(sorted(set(missing)))}; make venv installs all"
        raise RuntimeError(msg)
    return frozenset(name for name, _ in found) - {OURS}


def _needs(here: Distribution, extra: str) -> Iterable[Requirement]:
    for text in here.requires or ():
        need = Requirement(text)
        if need.marker is None:
            if not extra:
                yield need
        elif need.marker.evaluate({"extra": extra}) and (
            not extra or not need.marker.evaluate({"extra": ""})
        ):
            yield need
