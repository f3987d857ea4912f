"""Who is installed because of us: the package, its extras, and what they need in turn."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
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
    missing = set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        try:
            needs = list(_needs(name, extra))
        except PackageNotFoundError:
            missing.add(name)
            continue
        todo += [
            (canonicalize_name(need.name), wanted)
            for need in needs
            for wanted in ("", *sorted(need.extras))
        ]
    if missing:
        msg = f"not installed here: {', '.join(sorted(missing))}; make venv installs all"
        raise RuntimeError(msg)
    return frozenset(name for name, _ in found) - {OURS}


def _needs(name: str, extra: str) -> Iterator[Requirement]:
    """Requirements of a distribution that one extra adds; ``""``: those without any."""
    if name == OURS:
        yield from map(Requirement, _own(extra))
        return
    for text in distribution(name).requires or ():
        need = Requirement(text)
        marker = need.marker
        if marker is None or marker.evaluate({"extra": ""}):
            if not extra:
                yield need
        elif extra and marker.evaluate({"extra": extra}):
            yield need


def _own(extra: str) -> list[str]:
    """Ours come from the tree: an editable installation remembers what they were."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"][extra] if extra else project["dependencies"])
