"""Stands for modules that vLLM's classes import but need not have here (torch, configuration …).

A stub may be named, subclassed, subscripted, joined with ``|`` and used as a decorator while a
module is being imported, because that decides nothing. To *use* one afterwards raises
``StubUsedError``: what is judged must never rest on something that is not vLLM's.

Runs in child processes only.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_importing = 0
"""How many modules are being executed now."""


class StubUsedError(RuntimeError):
    """Code that runs used something that is not there: the result could not be vLLM's."""


@contextmanager
def importing() -> Iterator[None]:
    """Allow stubs to be called inside: module level code decorates, annotates and registers."""
    global _importing
    _importing += 1
    try:
        yield
    finally:
        _importing -= 1


_told: Callable[[str], None] = lambda _what: None  # noqa: E731


def tell_uses_to(listener: Callable[[str], None]) -> None:
    """Tell ``listener`` of every use, because the code that runs may swallow the error."""
    global _told
    _told = listener


def _check(what: str) -> None:
    if not _importing:
        msg = f"{what} is a stub here, and the code that runs needs the real one"
        _told(msg)
        raise StubUsedError(msg)


class StubMeta(ABCMeta):
    """Type of all stub classes; their subclasses in vLLM's modules are ordinary classes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object of a subclass; a stub itself can be a decorator or a placeholder."""
        if "_stub" not in cls.__dict__:
            return super().__call__(*args, **kwargs)
        _check(f"{cls.__module__}.{cls.__qualname__}()")
        return _decorated(args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or "_stub" not in cls.__dict__:
            raise AttributeError(name)
        _check(f"{cls.__module__}.{cls.__qualname__}.{name}")
        return make_stub(cls.__module__, f"{cls.__qualname__}.{name}")

    def __getitem__(cls, _item: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Placeholder:
    """What calling a stub at import time returns."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Be a decorator with arguments, or once more a placeholder."""
        _check("the result of a stub")
        return _decorated(args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _check(f"the result of a stub (.{name})")
        return self

    def __bool__(self) -> bool:
        return False


def _decorated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
        return args[0]
    return Placeholder()


def make_stub(module: str, name: str) -> Any:
    """Return a new stub class; one that is named like an error can be raised and caught."""
    bases = (Exception,) if name.endswith(("Error", "Exception")) else ()
    return StubMeta(name.rpartition(".")[2], bases, {"_stub": True, "__module__": module})


class StubModule(ModuleType):
    """A module that has everything. Real modules below it are found before stubs are made."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "A stub.")
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = make_stub(self.__name__, name)
        setattr(self, name, value)
        return value
