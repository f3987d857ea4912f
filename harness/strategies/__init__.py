"""The strategies, found by scanning this package: one class in one file, sorted by name."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil

from harness.strategies.base import Strategy

__all__ = ["Strategy", "UnknownStrategyError", "discover", "make_strategy"]


class UnknownStrategyError(ValueError):
    """No strategy has this name; the message lists those that there are."""


@functools.cache
def discover() -> dict[str, type[Strategy]]:
    """Import every module of this package and return its strategies by name.

    Raises:
        RuntimeError: two classes have one name; the message names both modules.
    """
    found: dict[str, type[Strategy]] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda item: item.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ != module.__name__ or not issubclass(cls, Strategy):
                continue
            if "name" not in vars(cls):
                continue
            if cls.name in found:
                modules = f"{found[cls.name].__module__} and {cls.__module__}"
                msg = f"strategy name {cls.name!r} is used twice: {modules}"
                raise RuntimeError(msg)
            found[cls.name] = cls
    return dict(sorted(found.items()))


def make_strategy(name: str, seed: int, schedule_index: int) -> Strategy:
    """Make the strategy that decides schedule ``schedule_index`` (from 0) of a run.

    Raises:
        UnknownStrategyError: there is no such strategy.
    """
    strategies = discover()
    if name not in strategies:
        near = difflib.get_close_matches(name, strategies, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        msg = f"no strategy is called {name!r}, there are: {', '.join(strategies)}{hint}"
        raise UnknownStrategyError(msg)
    return strategies[name](seed, schedule_index)
