"""Scenarios that are a little smaller than a given one. Pure; most need not make sense.

The loader's own checks say which of them can be played. Passes that take much away come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.shrink.closures import Data, gates, operations, without_gate, without_operation
from harness.shrink.ranks import ranks, without_rank

Pass = Callable[[Data], Iterator[dict[str, Any]]]
Path = tuple[str | int, ...]
HEAD = ("known", "trials", "needs", "explore", "invariants", "open_at_end", "profiles", "engines")
"""Keys of a file that can be left out altogether."""
_KEPT = frozenset({"title", "promise", "refs", "steps"})
"""Keys of a file that are there in any case."""


def head(data: Data) -> Iterator[dict[str, Any]]:
    """Without one of the keys at the top."""
    for key in (*HEAD, "topology"):
        if key in data:
            yield {name: value for name, value in data.items() if name != key}


def whole_operations(data: Data) -> Iterator[dict[str, Any]]:
    """Without one operation and all that speaks of it."""
    for name in operations(data):
        yield without_operation(data, name)


def whole_gates(data: Data) -> Iterator[dict[str, Any]]:
    """Without one gate."""
    for name in gates(data):
        yield without_gate(data, name)


def fewer_engines(data: Data) -> Iterator[dict[str, Any]]:
    """With one engine less."""
    for rank in ranks(data):
        yield without_rank(data, rank)


def fewer_steps(data: Data) -> Iterator[dict[str, Any]]:
    """Without some steps in a row: half of them, a quarter, down to each one."""
    steps = data["steps"]
    size = len(steps) // 2
    while size:
        for start in range(len(steps) - size, -1, -size):
            yield {**data, "steps": steps[:start] + steps[start + size :]}
        size //= 2


def fewer_parts(data: Data) -> Iterator[dict[str, Any]]:
    """Without one item of a list or one key of a mapping, outer ones first."""
    for path in sorted(_paths(data), key=len):
        if len(path) > 1 and (path[0] != "steps" or len(path) > 3):
            yield _edited(data, path, None)


def smaller_numbers(data: Data) -> Iterator[dict[str, Any]]:
    """With one number nearer to 0."""
    for path in _paths(data):
        value = _at(data, path)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            continue
        for smaller in dict.fromkeys((0, 1, value // 2, value - 1)):
            if smaller < value:
                yield _edited(data, path, (smaller,))


PASSES: tuple[Pass, ...] = (
    head,
    fewer_steps,
    whole_operations,
    whole_gates,
    fewer_engines,
    smaller_numbers,
    fewer_parts,
)


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of every value inside, from the end of the file, so that indices stay valid."""
    items: list[tuple[str | int, Any]]
    if isinstance(value, Mapping):
        items = [
            (key, one) for key, one in value.items() if path or key not in {"title", "promise"}
        ]
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return
    for key, one in reversed(items):
        yield (*path, key)
        yield from _paths(one, (*path, key))


def _at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def _edited(data: Any, path: Path, value: tuple[Any] | None) -> Any:
    """A copy with another value at a path; ``None``: without what is there."""
    key, rest = path[0], path[1:]
    copy: Any = dict(data) if isinstance(data, Mapping) else list(data)
    if rest:
        copy[key] = _edited(data[key], rest, value)
    elif value is None:
        del copy[key]
    else:
        copy[key] = value[0]
    return copy


def nodes(value: Any) -> int:
    """How many keys, items and values there are."""
    if isinstance(value, Mapping):
        return sum(1 + nodes(one) for one in value.values())
    if isinstance(value, list):
        return 1 + sum(nodes(one) for one in value)
    return 1


def total(value: Any) -> int:
    """Sum of all whole numbers."""
    if isinstance(value, Mapping):
        return sum(total(one) for one in value.values())
    if isinstance(value, list):
        return sum(total(one) for one in value)
    return abs(value) if isinstance(value, int) and not isinstance(value, bool) else 0
