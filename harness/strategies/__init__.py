"""Strategies and searches, found by scanning this package: one of a name in one file."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import TypeVar

from harness.strategies.base import Limits, Sampling, Search, Seen, Strategy

__all__ = [
    "Limits",
    "Search",
    "Seen",
    "Strategy",
    "UnknownStrategyError",
    "discover",
    "make_search",
    "make_strategy",
    "searches",
]

Kind = TypeVar("Kind", Strategy, Search)


class UnknownStrategyError(ValueError):
    """No strategy has this name; the message lists those that there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"no strategy is called {name!r}, there are: {', '.join(known)}{hint}")


def _scan(kind: type[Kind]) -> Iterator[type[Kind]]:
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__ or not issubclass(cls, kind):
                continue
            if "name" in vars(cls) and cls is not Sampling:
                yield cls


def _by_name(kind: type[Kind]) -> dict[str, type[Kind]]:
    found: dict[str, type[Kind]] = {}
    for cls in _scan(kind):
        if cls.name in found:
            modules = f"{found[cls.name].__module__} and {cls.__module__}"
            msg = f"strategy name {cls.name!r} is used twice: {modules}"
            raise RuntimeError(msg)
        found[cls.name] = cls
    return dict(sorted(found.items()))


@functools.cache
def discover() -> dict[str, type[Strategy]]:
    """Import every module of this package and return its strategies by name.

    Raises:
        RuntimeError: two classes have one name; the message names both modules.
    """
    return _by_name(Strategy)


@functools.cache
def _searches() -> dict[str, type[Search]]:
    return _by_name(Search)  # type: ignore[type-abstract]


def searches() -> dict[str, str]:
    """Titles of all that ``make_search`` takes, by name: searches, and strategies alone."""
    alone = {name: cls.title for name, cls in discover().items()}
    return dict(sorted({**alone, **{name: cls.title for name, cls in _searches().items()}}.items()))


def make_strategy(name: str, seed: int, schedule_index: int) -> Strategy:
    """Make the strategy that decides schedule ``schedule_index`` (from 0), whatever others saw.

    Raises:
        UnknownStrategyError: there is none of this name that needs no other schedule.
    """
    alone = {name: cls for name, cls in discover().items() if name not in _searches()}
    if name not in alone:
        raise UnknownStrategyError(name, list(alone))
    return alone[name](seed, schedule_index)


def make_search(name: str, seed: int, limits: Limits) -> Search:
    """Make what decides the schedules of a whole campaign.

    Raises:
        UnknownStrategyError: there is no such search or strategy.
    """
    if (found := _searches().get(name)) is not None:
        return found(seed, limits)
    if name not in discover():
        raise UnknownStrategyError(name, list(searches()))
    return Sampling(discover()[name], seed, limits)
